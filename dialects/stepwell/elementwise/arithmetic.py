"""Arithmetic, element by element: the unary functions and the binary operators."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...core import Rounding, operand, result
from ...types import TensorSpec, is_float
from ..numerics import erf, widened
from ..shapes import broadcast, require_float, require_number, same_dtype
from .base import ElementwiseOp


class UnaryOp(ElementwiseOp):
    """Base of ops that map one tensor to a tensor of the same shape and element type."""

    input = operand()
    result = result()

    @staticmethod
    def infer(input: TensorSpec, **_attributes: Any) -> TensorSpec:
        """The result is like the input."""
        require_number(input=input)
        return input.with_shape(input.shape)


class FloatUnaryOp(UnaryOp):
    """Base of unary ops that are defined on floating point only."""

    ROUNDING = Rounding.ROUNDED

    @staticmethod
    def infer(input: TensorSpec, **_attributes: Any) -> TensorSpec:
        """The result is like the input, which is floating point."""
        require_float(input=input)
        return input.with_shape(input.shape)


class BinaryOp(ElementwiseOp):
    """Base of ops on two tensors of the same element type.

    Attributes:
        RIGHT_NEUTRAL: the right operand for which the result is the left one; None if there is no such number.
    """

    ROUNDING = Rounding.ROUNDED
    RIGHT_NEUTRAL: ClassVar[float | None] = None

    lhs = operand()
    rhs = operand()
    result = result()

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec) -> TensorSpec:
        """The shape is that of the operands, broadcast; the element type is theirs."""
        same_dtype(lhs, rhs)
        require_number(lhs=lhs)
        return lhs.with_shape(broadcast(lhs.shape, rhs.shape))


def _divide(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    if is_float(lhs.dtype):
        return np.divide(lhs, rhs)
    quotient = lhs // rhs
    rounded_down = (lhs % rhs != 0) & ((lhs < 0) != (rhs < 0))
    return quotient + rounded_down.astype(lhs.dtype)


def _remainder(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    return np.fmod(lhs, rhs) if is_float(lhs.dtype) else np.mod(lhs, rhs)


class AbsOp(UnaryOp):
    """Absolute value (ONNX Abs).

    ```mlir
    %1 = "stepwell.abs"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.abs"
    reference = staticmethod(np.abs)


class NegOp(UnaryOp):
    """Negation (ONNX Neg); integers wrap around.

    ```mlir
    %1 = "stepwell.neg"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.neg"
    reference = staticmethod(np.negative)


class SignOp(UnaryOp):
    """-1, 0 or 1 by the sign of the element (ONNX Sign).

    ```mlir
    %1 = "stepwell.sign"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sign"
    reference = staticmethod(np.sign)


class ExpOp(FloatUnaryOp):
    """Exponential (ONNX Exp).

    ```mlir
    %1 = "stepwell.exp"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.exp"
    reference = staticmethod(widened(np.exp))


class LogOp(FloatUnaryOp):
    """Natural logarithm (ONNX Log); NaN below 0.

    ```mlir
    %1 = "stepwell.log"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.log"
    reference = staticmethod(widened(np.log))


class SqrtOp(FloatUnaryOp):
    """Square root (ONNX Sqrt); NaN below 0.

    ```mlir
    %1 = "stepwell.sqrt"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sqrt"
    reference = staticmethod(widened(np.sqrt))


class RsqrtOp(FloatUnaryOp):
    """Reciprocal of the square root; infinite at 0, NaN below.

    ```mlir
    %1 = "stepwell.rsqrt"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.rsqrt"
    reference = staticmethod(widened(lambda x: 1 / np.sqrt(x)))


class ReciprocalOp(FloatUnaryOp):
    """`1 / x` (ONNX Reciprocal).

    ```mlir
    %1 = "stepwell.reciprocal"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.reciprocal"
    reference = staticmethod(widened(np.reciprocal))


class TanhOp(FloatUnaryOp):
    """Hyperbolic tangent (ONNX Tanh).

    ```mlir
    %1 = "stepwell.tanh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.tanh"
    reference = staticmethod(widened(np.tanh))


class ErfOp(FloatUnaryOp):
    """The error function (ONNX Erf).

    ```mlir
    %1 = "stepwell.erf"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.erf"
    reference = staticmethod(widened(erf))


class SinOp(FloatUnaryOp):
    """Sine of an angle in radians (ONNX Sin).

    ```mlir
    %1 = "stepwell.sin"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sin"
    reference = staticmethod(widened(np.sin))


class CosOp(FloatUnaryOp):
    """Cosine of an angle in radians (ONNX Cos).

    ```mlir
    %1 = "stepwell.cos"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.cos"
    reference = staticmethod(widened(np.cos))


class FloorOp(FloatUnaryOp):
    """Rounds towards negative infinity (ONNX Floor).

    ```mlir
    %1 = "stepwell.floor"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.floor"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(np.floor)


class CeilOp(FloatUnaryOp):
    """Rounds towards positive infinity (ONNX Ceil).

    ```mlir
    %1 = "stepwell.ceil"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.ceil"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(np.ceil)


class RoundOp(FloatUnaryOp):
    """Rounds to the nearest integer, halves to the even one (ONNX Round).

    ```mlir
    %1 = "stepwell.round"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.round"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(np.rint)


class AddOp(BinaryOp):
    """Sum (ONNX Add); integers wrap around.

    ```mlir
    %2 = "stepwell.add"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.add"
    RIGHT_NEUTRAL = 0
    reference = staticmethod(np.add)

    @classmethod
    def is_linear(cls) -> bool:
        """True: a sum of two operands."""
        return True


class SubOp(BinaryOp):
    """Difference (ONNX Sub); integers wrap around.

    ```mlir
    %2 = "stepwell.sub"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sub"
    RIGHT_NEUTRAL = 0
    reference = staticmethod(np.subtract)

    @classmethod
    def is_linear(cls) -> bool:
        """True: a difference of two operands."""
        return True


class MulOp(BinaryOp):
    """Product (ONNX Mul); integers wrap around.

    ```mlir
    %2 = "stepwell.mul"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.mul"
    RIGHT_NEUTRAL = 1
    reference = staticmethod(np.multiply)


class DivOp(BinaryOp):
    """Quotient (ONNX Div); integers round towards zero; dividing them by zero gives an undefined value.

    ```mlir
    %2 = "stepwell.div"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.div"
    RIGHT_NEUTRAL = 1
    reference = staticmethod(_divide)


class PowOp(BinaryOp):
    """`lhs` to the power of `rhs` (ONNX Pow; the importer casts both to one type).

    ```mlir
    %2 = "stepwell.pow"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.pow"
    RIGHT_NEUTRAL = 1
    reference = staticmethod(np.power)


class ModOp(BinaryOp):
    """Remainder (ONNX Mod), with the divisor's sign on integers (fmod = 0), the dividend's on floats (fmod = 1).

    ```mlir
    %2 = "stepwell.mod"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.mod"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(_remainder)


class MinimumOp(BinaryOp):
    """The lesser of two elements, NaN if either is (ONNX Min).

    ```mlir
    %2 = "stepwell.minimum"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.minimum"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(np.minimum)


class MaximumOp(BinaryOp):
    """The greater of two elements, NaN if either is (ONNX Max).

    ```mlir
    %2 = "stepwell.maximum"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.maximum"
    ROUNDING = Rounding.EXACT
    reference = staticmethod(np.maximum)
