"""The schedule `transpose`: transposes of tensors in shared memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict

from mlir import ir

from ...emission.launch import EmittedGeometry, LaunchContext
from ...emission.values import Values
from ...emission.views import memories
from ...instructions import memory
from ...target import GpuTarget
from . import emit as code
from . import plan as plans

# With fewer elements along one of the loops, tiles are mostly empty and caches suffice.
_FEWEST = 8


def choose(function: ir.Operation, _target: GpuTarget) -> Mapping[str, int] | None:
    """Returns the parameters for a launch, or None if it contains no transpose that is large enough."""
    try:
        plan = plans.transpose_of(function, memories(function))
    except plans.NoTranspose:
        return None
    if min(plan.sizes[plan.source], plan.sizes[plan.target]) < _FEWEST:
        return None
    return asdict(plans.choose(plan))


def emit(launch: LaunchContext, _values: Values) -> EmittedGeometry:
    """Writes the kernel."""
    plan = plans.transpose_of(launch.function, launch.arguments)
    schedule = plans.TransposeSchedule(**{name: int(str(number)) for name, number in launch.schedule.items()})
    pointers = {item.base: memory.global_memory(item.base) for item in launch.arguments.values()}
    code.emit(plan, schedule, pointers, memory.shared_memory())
    blocks, bytes = math.prod(plans.blocks(plan, schedule)), plans.shared_bytes(plan, schedule)
    return EmittedGeometry((blocks, 1, 1), (schedule.threads, 1, 1), shared_bytes=bytes)
