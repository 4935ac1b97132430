"""Movement ops whose result shape is an operand: importers emit them, constants make them static later."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....sizes import algebra, extrema
from ....sizes.assumptions import suppose_equal
from ....support.wording import quantity
from ... import dims
from ...core import KernelTraits, Op, OpError, attribute, operand, optional_operand, result
from ...dims import Dim, DimShape, Symbolic, ceil_div, numbers, product
from ...types import TensorSpec, is_integer
from ..shape import shape_from
from ..shapes import broadcast, normalize_axes, normalize_axis, require_dtype, require_rank, same_dtype
from .padding import PAD_MODES, padded, padded_shape

# ONNX exporters slice "to the end" with the greatest i32 or i64.
_TO_THE_END = np.iinfo(np.int32).max


class DynamicReshapeOp(Op):
    """The same elements in row-major order, in the shape that an operand holds (ONNX Reshape).

    One extent may be -1 and is inferred from the others; 0 copies the input's extent of that dimension.

    Attributes:
        allow_zero: whether 0 means an extent of 0 instead.

    ```mlir
    %2 = "stepwell.dynamic_reshape"(%0, %1) : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.dynamic_reshape"
    KERNEL = KernelTraits("movement")
    input = operand()
    shape = operand("1-D i64")
    allow_zero = attribute(bool, default=False)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, shape: TensorSpec, *, allow_zero: bool) -> TensorSpec:
        """The extents that the operand holds if it is constant, else unknown ones."""
        extents = shape_from(shape)
        return input.with_shape(extents if shape.contents is None else _reshaped(input.shape, extents, allow_zero))

    @staticmethod
    def reference(input: np.ndarray, shape: np.ndarray, *, allow_zero: bool) -> np.ndarray:
        """Computes it with numpy."""
        return input.reshape(numbers(_reshaped(input.shape, tuple(map(int, shape)), allow_zero)))


def _reshaped(old: DimShape, new: DimShape, allow_zero: bool) -> DimShape:
    text = ", ".join(map(str, new))
    if any(isinstance(dim, int) and dim < -1 for dim in new) or new.count(-1) > 1:
        raise OpError(f"shape {text} must have no negative extent except one -1")
    if not allow_zero and any(dim == 0 and axis >= len(old) for axis, dim in enumerate(new)):
        raise OpError(f"shape {text} copies an extent that the input, of rank {len(old)}, does not have")
    extents = [old[axis] if dim == 0 and not allow_zero else dim for axis, dim in enumerate(new)]
    if -1 in extents:
        extents[extents.index(-1)] = _left_over(old, [dim for dim in extents if dim != -1], text)
    total, wanted = product(old), product(extents)
    if isinstance(total, int) and isinstance(wanted, int) and total != wanted:
        raise OpError(f"cannot reshape {quantity(total, 'element')} to shape {text}")
    if total != wanted:
        suppose_equal(total, wanted)
    return tuple(extents)


def _left_over(old: DimShape, others: list[Dim], text: str) -> Dim:
    """`product(old) / product(others)`."""
    total, divisor = product(old), product(others)
    if divisor == 0:
        raise OpError(f"shape {text} has an extent of 0, so its -1 cannot be inferred")
    if isinstance(total, int) and isinstance(divisor, int) and total % divisor:
        raise OpError(f"cannot reshape {quantity(total, 'element')} to shape {text}")
    return algebra.floor_div(total, divisor)


class DynamicSliceOp(Op):
    """A slice with bounds given by operands (ONNX Slice).

    Negative bounds count from the end; bounds are clamped to the extents; a negative step goes backwards.

    ```mlir
    %4 = "stepwell.dynamic_slice"(%0, %1, %2, %3) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>}
        : (tensor<?x8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<?x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.dynamic_slice"
    KERNEL = KernelTraits("movement")
    input = operand()
    starts = operand("1-D integers")
    ends = operand("1-D integers")
    axes = optional_operand("1-D integers; absent, the first dimensions")
    steps = optional_operand("1-D integers; absent, 1")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, starts: TensorSpec, ends: TensorSpec, axes: TensorSpec | None, steps: TensorSpec | None
    ) -> TensorSpec:
        """The sliced extents, exact if the bounds are constant."""
        for name, spec in (("starts", starts), ("ends", ends), ("axes", axes), ("steps", steps)):
            if spec is not None and (spec.rank != 1 or not is_integer(spec.dtype)):
                raise OpError(f"operand '{name}' must be 1-D integers, but is {spec}")
        along = _sliced_axes(input, starts, axes)
        if along is None:
            return input.with_shape(tuple(dims.unknown() for _ in input.shape))
        shape = list(input.shape)
        for index, axis in enumerate(along):
            bounds = [_entry(starts, index), _entry(ends, index), 1 if steps is None else _entry(steps, index)]
            shape[axis] = _slice_length(shape[axis], *bounds)
        return input.with_shape(tuple(shape))

    @staticmethod
    def reference(
        input: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes: np.ndarray | None, steps: np.ndarray | None
    ) -> np.ndarray:
        """Computes it with numpy."""
        chosen = [slice(None)] * input.ndim
        along = range(len(starts)) if axes is None else axes
        for index, axis in enumerate(along):
            start, end, step = int(starts[index]), int(ends[index]), 1 if steps is None else int(steps[index])
            taken = slice_range(input.shape[axis], start, end, step)
            # numpy reads a stop of -1 as the last element.
            chosen[axis] = slice(taken.start, None if taken.stop < 0 else taken.stop, taken.step)
        return input[tuple(chosen)]


