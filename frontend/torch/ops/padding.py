"""Padding: with a value, and with elements of the tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import (
    DynamicPadOp,
    DynamicSliceOp,
    PadOp,
)
from ...build import (
    cast,
    dtype,
    emit,
    integers,
    part_along,
    rank,
    scalar,
    shape,
)
from ..node import AtenNode
from ..registry import AtenHandler, imports
from ..symbols import AtenSize, extents

_END = np.iinfo(np.int64).max


@imports("aten.constant_pad_nd.default")
def constant_pad(node: AtenNode, input: ir.Value, pad: Sequence[AtenSize], value: Any) -> ir.Value:
    """Elements added at both ends of the last dimensions, or removed for negative amounts."""
    low, high = _pads(input, pad)
    if not isinstance(value, ir.Value) and all(isinstance(item, int) for item in (*low, *high)):
        numbers = [[int(item) for item in side if isinstance(item, int)] for side in (low, high)]
        input = _cropped(input, *numbers)
        added = [tuple(max(item, 0) for item in side) for side in numbers]
        if not any(map(any, added)):
            return input
        is_exact = float(value) == value
        if is_exact:
            return emit(PadOp, input, low=added[0], high=added[1], value=float(value))
    fill = cast(value, dtype(input)) if isinstance(value, ir.Value) else scalar(value, input)
    return emit(DynamicPadOp, input, extents([*low, *high]), fill)


def _pads(input: ir.Value, pad: Sequence[AtenSize]) -> tuple[list[AtenSize], list[AtenSize]]:
    """Amounts before and after each dimension, from torch's pairs, which begin with the last dimension."""
    low: list[AtenSize] = [0] * rank(input)
    high: list[AtenSize] = [0] * rank(input)
    for number in range(len(pad) // 2):
        low[-1 - number], high[-1 - number] = pad[2 * number], pad[2 * number + 1]
    return low, high


def _cropped(value: ir.Value, low: Sequence[int], high: Sequence[int]) -> ir.Value:
    """Removes elements where amounts are negative."""
    for axis, (before, after) in enumerate(zip(low, high, strict=True)):
        size = shape(value)[axis]
        if (before < 0 or after < 0) and isinstance(size, int):
            value = part_along(value, axis, max(-before, 0), size + min(after, 0))
        elif before < 0 or after < 0:
            stop = after if after < 0 else _END
            value = emit(DynamicSliceOp, value, *map(integers, ([max(-before, 0)], [stop], [axis])))
    return value


def padded(mode: str) -> AtenHandler:
    """Returns the importer of padding by elements of the tensor, in a mode of `stepwell.pad`."""

    def handler(node: AtenNode, input: ir.Value, padding: Sequence[AtenSize]) -> ir.Value:
        low, high = _pads(input, padding)
        numbers = [tuple(item for item in side if isinstance(item, int)) for side in (low, high)]
        if len(numbers[0]) + len(numbers[1]) != 2 * rank(input):
            return emit(DynamicPadOp, input, extents([*low, *high]), mode=mode)
        added = [tuple(max(item, 0) for item in side) for side in numbers]
        value = emit(PadOp, input, low=added[0], high=added[1], mode=mode) if any(map(any, added)) else input
        return _cropped(value, *numbers)

    return handler


for _dimensions in (1, 2, 3):
    imports(f"aten.reflection_pad{_dimensions}d.default")(padded("reflect"))
    imports(f"aten.replication_pad{_dimensions}d.default")(padded("edge"))
