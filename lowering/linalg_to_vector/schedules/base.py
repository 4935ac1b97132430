"""Schedules of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir

from ....dialects import discardable


@dataclass(frozen=True)
class Schedule:
    """Tiling of a kernel.

    Attributes:
        name: kind of schedule.
        parameters: numbers that determine the tiling; a tuner may replace them.
        text: transform script, applied to the kernel.
    """

    name: str
    parameters: dict[str, int | list]
    text: str

    def attribute(self) -> ir.DictAttr:
        """Returns the schedule as recorded on the kernel."""
        entries = {name: _attribute(value) for name, value in self.parameters.items()}
        return ir.DictAttr.get({"name": ir.StringAttr.get(self.name), **entries})


def given_parameters(kernel: ir.Operation) -> dict[str, Any]:
    """Returns the parameters in the kernel's `stepwell.schedule` attribute, if it has one."""
    recorded = discardable.SCHEDULE.read(kernel)
    if not isinstance(recorded, ir.DictAttr):
        return {}
    return {item.name: _python(item.attr) for item in recorded if item.name != "name"}


def _attribute(value: int | str | list) -> ir.Attribute:
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    if all(isinstance(item, int) for item in value):
        return ir.DenseI64ArrayAttr.get(value)
    return ir.ArrayAttr.get([_attribute(item) for item in value])


def _python(attribute: ir.Attribute) -> int | str | list:
    if isinstance(attribute, ir.StringAttr):
        return attribute.value
    if isinstance(attribute, ir.IntegerAttr):
        return attribute.value
    if isinstance(attribute, ir.DenseI64ArrayAttr):
        return list(attribute)
    return [_python(item) for item in ir.ArrayAttr(attribute)]