def slice_range(extent: int, start: int, end: int, step: int) -> range:
    """The indices that a slice takes by ONNX's rules: numpy's, except that a backward start is at least 0."""
    start, end = (bound + extent if bound < 0 else bound for bound in (start, end))
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    return range(min(max(start, 0), high), min(max(end, low), high), step)


def _sliced_axes(input: TensorSpec, starts: TensorSpec, axes: TensorSpec | None) -> tuple[int, ...] | None:
    """The dimensions that are sliced, or None if they are not known."""
    if axes is not None:
        return None if axes.value is None else normalize_axes(tuple(map(int, axes.value)), input.rank)
    count = starts.shape[0]
    return normalize_axes(tuple(range(count)), input.rank) if isinstance(count, int) else None


def _entry(spec: TensorSpec, index: int) -> Dim | None:
    if spec.contents is None:
        return None
    entry = spec.contents[index]
    return entry if isinstance(entry, Symbolic) else int(entry)


def _slice_length(dim: Dim, start: Dim | None, end: Dim | None, step: Dim | None) -> Dim:
    if step == 0:
        raise OpError("a step of a slice must not be 0")
    if start is None or end is None or not isinstance(step, int):
        return dims.unknown()
    try:
        first, last, step = slice_bounds(dim, start, end, step)
    except algebra.UndecidedError:
        return dims.unknown()
    return ceil_div(last - first, step) if step > 0 else ceil_div(first - last, -step)


def slice_bounds(extent: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim, int]:
    """The first index that a slice takes, the one before which it stops, and the step; see `slice_range`.

    Raises:
        UndecidedError: a bound counts from the start at some sizes and from the end at others.
    """
    if isinstance(extent, int) and isinstance(start, int) and isinstance(end, int):
        taken = slice_range(extent, start, end, step)
        last = max(taken.start, taken.stop) if step > 0 else min(taken.start, taken.stop)
        return taken.start, last, step
    if step > 0:
        first, last = _clamped(start, 0, extent, extent), _clamped(end, 0, extent, extent)
        return first, extrema.greatest((first, last)), step
    first, last = _clamped(start, 0, extent - 1, extent), _clamped(end, -1, extent - 1, extent)
    return first, extrema.least((first, last)), step


def _clamped(bound: Dim, low: Dim, high: Dim, extent: Dim) -> Dim:
    """The position of a bound of a slice; one that counts from the end is negative."""
    least, most = algebra.bounds(bound, {})
    if least is not None and least >= _TO_THE_END:
        return high
    if most is not None and most <= -_TO_THE_END:
        return low
    place = bound if least is not None and least >= 0 else bound + extent
    if place is not bound and (most is None or most >= 0):
        raise algebra.UndecidedError(f"whether the bound {bound} of a slice is negative depends on the sizes")
    return extrema.greatest((extrema.least((place, high)), low))


