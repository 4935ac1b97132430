"""Interpolation to other extents (ONNX Resize)."""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np

from ....sizes.algebra import UndecidedError, floor_div
from ....sizes.extrema import is_surely_less
from ....support.wording import quantity
from ... import dims
from ...core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ...dims import Dim, DimShape, Symbolic
from ...specs import size_of
from ...types import TensorSpec, is_float
from ..numerics import widened
from ..resampling import COORDINATES, MODES, NEAREST, Sampling, resample
from ..shape import shape_from
from ..shapes import (
    normalize_axes,
    normalize_axis,
    require_dtype,
    require_float,
    require_length,
    require_rank,
    require_shape,
)
from ..windows import CHANNELS_FIRST, LAYOUTS


class ResizeOp(Op):
    """The tensor interpolated to `sizes`, dimension by dimension (ONNX Resize, Upsample).

    Attributes:
        sizes: the extents of the result, one per dimension.
        scales: scale factor per dimension as the model gives it; not always `size / extent` if the model gives factors.
            NaN stands for `size / extent` if that depends on symbolic sizes.
        mode: "nearest" takes one element, "linear" combines two and "cubic" four per dimension.
        coordinates: mapping from result elements to input positions (ONNX coordinate_transformation_mode).
        nearest: rounding between two neighbouring elements (ONNX nearest_mode).
        cubic_coefficient: the `a` of the cubic convolution.
        exclude_outside: whether elements outside the input get weight 0, instead of repeating the edge.
        layout: position of the channel dimension. It does not change the values; `sizes` and `scales` are in its order.

    ```mlir
    %1 = "stepwell.resize"(%0) {sizes = array<i64: 1, 8, 40, 40>, scales = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>,
        mode = "nearest", coordinates = "asymmetric", nearest = "floor"}
        : (tensor<1x8x20x20xf32>) -> tensor<1x8x40x40xf32>
    ```
    """

    OPERATION_NAME = "stepwell.resize"
    KERNEL = KernelTraits("movement", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    sizes = attribute(tuple)
    scales = attribute(np.ndarray, doc="1-D floats")
    mode = attribute(str, default="nearest", choices=MODES)
    coordinates = attribute(str, default="half_pixel", choices=COORDINATES)
    nearest = attribute(str, default="round_prefer_floor", choices=NEAREST)
    cubic_coefficient = attribute(float, default=-0.75)
    exclude_outside = attribute(bool, default=False)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, *, sizes: tuple[Dim, ...], scales: np.ndarray, mode: str, **_attributes: object
    ) -> TensorSpec:
        """`sizes`."""
        require_length(input.rank, sizes=sizes)
        if scales.shape != (input.rank,) or not is_float(scales.dtype):
            raise OpError(
                f"attribute 'scales' must be {input.rank} floats, but is {TensorSpec(scales.shape, scales.dtype)}"
            )
        if any(is_surely_less(size, 0) for size in sizes) or min(scales, default=1) <= 0:
            raise OpError(
                f"sizes must not be negative, and scales must be positive, but they are "
                f"{', '.join(map(str, (*sizes, *scales)))}"
            )
        _require_interpolable(input, mode)
        return input.with_shape(sizes)

    @staticmethod
    @widened
    def reference(
        input: np.ndarray,
        *,
        sizes: tuple[int, ...],
        scales: np.ndarray,
        mode: str,
        coordinates: str,
        nearest: str,
        cubic_coefficient: float,
        exclude_outside: bool,
        layout: str,
    ) -> np.ndarray:
        """Interpolates one dimension after the other."""
        sampling = Sampling(mode, coordinates, nearest, cubic_coefficient, exclude_outside)
        for axis, (size, scale) in enumerate(zip(sizes, scales, strict=True)):
            input = resample(input, axis, size, float(scale), sampling)
        return input


class ResampleOp(Op):
    """Weighted sums of elements along one dimension, whose indices and weights are operands.

    Indices out of range are clipped to the first or last element.

    Attributes:
        extent: index, in the table of extents, of a number greater than all indices; else -1. It does not change the
            values.

    ```mlir
    %3 = "stepwell.resample"(%0, %1, %2) {axis = 3 : i64}
        : (tensor<1x8x20x20xf32>, tensor<4x7xi64>, tensor<4x7xf32>) -> tensor<1x8x20x7xf32>
    ```
    """

    OPERATION_NAME = "stepwell.resample"
    KERNEL = KernelTraits("pooling", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    indices = operand("i64: one per term and element of the result along `axis`")
    weights = operand("f64 for an f64 input, else f32; same shape as the indices")
    axis = attribute(int)
    extent = attribute(int, default=-1)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, indices: TensorSpec, weights: TensorSpec, *, axis: int, extent: int) -> TensorSpec:
        """The input's shape, with one element per sum along `axis`."""
        require_float(input=input)
        require_dtype(np.int64, indices=indices)
        require_dtype(np.float64 if input.dtype == np.float64 else np.float32, weights=weights)
        require_rank(2, indices=indices)
        require_shape(indices.shape, weights=weights)
        if indices.shape[0] == 0:
            raise OpError("operands 'indices' and 'weights' must have at least one term")
        along = normalize_axis(axis, input.rank)
        if input.shape[along] == 0:
            raise OpError(f"resamples axis {along} of {input}, which has no elements")
        return input.with_shape((*input.shape[:along], indices.shape[1], *input.shape[along + 1 :]))

    @staticmethod
    @widened
    def reference(input: np.ndarray, indices: np.ndarray, weights: np.ndarray, *, axis: int, extent: int) -> np.ndarray:
        """Adds up term by term."""
        along = (-1, *[1] * (input.ndim - 1 - axis % input.ndim))
        terms = (
            np.take(input, index, axis, mode="clip") * weight.reshape(along)
            for index, weight in zip(indices, weights, strict=True)
        )
        return functools.reduce(np.add, terms)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])


