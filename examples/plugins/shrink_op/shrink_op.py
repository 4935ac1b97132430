"""An op of another package: `example.shrink`, the soft shrinkage of wavelet denoising and of LISTA networks."""

import numpy as np
from mlir import ir
from mlir.dialects import arith
from stepwell.dialects.core import Dialect, Op, attribute
from stepwell.dialects.stepwell.elementwise import FloatUnaryOp
from stepwell.lowering.builders.scalars import number
from stepwell.lowering.stepwell_to_linalg.elementwise import SCALAR


class ShrinkOp(FloatUnaryOp):
    """Moves each element toward 0 by `by`; elements nearer to 0 become 0.

    ```mlir
    %1 = "example.shrink"(%0) {by = 0.5 : f64} : (tensor<4xf32>) -> tensor<4xf32>
    ```

    Attributes:
        by: the distance.
    """

    OPERATION_NAME = "example.shrink"
    by = attribute(float, default=0.5)

    @staticmethod
    def reference(input: np.ndarray, *, by: float) -> np.ndarray:
        """Computes it with numpy."""
        return np.sign(input) * np.maximum(np.abs(input) - by, 0)


@SCALAR.attach(ShrinkOp)
def shrink(op: Op, dtype: np.dtype, value: ir.Value) -> ir.Value:
    """min(x + by, 0) + max(x - by, 0)"""
    by, zero = number(op.attribute_values()["by"], value.type), number(0, value.type)
    negative = arith.minimumf(arith.addf(value, by), zero)
    return arith.addf(negative, arith.maximumf(arith.subf(value, by), zero))


EXAMPLE = Dialect("example", [ShrinkOp])
