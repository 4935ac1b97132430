"""Reductions: many elements to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..dims import DimShape, numbers
from ..specs import size_of
from ..types import TensorSpec, is_float
from .numerics import widened
from .shapes import normalize_axes, normalize_axis, require_number

Number: TypeAlias = float | int | bool


class ReductionOp(Op):
    """Base of the reductions.

    Attributes:
        axes: the dimensions that are reduced; if empty, the result equals the input.
        keepdims: whether a reduced dimension remains with an extent of 1.
    """

    KERNEL = KernelTraits("reduction", works_on_views=True)

    input = operand()
    axes = attribute(tuple)
    keepdims = attribute(bool, default=True)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        """The input's dimensions, the reduced ones 1 or removed."""
        return input.with_shape(_reduced(input.shape, normalize_axes(axes, input.rank), keepdims))

    @staticmethod
    def neutral(dtype: np.dtype) -> Number:
        """Returns the neutral element: the number that does not change a result if it is among the reduced elements.

        Raises:
            ValueError: there is none, as for means.
        """
        raise ValueError("the reduction has no neutral element")

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])


class NumericReductionOp(ReductionOp):
    """Base of the reductions that do arithmetic on the elements."""

    ROUNDING = Rounding.SUM

    @staticmethod
    def infer(input: TensorSpec, *, axes: tuple[int, ...], keepdims: bool) -> TensorSpec:
        """The input's dimensions, the reduced ones 1 or removed; bools are not accepted."""
        require_number(input=input)
        return ReductionOp.infer(input, axes=axes, keepdims=keepdims)


def _reduced(shape: DimShape, axes: tuple[int, ...], keepdims: bool) -> DimShape:
    if keepdims:
        return tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _with(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The reference that reduces with a numpy function."""

    @widened
    def reference(input: np.ndarray, *, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        return function(input, axis=axes, keepdims=keepdims)

    return reference


def _extreme(function: Callable[..., np.ndarray], empty: Callable[[np.dtype], Number]) -> Callable[..., np.ndarray]:
    """The reference of an extreme; `empty` returns the result over no elements for a type."""

    @widened
    def reference(input: np.ndarray, *, axes: tuple[int, ...], keepdims: bool) -> np.ndarray:
        if input.size:
            return function(input, axis=axes, keepdims=keepdims)
        shape = numbers(_reduced(input.shape, normalize_axes(axes, input.ndim), keepdims))
        return np.full(shape, empty(input.dtype))

    return reference


def least_of(dtype: np.dtype) -> Number:
    """Returns the least number of a type: minus infinity for floats, False for bools."""
    if is_float(dtype):
        return -np.inf
    return False if dtype == np.bool_ else int(np.iinfo(dtype).min)


def greatest_of(dtype: np.dtype) -> Number:
    """Returns the greatest number of a type: infinity for floats, True for bools."""
    if is_float(dtype):
        return np.inf
    return True if dtype == np.bool_ else int(np.iinfo(dtype).max)


class ReduceSumOp(NumericReductionOp):
    """The sum (ONNX ReduceSum); integers wrap around.

    ```mlir
    %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reduce_sum"
    reference = staticmethod(_with(np.sum))
    neutral = staticmethod(lambda dtype: 0)


class ReduceMeanOp(NumericReductionOp):
    """The mean (ONNX ReduceMean); on integers, rounded towards zero.

    ```mlir
    %1 = "stepwell.reduce_mean"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reduce_mean"
    reference = staticmethod(_with(np.mean))


class ReduceProdOp(NumericReductionOp):
    """The product (ONNX ReduceProd); integers wrap around.

    ```mlir
    %1 = "stepwell.reduce_prod"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reduce_prod"
    reference = staticmethod(_with(np.prod))
    neutral = staticmethod(lambda dtype: 1)


class ReduceMaxOp(ReductionOp):
    """The greatest element, NaN if one is (ONNX ReduceMax); over no elements, the type's least value (-inf for floats).

    ```mlir
    %1 = "stepwell.reduce_max"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reduce_max"
    reference = staticmethod(_extreme(np.max, least_of))
    neutral = staticmethod(least_of)


class ReduceMinOp(ReductionOp):
    """The least element, NaN if one is (ONNX ReduceMin); over no elements, the type's greatest value (inf for floats).

    ```mlir
    %1 = "stepwell.reduce_min"(%0) {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4x1xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reduce_min"
    reference = staticmethod(_extreme(np.min, greatest_of))
    neutral = staticmethod(greatest_of)


class ArgmaxOp(Op):
    """The index of the greatest element along `axis`, the first one among equals (ONNX ArgMax).

    Attributes:
        keepdims: whether the dimension remains with an extent of 1.

    ```mlir
    %1 = "stepwell.argmax"(%0) {axis = 1 : i64, keepdims = false} : (tensor<4x8xf32>) -> tensor<4xi64>
    ```
    """

    OPERATION_NAME = "stepwell.argmax"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    input = operand()
    axis = attribute(int)
    keepdims = attribute(bool, default=True)
    result = result("i64")

    @staticmethod
    def infer(input: TensorSpec, *, axis: int, keepdims: bool) -> TensorSpec:
        """An i64 tensor, the dimension 1 or removed."""
        require_number(input=input)
        along = normalize_axis(axis, input.rank)
        if input.shape[along] == 0:
            raise OpError(f"axis {along} of {input} has no element")
        return TensorSpec(_reduced(input.shape, (along,), keepdims), np.dtype(np.int64))

    @staticmethod
    def reference(input: np.ndarray, *, axis: int, keepdims: bool) -> np.ndarray:
        """Computes it with numpy."""
        return np.argmax(input, axis, keepdims=keepdims)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])
