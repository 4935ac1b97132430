"""Elementwise ops: each result element depends on one element of every operand, operands broadcast as in numpy."""

from __future__ import annotations

import numpy as np

from ..core import Op, OpError, attribute, operand, result
from ..types import TensorSpec
from .shapes import broadcast, same_dtype


class UnaryOp(Op):
    """Base of the ops that compute one tensor from one tensor of the same shape and element type."""

    input = operand()
    result = result()

    @staticmethod
    def infer(input: TensorSpec) -> TensorSpec:
        """The result is like the input."""
        return input.with_shape(input.shape)


class BinaryOp(Op):
    """Base of the ops that compute one tensor from two of the same element type."""

    lhs = operand()
    rhs = operand()
    result = result()

    @staticmethod
    def infer(lhs: TensorSpec, rhs: TensorSpec) -> TensorSpec:
        """The shape is that of the operands, broadcast; the element type is theirs."""
        same_dtype(lhs, rhs)
        return lhs.with_shape(broadcast(lhs.shape, rhs.shape))


class TanhOp(UnaryOp):
    """Hyperbolic tangent.

    ```mlir
    %1 = "stepwell.tanh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.tanh"
    reference = staticmethod(np.tanh)


class AddOp(BinaryOp):
    """Sum.

    ```mlir
    %2 = "stepwell.add"(%0, %1) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.add"
    reference = staticmethod(np.add)
