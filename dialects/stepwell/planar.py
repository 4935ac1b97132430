"""Ops on images in channels-first layout, in which each channel is a separate plane."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec
from .numerics import widened
from .shapes import require_float, same_dtype
from .windows import CHANNELS_FIRST, Window


class PlanarConvOp(Op):
    """Convolution of every plane of `input` [N, C, *spatial] by its own filter in `weight` [C, *kernel].

    Attributes:
        kernel: the extent of the window per spatial dimension.
        strides: the step per spatial dimension.
        pads: zeros added before each spatial dimension, then those added after; fewer than the window's extent.
        dilations: the distance between neighbouring window elements, per spatial dimension.

    ```mlir
    %1 = "stepwell.planar_conv"(%0, %w) {kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>,
        pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<1x8x40x40xf32>, tensor<8x3x3xf32>) -> tensor<1x8x40x40xf32>
    ```
    """

    OPERATION_NAME = "stepwell.planar_conv"
    KERNEL = KernelTraits("pooling", works_on_views=True)
    ROUNDING = Rounding.SUM
    layout = CHANNELS_FIRST
    input = operand()
    weight = operand("[C, *kernel]")
    kernel = attribute(tuple)
    strides = attribute(tuple)
    pads = attribute(tuple)
    dilations = attribute(tuple)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, weight: TensorSpec, *, kernel: tuple, strides: tuple, pads: tuple, dilations: tuple
    ) -> TensorSpec:
        """The same channels, and the spatial positions of the window."""
        require_float(input=input)
        same_dtype(input, weight)
        window = Window(kernel, strides, pads, dilations)
        window.check()
        window.check_pads()
        if input.rank != len(kernel) + 2 or tuple(weight.shape) != (input.shape[1], *kernel):
            raise OpError(f"the weight must be [channels, *kernel] of input {input}, but is {weight}")
        return input.with_shape((*input.shape[:2], *window.output_shape(input.shape[2:])))

    @staticmethod
    @widened
    def reference(input: np.ndarray, weight: np.ndarray, **attributes: Any) -> np.ndarray:
        """The sum over the window's taps, one tap for all positions at a time."""
        window = Window(**attributes)
        positions = window.positions(input)
        total = np.zeros((*input.shape[:2], *positions), input.dtype)
        for place, view in window.views(window.pad(input, 0, positions), positions):
            factor = weight[(slice(None), *place)]
            total += view * factor.reshape(-1, *[1] * len(positions))
        return total

    def flops(self) -> int:
        """One multiply-add for each element of the result and of the kernel."""
        return 2 * size_of(self.result) * math.prod(self.kernel)
