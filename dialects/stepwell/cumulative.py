"""Running totals: each result element combines all elements up to it."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..core import KernelTraits, OpError, Rounding, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec, byte_integer, is_float, is_tiny_float
from .axes import AlongAxesOp
from .numerics import widened
from .shapes import normalize_axis, require_number


class CumulativeOp(AlongAxesOp):
    """The sums (or products) of all elements up to each one along `axis` (ONNX CumSum and CumProd).

    Attributes:
        axis: the dimension along which elements are accumulated.
        mode: whether they are added or multiplied.
        reverse: whether to start from the last element.
        exclusive: whether an element is left out of its own total; the first total then is 0 (1 for products).

    ```mlir
    %1 = "stepwell.cumulative"(%0) {axis = 1 : i64} : (tensor<4x100xf32>) -> tensor<4x100xf32>
    ```
    """

    OPERATION_NAME = "stepwell.cumulative"
    KERNEL = KernelTraits("cumulative")
    ROUNDING = Rounding.SUM
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
            raise OpError(
                f"operand 'input' must have elements of whole bytes, floats of at least two bytes, but is {input}"
            )
        normalize_axis(axis, input.rank)
        return input.with_shape(input.shape)  # without its contents

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, axis: int, mode: str, reverse: bool, exclusive: bool) -> np.ndarray:
        """Computes it with numpy; sums of integers wrap around."""
        run = np.cumsum if mode == "sum" else np.cumprod
        ordered = np.flip(input, axis) if reverse else input
        total = run(ordered, axis=axis, dtype=input.dtype)
        if exclusive and total.size:
            first = np.full_like(np.take(total, [0], axis), 0 if mode == "sum" else 1)
            total = np.concatenate([first, np.take(total, np.arange(total.shape[axis] - 1), axis)], axis)
        return np.flip(total, axis) if reverse else total

    def flops(self) -> int:
        """One operation for each element of the result."""
        return size_of(self.result)

    def combined_axes(self, rank: int) -> Collection[int]:
        """The axis of a reverse scan; a forward scan reads no elements behind its own index."""
        return {self.axis % rank} if self.reverse else ()
