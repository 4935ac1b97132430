"""Registry of launch schedules: the choosers that select one and the emitters that write its kernel.

A schedule is a name and parameters, recorded on the launch as `stepwell.schedule`, so that it can be inspected, edited
and used as a starting point. A chooser returns the parameters if its schedule can implement a launch; the first chooser
that succeeds wins. An emitter turns a launch with such a schedule into a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from ....dialects import discardable
from ....passes.infra.base import PassError
from ..emission.launch import EmittedGeometry, LaunchContext
from ..emission.values import Values
from ..kernels import elements
from ..kernels.attention import emitter as attention
from ..kernels.contraction import emit as contraction
from ..kernels.rows import emitter as rows
from ..kernels.transpose import emitter as transpose
from ..target import GpuTarget

Chooser = Callable[[ir.Operation, GpuTarget], Mapping[str, Any] | None]
"""Takes a function made by `stepwell-form-launches` and the target; returns the parameters, or None if not applicable.
"""
Emitter = Callable[[LaunchContext, Values], EmittedGeometry]
"""Writes the kernel at the insertion point and returns its launch geometry."""

CHOOSERS: Sequence[tuple[str, Chooser]] = (
    ("attention", attention.choose),
    ("contraction", contraction.choose_numbers),
    ("rows", rows.choose),
    ("transpose", transpose.choose),
)
"""Schedules that apply to some launches only, the most specific first."""

EMITTERS: Mapping[str, Emitter] = {
    "attention": attention.emit,
    "contraction": contraction.emit,
    "elements": elements.emit,
    "rows": rows.emit,
    "transpose": transpose.emit,
}


def choose(function: ir.Operation, target: GpuTarget) -> tuple[str, Mapping[str, Any]] | None:
    """Returns the schedule of a launch and its parameters, or None if only `elements` applies."""
    for name, chooser in CHOOSERS:
        numbers = chooser(function, target)
        if numbers is not None:
            return name, numbers
    return None


def schedule_attribute(name: str, numbers: Mapping[str, Any]) -> ir.DictAttr:
    """Returns the attribute that records a schedule."""
    return ir.DictAttr.get(
        {"name": ir.StringAttr.get(name), **{key: _attribute(item) for key, item in numbers.items()}}
    )


def recorded_schedule(function: ir.Operation) -> tuple[str, dict[str, Any]]:
    """Returns the name of a launch's schedule and its parameters.

    Raises:
        PassError: the launch has no schedule, or an unknown one.
    """
    recorded = discardable.SCHEDULE.read(function)
    if not isinstance(recorded, ir.DictAttr):
        raise PassError("a launch has no schedule", function.location)
    entries = {item.name: _value(item.attr) for item in recorded}
    name = entries.pop("name", None)
    if name not in EMITTERS:
        raise PassError(f"unknown schedule '{name}'; expected one of {', '.join(EMITTERS)}", function.location)
    return name, entries


def _attribute(value: Any) -> ir.Attribute:
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    return ir.DenseI64ArrayAttr.get(list(value))


def _value(attribute: ir.Attribute) -> Any:
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return tuple(attribute)
    if isinstance(attribute, ir.BoolAttr | ir.IntegerAttr | ir.StringAttr):
        return attribute.value
    raise PassError(f"unsupported attribute in a schedule: {attribute}")
