"""Movement ops whose result shape is given by attributes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ....runtime.memory import aligned_copy
from ....sizes.assumptions import suppose_equal
from ....sizes.extrema import is_surely_less
from ....support.wording import quantity
from ...core import KernelTraits, Op, OpError, attribute, operand, result
from ...dims import Dim, ceil_div, is_static, product
from ...types import TensorSpec, is_integer
from ..axes import AlongAxesOp
from ..shapes import (
    broadcasts_to,
    concatenated,
    may_equal,
    normalize_axes,
    normalize_axis,
    require_length,
    shape_text,
)


class ReshapeOp(Op):
    """The same elements in row-major order, in another shape.

    ```mlir
    %1 = "stepwell.reshape"(%0) {shape = array<i64: 2, 12>} : (tensor<4x6xf32>) -> tensor<2x12xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reshape"
    input = operand()
    shape = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, shape: tuple[Dim, ...]) -> TensorSpec:
        """`shape`, which has the same number of elements as the input."""
        if any(is_surely_less(dim, 0) for dim in shape):
            raise OpError(f"attribute 'shape' must not be negative, but is {', '.join(map(str, shape))}")
        if input.is_static and is_static(shape) and product(input.shape) != product(shape):
            counts = f"{product(input.shape)} elements, not {product(shape)}"
            raise OpError(f"cannot reshape {input} to {shape_text(shape)}: it has {counts}")
        if not is_static((*input.shape, *shape)) and product(input.shape) != product(shape):
            suppose_equal(product(input.shape), product(shape))
        return input.with_shape(shape)

    @staticmethod
    def reference(input: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy; if a copy is needed, it is aligned for native code."""
        view = _viewed(input, shape)
        return aligned_copy(input).reshape(shape) if view is None else view


def _viewed(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """Reshapes an array without a copy; None if a copy is needed."""
    try:
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            return np.reshape(array, shape, copy=False)
        view = array.view()
        view.shape = shape  # deprecated since numpy has `copy=False`
    except (ValueError, AttributeError):
        return None
    return view


class TransposeOp(Op):
    """Dimension `i` of the result is dimension `permutation[i]` of the input (ONNX Transpose).

    ```mlir
    %1 = "stepwell.transpose"(%0) {permutation = array<i64: 0, 2, 1>} : (tensor<2x4x8xf32>) -> tensor<2x8x4xf32>
    ```
    """

    OPERATION_NAME = "stepwell.transpose"
    KERNEL = KernelTraits("movement", works_on_views=True)
    input = operand()
    permutation = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, permutation: tuple[int, ...]) -> TensorSpec:
        """The input's dimensions in the order of `permutation`."""
        if sorted(permutation) != list(range(input.rank)):
            text = ", ".join(map(str, permutation))
            raise OpError(f"{text} is not a permutation of the {quantity(input.rank, 'dimension')} of {input}")
        return input.with_shape(tuple(input.shape[axis] for axis in permutation))

    @staticmethod
    def reference(input: np.ndarray, *, permutation: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return input.transpose(permutation)


class ConcatOp(Op):
    """`lhs` followed by `rhs` along `axis` (ONNX Concat; more than two tensors become a chain).

    ```mlir
    %2 = "stepwell.concat"(%0, %1) {axis = 1 : i64} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.concat"
    KERNEL = KernelTraits("movement", works_on_views=True)
    lhs = operand()
    rhs = operand()
    axis = attribute(int)
    result = result()

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec, *, axis: int) -> TensorSpec:
        """The extents along `axis` add up, the others agree."""
        return concatenated(lhs, rhs, axis)

    @staticmethod
    def reference(lhs: np.ndarray, rhs: np.ndarray, *, axis: int) -> np.ndarray:
        """Computes it with numpy."""
        return np.concatenate([lhs, rhs], axis)


class SliceOp(Op):
    """The elements from `starts` up to and excluding `stops`, every `steps`-th, one entry per dimension.

    The bounds are normalised: `0 <= start <= stop <= extent`, and steps are positive (see `reverse` for backwards).

    ```mlir
    %1 = "stepwell.slice"(%0) {starts = array<i64: 0, 2>, stops = array<i64: 4, 8>, steps = array<i64: 1, 2>}
        : (tensor<4x8xf32>) -> tensor<4x3xf32>
    ```
    """

    OPERATION_NAME = "stepwell.slice"
    KERNEL = KernelTraits("movement", works_on_views=True)
    input = operand()
    starts = attribute(tuple)
    stops = attribute(tuple)
    steps = attribute(tuple)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, *, starts: tuple[Dim, ...], stops: tuple[Dim, ...], steps: tuple[int, ...]
    ) -> TensorSpec:
        """`ceil((stop - start) / step)` per dimension."""
        require_length(input.rank, starts=starts, stops=stops, steps=steps)
        for axis, (start, stop, step) in enumerate(zip(starts, stops, steps, strict=True)):
            extent = input.shape[axis]
            if is_surely_less(start, 0) or is_surely_less(stop, start) or is_surely_less(extent, stop):
                raise OpError(f"cannot slice {start} to {stop} of the {quantity(extent, 'element')} of axis {axis}")
            if step < 1:
                raise OpError(f"steps must be positive, but axis {axis} has {step}")
        bounds = zip(starts, stops, steps, strict=True)
        return input.with_shape(tuple(ceil_div(stop - start, step) for start, stop, step in bounds))

    @staticmethod
    def reference(
        input: np.ndarray, *, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]
    ) -> np.ndarray:
        """Computes it with numpy."""
        return input[tuple(map(slice, starts, stops, steps))]


