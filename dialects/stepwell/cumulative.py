"""Running totals: each element is of all those up to it."""

from __future__ import annotations

import numpy as np

from ..core import Op, OpError, attribute, operand, result
from ..types import TensorSpec, byte_integer, is_float, is_tiny_float
from .numerics import widened
from .shapes import normalize_axis, require_number


class CumulativeOp(Op):
    """The sums (or products) of the elements up to each one along `axis` (ONNX CumSum and CumProd).

    Attributes:
        axis: the dimension along which elements follow each other.
        mode: whether they are added or multiplied.
        reverse: whether the last element comes first.
        exclusive: whether an element is of those before it alone; the first one then is 0 (of products 1).

    ```mlir
    %1 = "stepwell.cumulative"(%0) {axis = 1 : i64} : (tensor<4x100xf32>) -> tensor<4x100xf32>
    ```
    """

    OPERATION_NAME = "stepwell.cumulative"
    input = operand()
    axis = attribute(int)
    mode = attribute(str, default="sum", choices=("sum", "product"))
    reverse = attribute(bool, default=False)
    exclusive = attribute(bool, default=False)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axis: int, mode: str, reverse: bool, exclusive: bool) -> TensorSpec:
        """The result is like the input."""
        require_number(input=input)
        dtype = input.dtype
        if is_tiny_float(dtype) or (not is_float(dtype) and byte_integer(dtype) != dtype):
            raise OpError(f"operand 'input' must be of whole bytes, and floats of two or more, but is {input}")
        normalize_axis(axis, input.rank)
        return input

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, axis: int, mode: str, reverse: bool, exclusive: bool) -> np.ndarray:
        """Sums of integers wrap."""
        run = np.cumsum if mode == "sum" else np.cumprod
        turned = np.flip(input, axis) if reverse else input
        total = run(turned, axis=axis, dtype=input.dtype)
        if exclusive and total.size:
            first = np.full_like(np.take(total, [0], axis), 0 if mode == "sum" else 1)
            total = np.concatenate([first, np.take(total, np.arange(total.shape[axis] - 1), axis)], axis)
        return np.flip(total, axis) if reverse else total
