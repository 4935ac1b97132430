"""Ops on the bits of elements: shifts, and reinterpretation as another element type."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ...core import OpError, attribute, operand, result
from ...types import TensorSpec, integer_bits, is_integer, type_name
from ..shapes import broadcast, same_dtype
from .base import ElementwiseOp


class ShiftOp(ElementwiseOp):
    """Base of the shifts of integers."""

    lhs = operand("integer")
    rhs = operand("integer")
    result = result()

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec) -> TensorSpec:
        """The shape is that of the operands, broadcast; the element type is theirs."""
        if not is_integer(lhs.dtype):
            raise OpError(f"operand 'lhs' must be integer, but is {lhs}")
        same_dtype(lhs, rhs)
        return lhs.with_shape(broadcast(lhs.shape, rhs.shape))


def _is_possible(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return (rhs >= 0) & (rhs < integer_bits(lhs.dtype))


def _shift_left(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    is_possible = _is_possible(lhs, rhs)
    return np.where(is_possible, np.left_shift(lhs, np.where(is_possible, rhs, 0)), 0).astype(lhs.dtype)


def _shift_right(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    is_possible = _is_possible(lhs, rhs)
    shifted = np.right_shift(lhs, np.where(is_possible, rhs, 0))
    return np.where(is_possible, shifted, np.where(lhs < 0, -1, 0)).astype(lhs.dtype)


class ShiftLeftOp(ShiftOp):
    """`lhs` shifted by `rhs` bits towards the higher ones (ONNX BitShift LEFT).

    The result is 0 if the shift amount is negative or not less than the number of bits.

    ```mlir
    %2 = "stepwell.shift_left"(%0, %1) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
    """

    OPERATION_NAME = "stepwell.shift_left"
    reference = staticmethod(_shift_left)


class ShiftRightOp(ShiftOp):
    """`lhs` shifted by `rhs` bits towards the lower ones, the sign kept (ONNX BitShift RIGHT).

    If the shift amount is negative or not less than the number of bits, the result is 0, or -1 for negative elements.

    ```mlir
    %2 = "stepwell.shift_right"(%0, %1) : (tensor<4x8xi32>, tensor<8xi32>) -> tensor<4x8xi32>
    ```
    """

    OPERATION_NAME = "stepwell.shift_right"
    reference = staticmethod(_shift_right)


class BitcastOp(ElementwiseOp):
    """The elements' bits reinterpreted as another type of the same width (ONNX BitCast).

    ```mlir
    %1 = "stepwell.bitcast"(%0) {dtype = i32} : (tensor<4xf32>) -> tensor<4xi32>
    ```
    """

    OPERATION_NAME = "stepwell.bitcast"
    input = operand()
    dtype = attribute(np.dtype)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, dtype: np.dtype) -> TensorSpec:
        """The input's shape with the element type `dtype`."""
        if _bits(input.dtype) != _bits(dtype):
            raise OpError(
                f"cannot bitcast {input} to {type_name(dtype)}: "
                f"its elements have {_bits(input.dtype)} bits, not {_bits(dtype)}"
            )
        return input.with_dtype(dtype)

    @staticmethod
    def reference(input: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
        """Computes it with numpy."""
        if dtype == np.bool_:
            return input.view(np.uint8) != 0
        return np.ascontiguousarray(input).view(dtype).reshape(input.shape)


def _bits(dtype: np.dtype) -> int:
    """The number of bits of an element; a bool has the 8 bits of its byte."""
    if is_integer(dtype):
        return integer_bits(dtype)
    return 8 if dtype == np.bool_ else int(ml_dtypes.finfo(dtype).bits)
