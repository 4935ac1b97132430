"""Views of tensors row by row, as attention with few queries reads keys, values and masks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, bufferization, memref, tensor, vector

from ...dialects.stepwell.paging import MIDDLE
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import element_type_of, shape_of
from ..builders.access import Point, broadcast, read_row, vector_type, zero
from ..builders.indices import Index, value_of
from ..builders.scalars import number
from ..builders.tensors import copy, dims, empty
from .appending import bits_of
from .cumulative import pieces
from .views import TensorView

LANES = WIDEST_VECTOR_BYTES // 4
"""Number of elements per vector; targets with shorter registers use several registers."""

_LINE_BITS = 512
"""Number of bits in a cache line."""


@dataclass(frozen=True)
class PagedRows:
    """Pages in which keys and values are.

    Attributes:
        pages: the pages of each text, [texts, pages of a text].
        starts: the position of the first key of each text, [texts].
        size: number of rows of a page.
        key_scales: factors of the keys, [1, key heads, rows, 1]; None if keys are stored as they are.
        value_scales: factors of the values.
        parts: number of elements in a byte of the pools, 1 or 2; 1 if they hold floats.
    """

    pages: ir.Value
    starts: ir.Value
    size: int
    key_scales: TensorView | None = None
    value_scales: TensorView | None = None
    parts: int = 1


def clipped(number: ir.Value, count: int) -> ir.Value:
    """Returns an i64 number as an index from 0 on and less than `count`."""
    index = arith.index_cast(ir.IndexType.get(), number)
    return arith.minsi(arith.maxsi(index, value_of(0)), value_of(count - 1))


def split_heads(view: TensorView, heads: int, shared: int) -> TensorView:
    """Returns [batch, heads, ..] as [batch, key heads, heads that share one, ..]."""
    first, second, *rest = view.axes
    if shared == 1:
        return TensorView(view.base, (first, second, None, *rest))
    return TensorView(view.base, (first, None, second, *rest)) if heads == 1 else view.split(1, (heads, shared))


def with_rows(view: TensorView) -> TensorView:
    """Returns the view, or a copy in which elements along the last dimension are contiguous."""
    shape = view.shape
    if shape[-1] == 1 or view.axes[-1] == len(shape_of(view.base)) - 1:
        return view
    loops = {axis: dims(len(shape))[dim] for dim, axis in enumerate(view.axes)}
    exprs = [loops.get(axis, ir.AffineExpr.get_constant(0)) for axis in range(len(shape_of(view.base)))]
    return TensorView.whole(copy(view.base, empty(shape, element_type_of(view.base)), exprs))


def places_in(view: TensorView, places: Sequence[Index]) -> list[ir.Value]:
    """Returns indices of the base; a dimension of one element is always read at 0."""
    found: list[Index] = [0] * len(shape_of(view.base))
    for axis, size, place in zip(view.axes, view.shape, places, strict=True):
        if axis is not None and size != 1:
            found[axis] = place
    return list(map(value_of, found))


def lanes_of(width: int) -> Point:
    """Returns the lanes of a vector along the last dimension."""
    return Point((), 0, width, width)


def runs_of(depth: int, parts: int = 1) -> list[tuple[int, int]]:
    """Returns the start and the width of the vectors of a row; none of them has elements of two of its equal parts."""
    return [
        (depth // parts * part + start + width * place, width)
        for part in range(parts)
        for start, width, count in pieces(depth // parts, LANES)
        for place in range(count)
    ]


def read(view: TensorView, places: Sequence[Index], width: int) -> ir.Value:
    """Reads a vector that starts at some indices, as f32."""
    found = read_row(view.base, places_in(view, places), lanes_of(width))
    element, wide = element_type_of(view.base), vector_type(width, ir.F32Type.get())
    if element == ir.F32Type.get():
        return found
    return arith.extf(wide, found) if isinstance(element, ir.FloatType) else arith.sitofp(wide, found)


def read_part(view: TensorView, places: Sequence[Index], start: int, width: int, parts: int) -> ir.Value:
    """Reads a vector of a row from element `start` on, of which a byte holds one or two (`PagedAttentionOp`)."""
    if parts == 1:
        return read(view, (*places, start), width)
    part, start = divmod(start, view.shape[-1])
    found = read_row(view.base, places_in(view, (*places, start)), lanes_of(width))
    # Wider lanes first: there are no shifts of bytes.
    lanes = arith.extui(vector_type(width, ir.IntegerType.get_signless(32)), found)
    by = broadcast(number(4 if part else 15, lanes.type.element_type), width)
    bits = arith.shrui(lanes, by) if part else arith.andi(lanes, by)
    floats = arith.sitofp(vector_type(width, ir.F32Type.get()), bits)
    return arith.subf(floats, broadcast(number(MIDDLE, ir.F32Type.get()), width))


def read_one(view: TensorView, places: Sequence[Index]) -> ir.Value:
    """Reads one element."""
    return tensor.extract(view.base, places_in(view, places))


def prefetch(view: TensorView, places: Sequence[Index]) -> None:
    """Prefetches a row into the first-level cache."""
    kind = ir.RankedTensorType(view.base.type)
    layout = ir.StridedLayoutAttr.get_fully_dynamic(kind.rank)
    buffer = ir.MemRefType.get(kind.shape, kind.element_type, layout)
    memory = bufferization.to_buffer(buffer, view.base, read_only=True)
    for column in range(0, view.shape[-1], _LINE_BITS // bits_of(view.base)):
        memref.prefetch(memory, places_in(view, (*places[:-1], column)), False, 3, True)


def masked_row(view: TensorView, places: Sequence[Index], inside: ir.Value) -> ir.Value:
    """Reads a vector of which only some elements are inside of the tensor."""
    element = element_type_of(view.base)
    where = places_in(view, places)
    last = ir.AffineMapAttr.get(ir.AffineMap.get(len(where), 0, [ir.AffineDimExpr.get(len(where) - 1)]))
    bounds = ir.ArrayAttr.get([ir.BoolAttr.get(True)])
    kind, otherwise = vector_type(LANES, element), zero(element)
    return vector.TransferReadOp(kind, view.base, where, last, otherwise, bounds, mask=inside).result
