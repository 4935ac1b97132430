"""The schedule `rows`: kernels that reduce rows or columns, with the ops on each of them before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from mlir import ir

from ...emission.launch import EmittedGeometry, LaunchContext
from ...emission.values import Values
from ...emission.views import memories
from ...instructions import memory
from ...target import GpuTarget
from . import emit as code
from . import schedule as schedules
from .assignment import NoRows
from .axes import merged_axes
from .space import row_space


def choose(function: ir.Operation, target: GpuTarget) -> Mapping[str, int] | None:
    """Returns the parameters for a launch, or None if its ops do not share rows."""
    assert target.capability is not None
    try:
        space = row_space(function, memories(function))
    except NoRows:
        return None
    return asdict(schedules.choose(space, merged_axes(space), target.capability.multiprocessors))


def emit(launch: LaunchContext, _values: Values) -> EmittedGeometry:
    """Writes the kernel."""
    space = row_space(launch.function, launch.arguments)
    axes = merged_axes(space)
    schedule = schedules.RowSchedule(**{name: int(str(number)) for name, number in launch.schedule.items()})
    pointers = {item.base: memory.global_memory(item.base) for item in launch.arguments.values()}
    bytes = code.shared_bytes(space, axes, schedule)
    code.emit(space, axes, schedule, pointers, memory.shared_memory() if bytes else None)
    return EmittedGeometry((schedule.blocks(space, axes), 1, 1), (schedule.threads, 1, 1), shared_bytes=bytes)
