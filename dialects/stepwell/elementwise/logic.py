"""Comparisons, logic, selection and conversion of element types."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core import OpError, attribute, operand, result
from ...types import TensorSpec, is_float
from ..shapes import broadcast, require_dtype, same_dtype
from .arithmetic import UnaryOp
from .base import ElementwiseOp


class ComparisonOp(ElementwiseOp):
    """Base of ops that compare two tensors of the same element type."""

    lhs = operand()
    rhs = operand()
    result = result("bool")

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec) -> TensorSpec:
        """A bool tensor whose shape is that of the operands, broadcast."""
        same_dtype(lhs, rhs)
        return TensorSpec(broadcast(lhs.shape, rhs.shape), np.dtype(np.bool_))


class LogicalOp(ElementwiseOp):
    """Base of ops that combine two bool tensors, or two integer tensors bit by bit."""

    lhs = operand("bool or integer")
    rhs = operand("bool or integer")
    result = result()

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec) -> TensorSpec:
        """The shape is that of the operands, broadcast; the element type is theirs."""
        _require_bits(lhs, "lhs")
        same_dtype(lhs, rhs)
        return lhs.with_shape(broadcast(lhs.shape, rhs.shape))


def _require_bits(spec: TensorSpec, name: str) -> None:
    if is_float(spec.dtype):
        raise OpError(f"operand '{name}' must be bool or integer, but is {spec}")


class EqualOp(ComparisonOp):
    """`lhs == rhs`, element by element (ONNX Equal).

    ```mlir
    %2 = "stepwell.equal"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.equal"
    reference = staticmethod(np.equal)


class LessOp(ComparisonOp):
    """`lhs < rhs`, element by element (ONNX Less).

    ```mlir
    %2 = "stepwell.less"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.less"
    reference = staticmethod(np.less)


class LessEqualOp(ComparisonOp):
    """`lhs <= rhs`, element by element (ONNX LessOrEqual).

    ```mlir
    %2 = "stepwell.less_equal"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.less_equal"
    reference = staticmethod(np.less_equal)


class GreaterOp(ComparisonOp):
    """`lhs > rhs`, element by element (ONNX Greater).

    ```mlir
    %2 = "stepwell.greater"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.greater"
    reference = staticmethod(np.greater)


class GreaterEqualOp(ComparisonOp):
    """`lhs >= rhs`, element by element (ONNX GreaterOrEqual).

    ```mlir
    %2 = "stepwell.greater_equal"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.greater_equal"
    reference = staticmethod(np.greater_equal)


class AndOp(LogicalOp):
    """Conjunction (ONNX And, BitwiseAnd).

    ```mlir
    %2 = "stepwell.and"(%0, %1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.and"
    reference = staticmethod(np.bitwise_and)


class OrOp(LogicalOp):
    """Disjunction (ONNX Or, BitwiseOr).

    ```mlir
    %2 = "stepwell.or"(%0, %1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.or"
    reference = staticmethod(np.bitwise_or)


class XorOp(LogicalOp):
    """Exclusive disjunction (ONNX Xor, BitwiseXor).

    ```mlir
    %2 = "stepwell.xor"(%0, %1) : (tensor<4x8xi1>, tensor<8xi1>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.xor"
    reference = staticmethod(np.bitwise_xor)


class NotOp(UnaryOp):
    """Negation of a bool tensor, or of every bit of an integer tensor (ONNX Not, BitwiseNot).

    ```mlir
    %1 = "stepwell.not"(%0) : (tensor<4x8xi1>) -> tensor<4x8xi1>
    ```
    """

    OPERATION_NAME = "stepwell.not"
    reference = staticmethod(np.invert)

    @staticmethod
    def infer(input: TensorSpec, **_attributes: Any) -> TensorSpec:
        """The result is like the input, which is bool or integer."""
        _require_bits(input, "input")
        return input.with_shape(input.shape)


class SelectOp(ElementwiseOp):
    """`on_true` if the condition is true, else `on_false`; all three broadcast (ONNX Where).

    ```mlir
    %3 = "stepwell.select"(%0, %1, %2) : (tensor<4x1xi1>, tensor<4x8xf32>, tensor<f32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.select"
    condition = operand("bool")
    on_true = operand()
    on_false = operand()
    result = result()
    reference = staticmethod(np.where)

    @staticmethod
    def infer(condition: TensorSpec, on_true: TensorSpec, on_false: TensorSpec) -> TensorSpec:
        """The shape is that of all three, broadcast; the element type is that of the two choices."""
        require_dtype(np.bool_, condition=condition)
        same_dtype(on_true, on_false)
        return on_true.with_shape(broadcast(condition.shape, on_true.shape, on_false.shape))


class MaskOp(ElementwiseOp):
    """`input` where the mask is not 0, the number `otherwise` elsewhere; both broadcast.

    Unlike `select` it takes a mask of the input's own element type, so a vector holds as many mask as input elements.

    Attributes:
        extent: index, in the table of extents, of the length of the mask if the mask is a prefix; else -1. It does not
            change the values.

    ```mlir
    %2 = "stepwell.mask"(%0, %1) {otherwise = 0.0 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.mask"
    input = operand()
    mask = operand("the input's element type; 0 or 1")
    otherwise = attribute(float, default=0.0)
    extent = attribute(int, default=-1)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, mask: TensorSpec, *, otherwise: float, extent: int) -> TensorSpec:
        """The shape is that of both, broadcast; the element type is theirs."""
        same_dtype(input, mask)
        return input.with_shape(broadcast(input.shape, mask.shape))

    @staticmethod
    def reference(input: np.ndarray, mask: np.ndarray, *, otherwise: float, extent: int) -> np.ndarray:
        """Computes it with numpy."""
        return np.where(mask != 0, input, np.asarray(otherwise).astype(input.dtype))


class CastOp(ElementwiseOp):
    """Conversion to another element type (ONNX Cast).

    A float converts to an integer by rounding towards zero (undefined if out of range), a number to a bool as `x != 0`,
    and a float to a narrower float by rounding to the nearest, halves to even.

    ```mlir
    %1 = "stepwell.cast"(%0) {dtype = i64} : (tensor<4xf32>) -> tensor<4xi64>
    ```
    """

    OPERATION_NAME = "stepwell.cast"
    input = operand()
    dtype = attribute(np.dtype)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, dtype: np.dtype) -> TensorSpec:
        """The input's shape with the element type `dtype`."""
        return input.with_dtype(dtype)

    @staticmethod
    def reference(input: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
        """Computes it with numpy."""
        return input.astype(dtype)
