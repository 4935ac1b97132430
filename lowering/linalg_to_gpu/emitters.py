"""The schedules of launches: which one a launch gets, and who writes its kernel.

A schedule is a name and numbers, recorded on the launch as `stepwell.schedule`, so that it can be read, edited and gone
on from. A chooser says whether its schedule can do a launch and with which numbers; the first one that can does it. An
emitter turns a launch with such a schedule into a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from ...passes.base import PassError
from ..target import Target
from . import elements
from .attention import emitter as attention
from .contraction import emit as contraction
from .launch import Geometry, Launch
from .rows import emitter as rows
from .transpose import emitter as transpose
from .values import Values

ATTRIBUTE = "stepwell.schedule"

Chooser = Callable[[ir.Operation, Target], Mapping[str, Any] | None]
"""Given a function as `stepwell-form-launches` makes it and the target: the numbers, or None where it cannot do it."""
Emitter = Callable[[Launch, Values], Geometry]
"""Writes the kernel at the insertion point, and says how many threads do it."""

CHOOSERS: Sequence[tuple[str, Chooser]] = (
    ("attention", attention.choose),
    ("contraction", contraction.choose_numbers),
    ("rows", rows.choose),
    ("transpose", transpose.choose),
)
"""The schedules that some launches have and others not, the most particular first."""

EMITTERS: Mapping[str, Emitter] = {
    "attention": attention.emit,
    "contraction": contraction.emit,
    "elements": elements.emit,
    "rows": rows.emit,
    "transpose": transpose.emit,
}


def choose(function: ir.Operation, target: Target) -> tuple[str, Mapping[str, Any]] | None:
    """The schedule of a launch, and its numbers; None where only `elements` may do it."""
    for name, chooser in CHOOSERS:
        numbers = chooser(function, target)
        if numbers is not None:
            return name, numbers
    return None


def schedule_attribute(name: str, numbers: Mapping[str, Any]) -> ir.DictAttr:
    """What is recorded of a schedule."""
    return ir.DictAttr.get(
        {"name": ir.StringAttr.get(name), **{key: _attribute(item) for key, item in numbers.items()}}
    )


def recorded_schedule(function: ir.Operation) -> tuple[str, dict[str, Any]]:
    """The name of a launch's schedule and its numbers.

    Raises:
        PassError: there is none, or no such schedule.
    """
    if ATTRIBUTE not in function.attributes:
        raise PassError("a launch has no schedule", function.location)
    entries = {item.name: _value(item.attr) for item in ir.DictAttr(function.attributes[ATTRIBUTE])}
    name = entries.pop("name", None)
    if name not in EMITTERS:
        raise PassError(f"there is no schedule '{name}'; there are {', '.join(EMITTERS)}", function.location)
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
    raise PassError(f"{attribute} is not what a schedule holds")
