"""Reductions over padded operands: loops skip the padding, which is neutral for the reduction."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import vector

from ...builders.access import Point, broadcast, read, read_row
from ...builders.indices import Index, add, affine, ceil_divide, clamp, coefficient, multiply, subtract
from .generic import Generic, Padded, padded

# Maximum number of unrolled steps of reductions along the vectorised dimension of a padded operand.
_MOST_STEPS = 8


class Padding:
    """The padded operands of the reductions of a loop nest."""

    def __init__(self, reducers: Sequence[Generic], sizes: Sequence[Index], reductions: Sequence[int]) -> None:
        self._reducers, self._sizes, self._reductions = reducers, sizes, reductions
        operands = {
            value
            for member in reducers
            for value in member.operands[: member.num_inputs]
            if isinstance(value.type, ir.ShapedType)
        }
        found = {value: padded(value) for value in operands}
        self._padded = {value: padding for value, padding in found.items() if padding is not None}

    def of(self, operand: ir.Value) -> Padded | None:
        """Returns the part of an operand inside its padding; None if it has no padding."""
        return self._padded.get(operand)

    def bounds(self, dim: int, point: Point) -> tuple[Index, Index]:
        """Returns the range of a reduction loop in which no padding is read."""
        lower, upper = 0, self._sizes[dim]
        for expr, shift, size in self._exprs():
            step = coefficient(expr, dim)
            if step == 0 or coefficient(expr, point.lane_dim) or (shift == 0 and self._last(expr) < size):
                continue
            if any(coefficient(expr, inside) for inside in point.interior):
                continue
            assert isinstance(upper, int)
            origin = add(affine(expr, point.at(dim, 0).dims), shift)
            lower = ceil_divide(clamp(multiply(origin, -1), 0, upper * step), step)
            upper = clamp(ceil_divide(clamp(subtract(size, origin), 0, upper * step), step), 0, upper)
        return lower, upper

    def interior(self, dim: int, size: int) -> tuple[int, int]:
        """Returns the range of a parallel loop in which no padding is read."""
        first, last = 0, size
        for expr, shift, extent in self._exprs():
            step = coefficient(expr, dim)
            if step == 0:
                continue
            assert isinstance(shift, int), "the innermost dimensions of a padded operand are not tiled"
            reach = sum(coefficient(expr, other) * (int(self._sizes[other]) - 1) for other in self._reductions)
            first = max(first, -(shift // step))
            last = min(last, (extent - 1 - reach - shift) // step + 1)
        return (first, max(first, last)) if first < size else (size, size)

    def surrounds(self, dim: int) -> bool:
        """Returns whether windows are known to reach into padding at some indices of a parallel loop."""
        exprs = [(expr, shift) for expr, shift, _ in self._exprs() if coefficient(expr, dim)]
        size = self._sizes[dim]
        if not exprs or not isinstance(size, int) or not all(isinstance(shift, int) for _, shift in exprs):
            return False
        return self.interior(dim, size) != (0, size)

    def can_shuffle(self, lane_dim: int, width: int, size: int) -> bool:
        """Returns whether lanes in the padding can be made by shifting a vector from inside.

        This needs a step of one and positions that are known at compile time.
        """
        if size < width:
            return False
        # Rows of one element: lanes are not contiguous.
        if any(coefficient(expr, lane_dim) for exprs, _ in self._operands() for expr in exprs[:-1]):
            return False
        for expr, _, extent in self._exprs():
            if coefficient(expr, lane_dim) == 0:
                continue
            steps = math.prod(int(self._sizes[dim]) for dim in self._reductions if coefficient(expr, dim))
            others = [dim for dim in range(len(self._sizes)) if dim != lane_dim and dim not in self._reductions]
            if coefficient(expr, lane_dim) != 1 or extent < width or steps > _MOST_STEPS:
                return False
            if any(coefficient(expr, dim) for dim in others):
                return False
        return True

    def _exprs(self) -> Iterator[tuple[ir.AffineExpr, Index, int]]:
        """Yields the index, the shift to the inside and the inner extent of each dimension of each padded operand."""
        for exprs, padding in self._operands():
            yield from zip(exprs, padding.shift, ir.RankedTensorType(padding.inner.type).shape, strict=True)

    def _operands(self) -> Iterator[tuple[Sequence[ir.AffineExpr], Padded]]:
        """Yields the indices of each padded operand and the part inside its padding."""
        for member in self._reducers:
            for operand, exprs in zip(member.operands, member.maps, strict=True):
                padding = self._padded.get(operand)
                if padding is not None:
                    yield exprs, padding

    def _last(self, expr: ir.AffineExpr) -> int:
        """Returns the largest value of an index that grows with its loops; a huge number if it is not known."""
        sizes = [size for size in self._sizes if isinstance(size, int)]
        if len(sizes) < len(self._sizes):
            return 1 << 62
        last = affine(expr, [size - 1 for size in sizes])
        assert isinstance(last, int)
        return last


def read_padded(padding: Padded, exprs: Sequence[ir.AffineExpr], point: Point) -> ir.Value:
    """Reads the element of a padded operand at `point`, or one per lane.

    The lanes in the padding are known at compile time. The others are read with a vector that starts inside, and
    shifted to their lanes.
    """
    if point.lane_dim is None or coefficient(exprs[-1], point.lane_dim) != 1:
        return read(padding.inner, exprs, point, padding.shift)
    indices = [add(affine(expr, point.dims), shift) for expr, shift in zip(exprs, padding.shift, strict=True)]
    extent, start = ir.RankedTensorType(padding.inner.type).shape[-1], indices[-1]
    if not isinstance(start, int) or 0 <= start <= extent - point.valid:
        return read(padding.inner, exprs, point, padding.shift)
    inside = clamp(start, 0, extent - point.width)
    assert isinstance(inside, int)
    row = read_row(padding.inner, [*indices[:-1], inside], point)
    moved = [lane + start - inside for lane in range(point.width)]
    places = [place if 0 <= place < point.width else point.width for place in moved]
    return vector.shuffle(row, broadcast(padding.value, point.width), places)