class DynamicResizeOp(Op):
    """The tensor interpolated by factors or to extents that an operand holds; exactly one of the two is present.

    Attributes:
        axes: the dimensions that the operand's entries refer to, in its order; () means all of them.

    The other attributes are those of `resize`.

    ```mlir
    %2 = "stepwell.dynamic_resize"(%0, %1) {operandSegmentSizes = array<i32: 1, 1, 0>, mode = "linear"}
        : (tensor<1x8x?x?xf32>, tensor<4xf32>) -> tensor<?x?x?x?xf32>
    ```
    """

    OPERATION_NAME = "stepwell.dynamic_resize"
    KERNEL = KernelTraits("movement")
    ROUNDING = Rounding.SUM
    input = operand()
    scales = optional_operand("1-D floats; the result's extents are `floor(extent * scale)`")
    sizes = optional_operand("1-D i64")
    axes = attribute(tuple, default=())
    mode = attribute(str, default="nearest", choices=MODES)
    coordinates = attribute(str, default="half_pixel", choices=COORDINATES)
    nearest = attribute(str, default="round_prefer_floor", choices=NEAREST)
    cubic_coefficient = attribute(float, default=-0.75)
    exclude_outside = attribute(bool, default=False)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        scales: TensorSpec | None,
        sizes: TensorSpec | None,
        *,
        axes: tuple[int, ...],
        mode: str,
        **_attributes: object,
    ) -> TensorSpec:
        """The extents that follow from the operand if it is constant, else unknown ones."""
        _require_interpolable(input, mode)
        if (scales is None) == (sizes is None):
            raise OpError("takes exactly one of the operands 'scales' and 'sizes'")
        along = normalize_axes(axes, input.rank) if axes else tuple(range(input.rank))
        if sizes is not None:
            return input.with_shape(_replaced(input.shape, along, shape_from(sizes, "sizes")))
        assert scales is not None
        require_rank(1, scales=scales)
        if not is_float(scales.dtype):
            raise OpError(f"operand 'scales' must be floats, but is {scales}")
        if scales.value is None:
            return input.with_shape(_replaced(input.shape, along, tuple(dims.unknown() for _ in along)))
        scaled = [_scaled(input.shape[axis], scale) for axis, scale in zip(along, scales.value, strict=False)]
        return input.with_shape(_replaced(input.shape, along, tuple(scaled)))

    @staticmethod
    def reference(
        input: np.ndarray,
        scales: np.ndarray | None,
        sizes: np.ndarray | None,
        *,
        axes: tuple[int, ...],
        **attributes: object,
    ) -> np.ndarray:
        """Same as `resize`, with sizes and scales computed from the operand."""
        full_sizes, full_scales = resolve_sizes(input.shape, scales, sizes, axes)
        return ResizeOp.reference(input, sizes=full_sizes, scales=full_scales, **attributes)


def resolve_sizes(
    shape: DimShape, scales: np.ndarray | None, sizes: np.ndarray | None, axes: tuple[int, ...]
) -> tuple[DimShape, np.ndarray]:
    """The `sizes` and `scales` of the `resize` that a `dynamic_resize` with known operands is equal to.

    Raises:
        UndecidedError: a size does not follow from a factor and the expression of an extent.
    """
    along = normalize_axes(axes, len(shape)) if axes else tuple(range(len(shape)))
    full_sizes, full_scales = list(shape), np.ones(len(shape), np.float32)
    for index, axis in enumerate(along):
        if sizes is not None:
            size = full_sizes[axis] = sizes[index] if isinstance(sizes[index], Symbolic) else int(sizes[index])
            full_scales[axis] = _factor(size, shape[axis])
        elif scales is not None:
            full_sizes[axis], full_scales[axis] = _scaled(shape[axis], scales[index]), scales[index]
            if not dims.is_known(full_sizes[axis]):
                raise UndecidedError(f"{shape[axis]} elements times {scales[index]} is no expression over sizes")
    return tuple(full_sizes), full_scales


def _factor(size: Dim, extent: Dim) -> np.float32:
    """`size / extent`; NaN if it depends on sizes."""
    if isinstance(size, int) and isinstance(extent, int):
        return np.float32(size) / np.float32(extent)
    factor = floor_div(size, extent)
    return np.float32(factor) if isinstance(factor, int) and extent * factor == size else np.float32(np.nan)


def _scaled(dim: Dim, scale: np.floating) -> Dim:
    """`floor(dim * scale)`, as float32 computes it."""
    if isinstance(dim, int):
        return math.floor(np.float32(dim) * np.float32(scale))
    ratio = Fraction(float(scale))
    # The product of float32 is exact if both numbers have few bits.
    is_exact = ratio.denominator <= _EXACT and ratio.numerator <= _EXACT
    return floor_div(dim * ratio.numerator, ratio.denominator) if is_exact else dims.unknown()


_EXACT = 1 << 6
"""Greatest numerator and denominator of a factor whose products with extents below 2**18 are exact in float32."""


def _replaced(shape: DimShape, axes: tuple[int, ...], extents: DimShape) -> DimShape:
    if len(extents) != len(axes):
        raise OpError(f"resizes {quantity(len(axes), 'dimension')}, but {quantity(len(extents), 'entry')} are given")
    new = dict(zip(axes, extents, strict=True))
    return tuple(new.get(axis, dim) for axis, dim in enumerate(shape))


def _require_interpolable(input: TensorSpec, mode: str) -> None:
    if mode != "nearest" and not is_float(input.dtype):
        raise OpError(f"mode {mode} takes floating point, but operand 'input' is {input}")
