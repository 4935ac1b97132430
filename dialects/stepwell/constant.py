"""Constants: small literals in the IR, and parameters beside it."""

from __future__ import annotations

import numpy as np

from ..core import Op, OpError, Rounding, attribute, result
from ..types import TensorSpec


class ConstantOp(Op):
    """A small literal, or a splat of any size.

    ```mlir
    %0 = "stepwell.constant"() {value = dense<[1, -1]> : tensor<2xi64>} : () -> tensor<2xi64>
    ```
    """

    OPERATION_NAME = "stepwell.constant"
    value = attribute(np.ndarray)
    result = result()

    @staticmethod
    def infer(*, value: np.ndarray) -> TensorSpec:
        """The literal's shape, element type and contents."""
        return TensorSpec(value.shape, value.dtype, value)

    @staticmethod
    def reference(*, value: np.ndarray) -> np.ndarray:
        """The literal."""
        return value


class ParameterOp(Op):
    """A tensor stored beside the module under a name: a weight of the model, or a value computed from weights.

    It has no reference of its own: the evaluator holds the parameters.

    ```mlir
    %0 = "stepwell.parameter"() {name = "fc1.weight", shape = array<i64: 128, 384>, dtype = f32}
        : () -> tensor<128x384xf32>
    ```
    """

    OPERATION_NAME = "stepwell.parameter"
    ROUNDING = Rounding.ROUNDED
    name = attribute(str)
    shape = attribute(tuple)
    dtype = attribute(np.dtype)
    result = result()

    @staticmethod
    def infer(*, name: str, shape: tuple[int, ...], dtype: np.dtype) -> TensorSpec:
        """The declared shape and element type."""
        if not name:
            raise OpError("attribute 'name' must not be empty")
        if any(dim < 0 for dim in shape):
            raise OpError(f"attribute 'shape' must not be negative, but is {', '.join(map(str, shape))}")
        return TensorSpec(shape, dtype)

    @classmethod
    def is_linear(cls) -> bool:
        """True: the op has no operands."""
        return True
