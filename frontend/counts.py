"""Sizes of results that depend on data: the extents of values as numbers that are computed at run time."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ..dialects import discardable
from .errors import UnsupportedError


class Counts:
    """The values of one import whose size depends on data.

    Attributes:
        are_supported: whether the target has code for such values.
    """

    def __init__(self, are_supported: bool) -> None:
        self.are_supported = are_supported
        self._found: dict[ir.Value, tuple[int, ir.Value]] = {}

    def add(self, value: ir.Value, axis: int, number: ir.Value) -> None:
        """Records that the extent of a result along an axis is a number that is computed at run time.

        Args:
            value: the result, with room for the most elements.
            axis: the dimension.
            number: the extent, an i64 scalar.

        Raises:
            UnsupportedError: the target has no code for such a result.
        """
        if not self.are_supported:
            raise UnsupportedError("the size of its output depends on data, which the target has no code for")
        self._found[value] = axis, number

    def __contains__(self, value: object) -> bool:
        return isinstance(value, ir.Value) and value in self._found

    def __getitem__(self, value: ir.Value) -> tuple[int, ir.Value]:
        """The axis, and the extent along it."""
        return self._found[value]

    def returned(self, outputs: Sequence[ir.Value]) -> tuple[list[ir.Value], list[ir.DictAttr]]:
        """The extents of outputs of @main, which it returns behind these, and the attributes of each."""
        found: dict[ir.Value, list[int]] = {}
        for index, value in enumerate(outputs):
            if value in self:
                axis, number = self[value]
                found.setdefault(number, []).extend([index, axis])
        return list(found), [ir.DictAttr.get(discardable.COUNT.entry(cropped)) for cropped in found.values()]
