"""The tangent, the hyperbolic functions, and the inverses of both kinds."""

from __future__ import annotations

import numpy as np

from ..numerics import widened
from .arithmetic import FloatUnaryOp


class TanOp(FloatUnaryOp):
    """Tangent of an angle in radians (ONNX Tan).

    ```mlir
    %1 = "stepwell.tan"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.tan"
    reference = staticmethod(widened(np.tan))


class AsinOp(FloatUnaryOp):
    """Inverse sine (ONNX Asin); NaN outside of [-1, 1].

    ```mlir
    %1 = "stepwell.asin"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.asin"
    reference = staticmethod(widened(np.arcsin))


class AcosOp(FloatUnaryOp):
    """Inverse cosine (ONNX Acos); NaN outside of [-1, 1].

    ```mlir
    %1 = "stepwell.acos"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.acos"
    reference = staticmethod(widened(np.arccos))


class AtanOp(FloatUnaryOp):
    """Inverse tangent (ONNX Atan).

    ```mlir
    %1 = "stepwell.atan"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.atan"
    reference = staticmethod(widened(np.arctan))


class SinhOp(FloatUnaryOp):
    """Hyperbolic sine (ONNX Sinh).

    ```mlir
    %1 = "stepwell.sinh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sinh"
    reference = staticmethod(widened(np.sinh))


class CoshOp(FloatUnaryOp):
    """Hyperbolic cosine (ONNX Cosh).

    ```mlir
    %1 = "stepwell.cosh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.cosh"
    reference = staticmethod(widened(np.cosh))


class AsinhOp(FloatUnaryOp):
    """Inverse hyperbolic sine (ONNX Asinh).

    ```mlir
    %1 = "stepwell.asinh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.asinh"
    reference = staticmethod(widened(np.arcsinh))


class AcoshOp(FloatUnaryOp):
    """Inverse hyperbolic cosine (ONNX Acosh); NaN below 1.

    ```mlir
    %1 = "stepwell.acosh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.acosh"
    reference = staticmethod(widened(np.arccosh))


class AtanhOp(FloatUnaryOp):
    """Inverse hyperbolic tangent (ONNX Atanh); infinite at -1 and 1, NaN beyond.

    ```mlir
    %1 = "stepwell.atanh"(%0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.atanh"
    reference = staticmethod(widened(np.arctanh))
