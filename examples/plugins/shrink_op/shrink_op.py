"""An op of another package: `example.shrink`, the soft shrinkage of wavelet denoising and of LISTA networks."""

import numpy as np
from stepwell.dialects.core import Dialect, attribute
from stepwell.dialects.stepwell.elementwise import FloatUnaryOp


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


EXAMPLE = Dialect("example", [ShrinkOp])