class ReverseOp(AlongAxesOp):
    """The elements in reverse order along `axes`.

    ```mlir
    %1 = "stepwell.reverse"(%0) {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reverse"
    KERNEL = KernelTraits("movement", works_on_views=True)
    input = operand()
    axes = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axes: tuple[int, ...]) -> TensorSpec:
        """The result is like the input."""
        normalize_axes(axes, input.rank)
        return input.with_shape(input.shape)

    @staticmethod
    def reference(input: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return np.flip(input, axes)

    def combined_axes(self, rank: int) -> Collection[int]:
        """The reversed axes."""
        return {axis % rank for axis in self.axes}


class BroadcastToOp(Op):
    """The tensor repeated along its extents of 1 and along new leading dimensions, as in numpy.

    ```mlir
    %1 = "stepwell.broadcast_to"(%0) {shape = array<i64: 2, 4, 8>} : (tensor<4x1xf32>) -> tensor<2x4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.broadcast_to"
    KERNEL = KernelTraits("movement", works_on_views=True)
    input = operand()
    shape = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, shape: tuple[Dim, ...]) -> TensorSpec:
        """`shape`, to which the input broadcasts."""
        if not broadcasts_to(input.shape, shape):
            raise OpError(f"cannot broadcast {input} to {shape_text(shape)}")
        return input.with_shape(shape)

    @staticmethod
    def reference(input: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return np.broadcast_to(input, shape)


class GatherOp(Op):
    """The slices of `input` along `axis` at `indices`; a negative index counts from the end (ONNX Gather).

    Indices out of range are clipped to the first or last slice.

    Attributes:
        extent: index, in the table of extents, of a number greater than all valid indices; else -1. It does not change
            the values.

    ```mlir
    %2 = "stepwell.gather"(%0, %1) {axis = 0 : i64}
        : (tensor<30522x384xf32>, tensor<1x128xi64>) -> tensor<1x128x384xf32>
    ```
    """

    OPERATION_NAME = "stepwell.gather"
    KERNEL = KernelTraits("movement")
    input = operand()
    indices = operand("integers")
    axis = attribute(int)
    extent = attribute(int, default=-1)
    result = result("the input's shape with `axis` replaced by the indices' dimensions")

    @staticmethod
    def infer(input: TensorSpec, indices: TensorSpec, *, axis: int, extent: int = -1) -> TensorSpec:
        """The input's shape with `axis` replaced by the indices' dimensions."""
        if not is_integer(indices.dtype):
            raise OpError(f"operand 'indices' must be integers, but is {indices}")
        along = normalize_axis(axis, input.rank)
        if input.shape[along] == 0 and 0 not in indices.shape:
            raise OpError(f"gathers from axis {along} of {input}, which has no elements")
        return input.with_shape((*input.shape[:along], *indices.shape, *input.shape[along + 1 :]))

    @staticmethod
    def reference(input: np.ndarray, indices: np.ndarray, *, axis: int, extent: int = -1) -> np.ndarray:
        """Computes it with numpy."""
        places = indices.astype(np.int64)
        return np.take(input, np.where(places < 0, places + input.shape[axis], places), axis, mode="clip")


class TileOp(Op):
    """The tensor repeated `repeats[i]` times along dimension `i` (ONNX Tile).

    ```mlir
    %1 = "stepwell.tile"(%0) {repeats = array<i64: 2, 1>} : (tensor<4x8xf32>) -> tensor<8x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.tile"
    KERNEL = KernelTraits("movement")
    input = operand()
    repeats = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, repeats: tuple[Dim, ...]) -> TensorSpec:
        """Each dimension times its repeats."""
        require_length(input.rank, repeats=repeats)
        if any(is_surely_less(count, 0) for count in repeats):
            raise OpError(f"repeats must not be negative, but are {', '.join(map(str, repeats))}")
        return input.with_shape(tuple(dim * count for dim, count in zip(input.shape, repeats, strict=True)))

    @staticmethod
    def reference(input: np.ndarray, *, repeats: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return np.tile(input, repeats)


class SqueezeOp(Op):
    """The tensor without the dimensions `axes`, which have extent 1 (ONNX Squeeze).

    ```mlir
    %1 = "stepwell.squeeze"(%0) {axes = array<i64: 1>} : (tensor<4x1x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.squeeze"
    KERNEL = KernelTraits("movement")
    input = operand()
    axes = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axes: tuple[int, ...]) -> TensorSpec:
        """The dimensions that are not removed."""
        gone = normalize_axes(axes, input.rank)
        kept: list[Dim] = [dim for axis, dim in enumerate(input.shape) if axis not in gone]
        wrong = [axis for axis in gone if not may_equal(input.shape[axis], 1)]
        if wrong:
            raise OpError(f"axis {wrong[0]} of {input} has extent {input.shape[wrong[0]]} and cannot be squeezed")
        return input.with_shape(tuple(kept))

    @staticmethod
    def reference(input: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return np.squeeze(input, axes)


class ExpandDimsOp(Op):
    """The tensor with a new dimension of extent 1 at each of `axes`, counted in the result (ONNX Unsqueeze).

    ```mlir
    %1 = "stepwell.expand_dims"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.expand_dims"
    KERNEL = KernelTraits("movement")
    input = operand()
    axes = attribute(tuple)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axes: tuple[int, ...]) -> TensorSpec:
        """The input's dimensions and the new ones."""
        new, old = set(normalize_axes(axes, input.rank + len(axes))), iter(input.shape)
        return input.with_shape(tuple(1 if axis in new else next(old) for axis in range(input.rank + len(axes))))

    @staticmethod
    def reference(input: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        """Computes it with numpy."""
        return np.expand_dims(input, axes)