class DynamicPadOp(Op):
    """Padding by amounts that an operand holds (ONNX Pad).

    Attributes:
        mode: the padding mode, as for `pad`.

    ```mlir
    %2 = "stepwell.dynamic_pad"(%0, %1) {operandSegmentSizes = array<i32: 1, 1, 0, 0>}
        : (tensor<4x8xf32>, tensor<4xi64>) -> tensor<?x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.dynamic_pad"
    KERNEL = KernelTraits("movement")
    input = operand()
    pads = operand("1-D i64: elements before each padded dimension, then elements after each")
    value = optional_operand("a scalar like the input; absent, 0")
    axes = optional_operand("1-D integers; absent, all dimensions")
    mode = attribute(str, default="constant", choices=PAD_MODES)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, pads: TensorSpec, value: TensorSpec | None, axes: TensorSpec | None, *, mode: str
    ) -> TensorSpec:
        """Each padded dimension grows, by known amounts if the pads are constant."""
        require_dtype(np.int64, pads=pads)
        require_rank(1, pads=pads, axes=axes)
        require_rank(0, value=value)
        same_dtype(*(spec for spec in (input, value) if spec is not None))
        if pads.contents is None or (axes is not None and axes.value is None):
            return input.with_shape(tuple(dims.unknown() for _ in input.shape))
        low, high = _per_axis(pads.contents, None if axes is None else axes.value, input.rank)
        return input.with_shape(padded_shape(input.shape, low, high, mode))

    @staticmethod
    def reference(
        input: np.ndarray, pads: np.ndarray, value: np.ndarray | None, axes: np.ndarray | None, *, mode: str
    ) -> np.ndarray:
        """Computes it with numpy."""
        return padded(input, *_per_axis(pads, axes, input.ndim), mode, 0.0 if value is None else value.item())


def _per_axis(pads: np.ndarray, axes: np.ndarray | None, rank: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The number of elements to add before and after each dimension."""
    along = range(rank) if axes is None else [normalize_axis(int(axis), rank) for axis in axes]
    if len(pads) != 2 * len(along):
        raise OpError(f"operand 'pads' must have {2 * len(along)} elements, but has {len(pads)}")
    low: list[Any] = [0] * rank
    high: list[Any] = [0] * rank
    for index, axis in enumerate(along):
        low[axis], high[axis] = (
            item if isinstance(item, Symbolic) else int(item) for item in (pads[index], pads[index + len(along)])
        )
    return tuple(low), tuple(high)


class DynamicBroadcastToOp(Op):
    """The tensor broadcast together with the shape that an operand holds (ONNX Expand).

    An extent of 1 in the operand keeps the input's extent.

    ```mlir
    %2 = "stepwell.dynamic_broadcast_to"(%0, %1) : (tensor<4x1xf32>, tensor<3xi64>) -> tensor<?x4x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.dynamic_broadcast_to"
    KERNEL = KernelTraits("movement")
    input = operand()
    shape = operand("1-D i64")
    result = result()

    @staticmethod
    def infer(input: TensorSpec, shape: TensorSpec) -> TensorSpec:
        """Both shapes, broadcast."""
        return input.with_shape(_expanded(input.shape, shape_from(shape), shape.contents is not None))

    @staticmethod
    def reference(input: np.ndarray, shape: np.ndarray) -> np.ndarray:
        """Computes it with numpy."""
        return np.broadcast_to(input, np.broadcast_shapes(input.shape, tuple(shape)))


def _expanded(old: DimShape, new: DimShape, is_known: bool) -> DimShape:
    wide = broadcast(old, new)
    if is_known:
        return wide
    # An unknown extent may be 1; but if the input's extent is a number above 1, it stays.
    kept = (1,) * (len(wide) - len(old)) + old
    return tuple(dim if isinstance(dim, int) and dim != 1 else dims.unknown() for dim in kept)
