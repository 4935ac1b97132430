"""Padding by amounts given as attributes, and the padding rules that all ops which pad share."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ....sizes.extrema import is_surely_less
from ...core import KernelTraits, Op, OpError, attribute, operand, result
from ...dims import Dim, DimShape
from ...types import TensorSpec
from ..shapes import (
    require_length,
)

PAD_MODES = ("constant", "reflect", "edge", "wrap")


class PadOp(Op):
    """`low` elements before and `high` elements after every dimension added (ONNX Pad).

    Attributes:
        mode: values of the new elements: "constant" `value`, "edge" the nearest element, "reflect" a mirror image about
            the edge element, which is not repeated, "wrap" the elements of the opposite end.

    ```mlir
    %1 = "stepwell.pad"(%0) {low = array<i64: 0, 1>, high = array<i64: 0, 2>} : (tensor<4x8xf32>) -> tensor<4x11xf32>
    ```
    """

    OPERATION_NAME = "stepwell.pad"
    KERNEL = KernelTraits("movement", works_on_views=True)
    input = operand()
    low = attribute(tuple)
    high = attribute(tuple)
    mode = attribute(str, default="constant", choices=PAD_MODES)
    value = attribute(float, default=0.0)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, low: tuple[Dim, ...], high: tuple[Dim, ...], mode: str, value: float) -> TensorSpec:
        """Each dimension grows by its `low` and `high`."""
        require_length(input.rank, low=low, high=high)
        return input.with_shape(padded_shape(input.shape, low, high, mode))

    @staticmethod
    def reference(
        input: np.ndarray, *, low: tuple[int, ...], high: tuple[int, ...], mode: str, value: float
    ) -> np.ndarray:
        """Computes it with numpy."""
        return padded(input, low, high, mode, value)


def padded_shape(shape: DimShape, low: tuple[Dim, ...], high: tuple[Dim, ...], mode: str) -> DimShape:
    """`shape` after padding.

    Raises:
        OpError: pads are negative, or the mode needs more elements than the dimension has.
    """
    if any(is_surely_less(count, 0) for count in (*low, *high)):
        raise OpError(f"pads must not be negative, but are {', '.join(map(str, (*low, *high)))}")
    needed = {
        "constant": lambda before, after: 0,
        "edge": lambda before, after: int(before + after > 0),
        "wrap": lambda before, after: int(before + after > 0),
        "reflect": lambda before, after: max(before, after) + 1,
    }
    for axis, (dim, before, after) in enumerate(zip(shape, low, high, strict=True)):
        if (
            isinstance(before, int)
            and isinstance(after, int)
            and isinstance(dim, int)
            and before + after > 0
            and dim < needed[mode](before, after)
        ):
            raise OpError(f"mode {mode} cannot add {before} and {after} elements to the {dim} of axis {axis}")
    return tuple(dim + before + after for dim, before, after in zip(shape, low, high, strict=True))


def padded(array: np.ndarray, low: tuple[int, ...], high: tuple[int, ...], mode: str, value: float) -> np.ndarray:
    """`array` padded with numpy."""
    widths = list(zip(low, high, strict=True))
    if not widths:
        return array
    if mode == "constant":
        return np.pad(array, widths, constant_values=np.asarray(value).astype(array.dtype))
    return np.pad(array, widths, mode=cast(Any, mode))
