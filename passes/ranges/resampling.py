"""Rules for resizing varying dimensions: indices and weights are computed from the sizes at run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from ...dialects.core import Op
from ...dialects.dims import Dim
from ...dialects.stepwell.elementwise import (
    AddOp,
    AndOp,
    CastOp,
    CeilOp,
    DivOp,
    FloorOp,
    GreaterEqualOp,
    LessOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    SelectOp,
    SubOp,
)
from ...dialects.stepwell.movement import ConcatOp, GatherOp, ResampleOp, ResizeOp
from ...dialects.stepwell.reduction import ReduceSumOp
from ..graph.values import constant, dtype_of, static_shape
from .checks import require_static_attributes
from .errors import RangesError
from .extents import Extent, count_of, is_dynamic, numbered, prefix, whole
from .layout import compacted
from .projections import repeats_elements
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState

_INDEX, _FLOAT = np.dtype(np.int64), np.dtype(np.float32)


@PADDING.attach(ResizeOp)
def resize(graph: Rewriter, op: ResizeOp, state: OpState) -> ResultExtents | None:
    """Unchanged for nearest by integer factors; otherwise one varying dimension at a time."""
    require_static_attributes(state, but=("sizes", "scales"))
    shape = static_shape(op.result) or ()
    wanted = [state.shapes[0][axis] for axis in range(len(shape))]
    before = graph.of(op.input)
    varying = [axis for axis, dim in enumerate(wanted) if is_dynamic(before[axis]) or not isinstance(dim, int)]
    changed = [axis for axis in varying if not _is_same(before[axis], state, axis, wanted[axis])]
    op.operation.operands[0] = compacted(graph, op.input, changed)
    extents = list(graph.of(op.input))
    if all(repeats_elements(op, axis) and _scale(state, axis) is not None for axis in changed):
        return [
            [
                prefix(dim, size) if axis not in varying or axis in changed else extents[axis]
                for axis, (dim, size) in enumerate(zip(wanted, shape, strict=True))
            ]
        ]
    value = _static(graph, op, varying)
    for axis in changed:
        extents = [*graph.of(value)[:axis], prefix(wanted[axis], shape[axis]), *graph.of(value)[axis + 1 :]]
        line = _Line(graph, op, count_of(graph.of(value)[axis]), wanted[axis], shape[axis], _scale(state, axis))
        value = line.resampled(value, axis, extents)
    replace(op, value)
    return None


def _is_same(extent: Extent, state: OpState, axis: int, wanted: Dim) -> bool:
    return count_of(extent) == wanted and _scale(state, axis) == 1


def _scale(state: OpState, axis: int) -> np.float32 | None:
    """The factor along a dimension; None if it follows from the sizes."""
    scale = np.float32(state.attributes["scales"][axis])
    return None if np.isnan(scale) else scale


def _static(graph: Rewriter, op: ResizeOp, varying: Sequence[int]) -> ir.Value:
    """The value with only the static dimensions resized."""
    before, after = static_shape(op.input) or (), static_shape(op.result) or ()
    sizes = tuple(before[axis] if axis in varying else size for axis, size in enumerate(after))
    scales = np.array([1 if axis in varying else scale for axis, scale in enumerate(op.scales)], np.float32)
    if sizes == before and (scales == 1).all():
        return op.input
    extents = [extent if axis in varying else whole(sizes[axis]) for axis, extent in enumerate(graph.of(op.input))]
    attributes: dict[str, Any] = dict(op.attribute_values()) | {"sizes": sizes, "scales": scales}
    return graph.noted(ResizeOp(op.input, **attributes), extents)


@dataclass(frozen=True)
class _Line:
    """One resized dimension; positions, indices and weights are vectors along the result, computed as in `Sampling`.

    Attributes:
        graph: rewriter that ops are added to.
        op: the resize.
        extent: number of elements of the input.
        size: number of elements of the result.
        bound: upper bound of `size`.
        scale: the factor; None if it is `size / extent`.
    """

    graph: Rewriter
    op: ResizeOp
    extent: Dim
    size: Dim
    bound: int
    scale: np.float32 | None

    def resampled(self, value: ir.Value, axis: int, extents: Sequence[Extent]) -> ir.Value:
        """The value resized along dimension `axis`."""
        position = self._positions()
        if self.op.mode == "nearest":
            index = self._inside(self._whole(self._nearest(position)))
            entry = self.graph.end_of(self.graph.of(value)[axis])
            return self.graph.noted(GatherOp(value, index, axis=axis, extent=entry), extents)
        low = self._made(FloorOp(position))
        taps = self._taps(self._made(SubOp(position, low)))
        first = self._whole(low)
        indices = [self._made(AddOp(first, constant(np.array(offset)))) for offset, _ in taps]
        weights = self._stacked([weight for _, weight in taps])
        if self.op.exclude_outside:
            weights = self._without_outside(self._stacked(indices), weights)
        rows = self._stacked([self._inside(index) for index in indices])
        if dtype_of(value) == np.float64:
            weights = self._made(CastOp(weights, dtype=np.dtype(np.float64)))
        entry = self.graph.end_of(self.graph.of(value)[axis])
        return self.graph.noted(ResampleOp(value, rows, weights, axis=axis, extent=entry), extents)

    def _made(self, op: Op) -> ir.Value:
        return self.graph.noted(op)

    def _number(self, dim: Dim, dtype: np.dtype = _FLOAT) -> ir.Value:
        return constant(np.array(dim, dtype)) if isinstance(dim, int) else self.graph.number(dim, dtype)

    def _float(self, number: float) -> ir.Value:
        return constant(np.array(number, np.float32))

    def _whole(self, value: ir.Value) -> ir.Value:
        return self._made(CastOp(value, dtype=_INDEX))

    def _inside(self, index: ir.Value) -> ir.Value:
        last = self._number(self.extent - 1, _INDEX)
        return self._made(MaximumOp(self._made(MinimumOp(index, last)), constant(np.array(0))))

    def _stacked(self, values: Sequence[ir.Value]) -> ir.Value:
        """The vectors as rows of one tensor [taps, size]."""
        rows = [self.graph.reshaped(value, (1, self.bound)) for value in values]
        total = rows[0]
        for row in rows[1:]:
            total = self._made(ConcatOp(total, row, axis=0))
        return total

    def _positions(self) -> ir.Value:
        """The positions as computed by `Sampling`."""
        x, half = constant(numbered(self.bound).astype(np.float32)), self._float(0.5)
        match self.op.coordinates:
            case "half_pixel" | "pytorch_half_pixel" | "half_pixel_symmetric":
                found = self._made(SubOp(self._made(DivOp(self._made(AddOp(x, half)), self._factor())), half))
                if self.op.coordinates == "half_pixel_symmetric":
                    found = self._made(AddOp(self._shift(), found))
                if self.op.coordinates == "pytorch_half_pixel":
                    is_long = self._made(LessOp(self._float(1), self._number(self.size)))
                    found = self._made(SelectOp(is_long, found, self._float(0)))
                return found
            case "align_corners":
                steps = self._made(MaximumOp(self._number(self.size - 1), self._float(1)))
                return self._made(DivOp(self._made(MulOp(x, self._number(self.extent - 1))), steps))
            case "asymmetric":
                return self._made(DivOp(x, self._factor()))
        raise RangesError(f"a resize with coordinates {self.op.coordinates} of a dimension that varies")

    def _factor(self) -> ir.Value:
        if self.scale is not None:
            return constant(np.array(self.scale))
        return self._made(DivOp(self._number(self.size), self._number(self.extent)))

    def _shift(self) -> ir.Value:
        extent = self._number(self.extent)
        covered = self._made(DivOp(self._number(self.size), self._made(MulOp(self._factor(), extent))))
        rest = self._made(SubOp(self._float(1), covered))
        return self._made(MulOp(self._made(MulOp(extent, self._float(0.5))), rest))

    def _nearest(self, position: ir.Value) -> ir.Value:
        half = self._float(0.5)
        match self.op.nearest:
            case "round_prefer_floor":
                return self._made(CeilOp(self._made(SubOp(position, half))))
            case "round_prefer_ceil":
                return self._made(FloorOp(self._made(AddOp(position, half))))
            case "floor":
                return self._made(FloorOp(position))
        return self._made(CeilOp(position))

    def _taps(self, ratio: ir.Value) -> list[tuple[int, ir.Value]]:
        """Offsets from the index below a position, and their weights."""
        one = self._float(1)
        rest = self._made(SubOp(one, ratio))
        if self.op.mode == "linear":
            return [(0, rest), (1, ratio)]
        a = self.op.cubic_coefficient
        near, far = (a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a)
        indices = (self._made(AddOp(one, ratio)), ratio, rest, self._made(AddOp(one, rest)))
        kernels = (far, near, near, far)
        return [
            (offset, self._polynomial(index, kernel))
            for offset, index, kernel in zip(range(-1, 3), indices, kernels, strict=True)
        ]

    def _polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        total = self._float(coefficients[0])
        for coefficient in coefficients[1:]:
            total = self._made(AddOp(self._made(MulOp(total, x)), self._float(coefficient)))
        return total

    def _without_outside(self, indices: ir.Value, weights: ir.Value) -> ir.Value:
        inside = self._made(
            AndOp(
                self._made(GreaterEqualOp(indices, constant(np.array(0)))),
                self._made(LessOp(indices, self._number(self.extent, _INDEX))),
            )
        )
        kept = self._made(SelectOp(inside, weights, self._float(0)))
        return self._made(DivOp(kept, self._made(ReduceSumOp(kept, axes=(0,), keepdims=True))))
