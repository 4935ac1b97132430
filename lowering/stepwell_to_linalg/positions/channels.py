"""Windows at computed positions: all channels of a window together, in vectors, as they share the positions.

%last = linalg.generic {transpose} ins(%images)
scf.forall (%region, %, %, %) shared_outs(%block = %out) {
  scf.for %row { scf.for %column { %pooled = vector.transfer_read %last[...] ... } }
  linalg.generic {transpose} ins(%pooled) outs(%block)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith

from ....machines.families import WIDEST_VECTOR_BYTES
from ....passes.ir.values import element_type_of, shape_of
from ...builders.access import Point, broadcast, read_row, vector_type, write_row
from ...builders.indices import value_of
from ...builders.scalars import compute_type, number
from ...builders.tensors import copy, dims, empty, with_shape
from ..cumulative import pieces, place_of
from ..sequences import in_parallel, repeat

ReadAt = Callable[[ir.Value, ir.Value, ir.Value], ir.Value]
"""Reads an element, or those of a vector of channels, at an image, a row and a column."""
_Window = Callable[[ir.Value, Sequence[ir.Value], ReadAt, ir.Type], ir.Value]

# Bytes of channels per vector, in four of the widest registers.
_VECTOR_BYTES = 4 * WIDEST_VECTOR_BYTES


def scalar_of(kind: ir.Type) -> ir.Type:
    """Returns the type of a vector's elements; for a scalar type, the type itself."""
    return ir.VectorType(kind).element_type if isinstance(kind, ir.VectorType) else kind


def like(value: ir.Value, kind: ir.Type) -> ir.Value:
    """Returns a scalar as a value of type `kind`: the same in every lane, if that type is a vector."""
    return broadcast(value, ir.VectorType(kind).shape[0]) if isinstance(kind, ir.VectorType) else value


def filled_like(value: float, kind: ir.Type) -> ir.Value:
    """Returns a number as a value of type `kind`: the same in every lane, if that type is a vector."""
    return like(number(value, scalar_of(kind)), kind)


def by_channels(images: ir.Value, outs: Sequence[ir.Value], elements: int, window: _Window) -> list[ir.Value] | None:
    """Emits windows of [region, channel, row, column]; `window` computes all channels of one window.

    Args:
        images: images, [image, channel, row, column].
        outs: the destination.
        elements: approximate number of positions in a window.
        window: gets the region, the row and column of the window, the function that reads and the type of its
            result.

    Returns:
        The result; None if the images are too large beside the windows for transposing them to pay off.
    """
    shape, (count, channels, *sizes) = shape_of(images), shape_of(outs[0])
    if 0 in (*shape, count) or count * math.prod(sizes) * elements < math.prod(shape[2:]) * shape[0] // 4:
        return None
    narrow_kind, wide = element_type_of(images), compute_type(element_type_of(images))
    n, h, w, c = dims(4)
    last = copy(images, empty([shape[0], *shape[2:], channels], narrow_kind), [n, c, h, w])
    assert isinstance(wide, ir.FloatType)
    widest = _VECTOR_BYTES * 8 // wide.width
    columns, places = sizes[1], math.prod(sizes)

    def of_region(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
        made = empty([places, channels], narrow_kind)
        for start, lanes, many in pieces(channels, widest):

            def bins(
                index: ir.Value, carried: list[ir.Value], start: int = start, lanes: int = lanes, many: int = many
            ) -> list[ir.Value]:
                kind, point = vector_type(lanes, wide), Point((), None, lanes, lanes)
                bin_, part = arith.divui(index, value_of(many)), arith.remui(index, value_of(many))
                channel = place_of(start, part, lanes)

                def read(image: ir.Value, row: ir.Value, column: ir.Value) -> ir.Value:
                    value = read_row(last, [image, row, column, channel], point)
                    return value if value.type == kind else arith.extf(kind, value)

                place = [arith.divui(bin_, value_of(columns)), arith.remui(bin_, value_of(columns))]
                value = window(at[0], place, read, kind)
                value = value if wide == narrow_kind else arith.truncf(vector_type(lanes, narrow_kind), value)
                return [write_row(value, carried[0], [bin_, channel], point)]

            (made,) = repeat(0, places * many, [made], bins)
        target = with_shape(block, [channels, places])
        return with_shape(copy(made, target, dims(2)[::-1]), shape_of(block))

    return [in_parallel([1, channels, *sizes], outs[0], of_region)]
