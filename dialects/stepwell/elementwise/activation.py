"""Activation functions: unary, on floating point."""

from __future__ import annotations

import math

import numpy as np

from ...core import attribute
from ...types import is_float
from ..numerics import erf, sigmoid, widened
from .arithmetic import FloatUnaryOp, UnaryOp


class ReluOp(UnaryOp):
    """`max(x, 0)` (ONNX Relu).

    ```mlir
    %1 = "stepwell.relu"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.relu"
    reference = staticmethod(lambda input: np.maximum(input, input.dtype.type(0)))


class SigmoidOp(FloatUnaryOp):
    """`1 / (1 + exp(-x))` (ONNX Sigmoid).

    ```mlir
    %1 = "stepwell.sigmoid"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sigmoid"
    reference = staticmethod(widened(sigmoid))


class SiluOp(FloatUnaryOp):
    """`x * sigmoid(x)`, also called swish (ONNX Swish with alpha 1).

    ```mlir
    %1 = "stepwell.silu"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.silu"
    reference = staticmethod(widened(lambda input: input * sigmoid(input)))


class SoftplusOp(FloatUnaryOp):
    """`log(1 + exp(x))` (ONNX Softplus).

    ```mlir
    %1 = "stepwell.softplus"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.softplus"
    reference = staticmethod(widened(lambda input: np.logaddexp(input, input.dtype.type(0))))


class HardSwishOp(FloatUnaryOp):
    """`x * max(0, min(1, x / 6 + 1 / 2))` (ONNX HardSwish).

    ```mlir
    %1 = "stepwell.hard_swish"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.hard_swish"
    reference = staticmethod(widened(lambda input: input * np.clip(input / 6 + 0.5, 0, 1)))


class GeluOp(FloatUnaryOp):
    """`x * P(X <= x)` for a standard normal X (ONNX Gelu; Hendrycks and Gimpel 2016).

    Attributes:
        approximate: "none" computes `x / 2 * (1 + erf(x / sqrt(2)))`, "tanh" the paper's approximation of it,
            `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))`.

    ```mlir
    %1 = "stepwell.gelu"(%0) {approximate = "tanh"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.gelu"
    approximate = attribute(str, default="none", choices=("none", "tanh"))

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, approximate: str) -> np.ndarray:
        """Computes it with numpy."""
        if approximate == "tanh":
            return input / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (input + 0.044715 * input**3)))
        return input / 2 * (1 + erf(input / np.sqrt(2)))


class HardSigmoidOp(FloatUnaryOp):
    """`max(0, min(1, alpha * x + beta))` (ONNX HardSigmoid).

    ```mlir
    %1 = "stepwell.hard_sigmoid"(%0) {alpha = 0.2 : f64, beta = 0.5 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.hard_sigmoid"
    alpha = attribute(float, default=0.2)
    beta = attribute(float, default=0.5)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, alpha: float, beta: float) -> np.ndarray:
        """Computes it with numpy."""
        return np.clip(alpha * input + beta, 0, 1)


class LeakyReluOp(FloatUnaryOp):
    """`x` if positive, else `alpha * x` (ONNX LeakyRelu).

    ```mlir
    %1 = "stepwell.leaky_relu"(%0) {alpha = 0.01 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.leaky_relu"
    alpha = attribute(float, default=0.01)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, alpha: float) -> np.ndarray:
        """Computes it with numpy."""
        return np.where(input >= 0, input, alpha * input)


class EluOp(FloatUnaryOp):
    """`x` if positive, else `alpha * (exp(x) - 1)` (ONNX Elu).

    ```mlir
    %1 = "stepwell.elu"(%0) {alpha = 1.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.elu"
    alpha = attribute(float, default=1.0)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, alpha: float) -> np.ndarray:
        """Computes it with numpy."""
        return np.where(input >= 0, input, alpha * np.expm1(np.minimum(input, 0)))


class ClipOp(UnaryOp):
    """`min(max(x, minimum), maximum)` (ONNX Clip), on floats and integers. By default there are no bounds.

    ```mlir
    %1 = "stepwell.clip"(%0) {minimum = 0.0 : f64, maximum = 6.0 : f64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.clip"
    minimum = attribute(float, default=-np.inf)
    maximum = attribute(float, default=np.inf)

    @staticmethod
    def reference(input: np.ndarray, *, minimum: float, maximum: float) -> np.ndarray:
        """Computes it with numpy."""
        if is_float(input.dtype):
            kind = input.dtype.type
            return np.minimum(np.maximum(input, kind(minimum)), kind(maximum))
        info = np.iinfo(input.dtype)
        low = info.min if minimum <= info.min else math.ceil(minimum)
        high = info.max if maximum >= info.max else math.floor(maximum)
        return np.minimum(np.maximum(input, input.dtype.type(low)), input.dtype.type(high))
