"""Loops of a nest: outer loops, reductions, and the vectorised loop with its tail and edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from ...builders.access import Point
from ...builders.indices import Index, loop
from .padding import Padding
from .widths import pieces

_Values = list[ir.Value]
Inner = Callable[[Point, _Values], _Values]
# Maximum number of steps of unrolled reductions, and of an unrolled innermost loop of a reduction.
_UNROLL, _UNROLL_INNERMOST = 4, 9


@dataclass(frozen=True)
class Walk:
    """The loops of one nest.

    Attributes:
        sizes: length of each loop.
        reductions: reduction loops.
        lane_dim: the vectorised loop, or None.
        width: number of lanes of one step of the vectorised loop.
        native: number of lanes of one register.
        padding: padded operands of the reductions.
        window_dim: innermost loop that moves windows of which some reach into padding, or None.
        may_repeat: whether results may be computed twice.
    """

    sizes: Sequence[Index]
    reductions: Sequence[int]
    lane_dim: int | None
    width: int
    native: int
    padding: Padding
    window_dim: int | None
    may_repeat: bool

    def loops(self, dims: Sequence[int], point: Point, carried: _Values, inner: Inner) -> _Values:
        """Emits loops over `dims`, outermost first, around `inner`."""
        if not dims:
            return inner(point, carried)
        lower, upper = 0, self.sizes[dims[0]]
        if dims[0] in self.reductions:
            lower, upper = self.padding.bounds(dims[0], point)
        if dims[0] in self.reductions and self._is_unrolled(lower, upper, is_innermost=len(dims) == 1):
            for index in range(lower, upper):
                carried = self.loops(dims[1:], point.at(dims[0], index), carried, inner)
            return carried
        if dims[0] == self.window_dim:
            return self._window_loops(dims, point, carried, inner)
        return loop(
            lower,
            upper,
            1,
            carried,
            lambda index, values: self.loops(dims[1:], point.at(dims[0], index), values, inner),
        )

    def _window_loops(self, dims: Sequence[int], point: Point, carried: _Values, inner: Inner) -> _Values:
        """Emits the innermost loop that moves windows, split into the interior and edges that reach into padding."""
        dim, size = dims[0], self.sizes[dims[0]]
        assert isinstance(size, int)
        first, last = self.padding.interior(dim, size)

        def part(lower: int, upper: int, here: Point, values: _Values) -> _Values:
            return loop(
                lower, upper, 1, values, lambda index, items: self.loops(dims[1:], here.at(dim, index), items, inner)
            )

        carried = part(0, first, point, carried)
        carried = part(first, last, replace(point, interior=point.interior | {dim}), carried)
        return part(last, size, point, carried)

    def _is_unrolled(self, lower: Index, upper: Index, is_innermost: bool) -> bool:
        if not isinstance(lower, int) or not isinstance(upper, int):
            return False
        dims = [dim for dim in self.reductions if dim != self.lane_dim]
        steps = math.prod(size for dim in dims if isinstance(size := self.sizes[dim], int))
        is_window = is_innermost and len(dims) > 1
        return upper - lower <= (_UNROLL_INNERMOST if is_window else _UNROLL) or steps <= 2 * _UNROLL

    def lanes(self, point: Point, carried: _Values, inner: Inner) -> _Values:
        """Emits the vectorised loop: full vectors, then the tail in ever smaller ones, the last one masked."""
        dim = self.lane_dim
        assert dim is not None
        size = self.sizes[dim]
        assert isinstance(size, int)
        first, last = (0, size) if dim in self.reductions else self.padding.interior(dim, size)
        main = last - (last - first) % self.width
        if last - first < size and self.padding.can_shuffle(dim, self.width, size):
            return self._padded_lanes(point, carried, inner, last, size)
        edge = point.scalar()
        carried = loop(0, first, 1, carried, lambda index, values: inner(edge.at(dim, index), values))
        carried = loop(
            first,
            main,
            self.width,
            carried,
            lambda index, values: inner(point.lanes(index, self.width, self.width), values),
        )
        if self.may_repeat and main - first and last - main:
            # One more whole vector, moved back to end at the end of the loop, computes some results twice.
            carried = inner(point.lanes(last - self.width, self.width, self.width), carried)
            main = last
        for offset, width, valid in pieces(last - main, self.width, self.native):
            carried = inner(point.lanes(main + offset, width, valid), carried)
        return loop(last, size, 1, carried, lambda index, values: inner(edge.at(dim, index), values))

    def _padded_lanes(self, point: Point, carried: _Values, inner: Inner, last: int, size: int) -> _Values:
        """Emits the vectorised loop if its first and last vectors read padding; the last vectors may overlap."""
        width = self.width
        main = max(width, last - last % width)
        carried = inner(point.lanes(0, width, width), carried)
        carried = loop(
            width, main, width, carried, lambda index, values: inner(point.lanes(index, width, width), values)
        )
        for start in range(main, size, width):
            carried = inner(point.lanes(min(start, size - width), width, width), carried)
        return carried
