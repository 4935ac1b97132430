"""Tensors read through transposes, slices and splits of dimensions, without a copy.

%1 = "stepwell.reshape"(%0) : tensor<2x8x12xf32> to tensor<2x8x3x4xf32>
%2 = "stepwell.transpose"(%1) {permutation = [0, 2, 1, 3]} : tensor<2x3x8x4xf32>
// -->
%1 = tensor.expand_shape %0 : tensor<2x8x12xf32> into tensor<2x8x3x4xf32>
// and loops (b, h, l, d) that read %2[b, h, l, d] read %1[b, l, h, d] instead
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects.core import Op
from ...dialects.stepwell.movement import SliceOp, TransposeOp
from ...passes.ir.values import shape_of
from ...passes.kernel.folded_movement import splits
from ..builders.spaces import expand, slice_axis
from ..builders.tensors import with_shape


@dataclass(frozen=True)
class TensorView:
    """A tensor whose dimensions are some of those of another tensor, in some order.

    Attributes:
        base: the tensor in memory.
        axes: for every dimension of the view, that of `base`; None for one of size 1 that `base` may lack.
    """

    base: ir.Value
    axes: tuple[int | None, ...]

    @staticmethod
    def whole(value: ir.Value) -> TensorView:
        """Returns a view of a whole tensor."""
        return TensorView(value, tuple(range(len(shape_of(value)))))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the view's dimensions."""
        shape = shape_of(self.base)
        return tuple(1 if axis is None else shape[axis] for axis in self.axes)

    def of(self, op: Op) -> TensorView:
        """Returns the view after `op`, a movement op that `can_view` accepts."""
        if isinstance(op, TransposeOp):
            return self.transposed(op.permutation)
        if isinstance(op, SliceOp):
            return self.sliced(op.starts, op.stops)
        return self.reshaped(tuple(shape_of(op.operation.results[0])))

    def before(self, op: Op) -> TensorView:
        """Returns the view of the operand of `op` if this is the view of its result."""
        if isinstance(op, TransposeOp):
            inverse = [op.permutation.index(axis) for axis in range(len(self.axes))]
            return self.transposed(inverse)
        shape = tuple(shape_of(op.operation.operands[0]))
        if self.axes == tuple(range(len(shape_of(self.base)))):
            return TensorView.whole(with_shape(self.base, shape))
        return self.reshaped(shape)

    def transposed(self, permutation: Sequence[int]) -> TensorView:
        """Permutes dimensions: dimension i of the result is dimension `permutation[i]` of this view."""
        return TensorView(self.base, tuple(self.axes[axis] for axis in permutation))

    def sliced(self, starts: Sequence[int], stops: Sequence[int]) -> TensorView:
        """Returns the part from `starts` to `stops`."""
        base = self.base
        for axis, start, stop in zip(self.axes, starts, stops, strict=True):
            if axis is not None:
                base = slice_axis(base, axis, start, stop - start)
        return TensorView(base, self.axes)

    def reshaped(self, shape: tuple[int, ...]) -> TensorView:
        """Returns the same elements in order; every dimension of this view becomes one or several of `shape`."""
        groups = splits(self.shape, shape)
        assert groups is not None, "the reshape merges dimensions"
        view = self
        # From the last one on, as a split moves the dimensions after it.
        for dim in reversed(range(len(groups))):
            view = view.split(dim, [shape[item] for item in groups[dim]]) if len(groups[dim]) > 1 else view
        seen = iter(view.axes)
        axes: list[int | None] = [None] * len(shape)
        for group in groups:
            for item in group:
                axes[item] = next(seen)
            if not group:
                next(seen)
        return TensorView(view.base, tuple(axes))

    def split(self, dim: int, sizes: Sequence[int]) -> TensorView:
        """Returns the view with dimension `dim` split into several."""
        position, extra = self.axes[dim], len(sizes) - 1
        assert position is not None, "a dimension of size 1 is not split"
        moved = [axis if axis is None or axis <= position else axis + extra for axis in self.axes]
        parts = range(position, position + len(sizes))
        return TensorView(expand(self.base, position, sizes), (*moved[:dim], *parts, *moved[dim + 1 :]))
