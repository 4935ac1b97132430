"""Pooling: the maximum, sum or mean of the elements in each position of a window."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ..core import KernelTraits, Op, Rounding, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec, is_float
from .numerics import widened
from .shapes import require_float, require_length, require_number
from .windows import CHANNELS_FIRST, LAYOUTS, Window, from_channels_first, join_layout, split_layout, to_channels_first


class PoolOp(Op):
    """Base of the pooling ops, over 1 to 3 spatial dimensions.

    Attributes:
        kernel: the extent of the window per spatial dimension.
        strides: the step per spatial dimension.
        pads: elements added before each spatial dimension, then those added after; they do not affect the result.
        dilations: the distance between neighbouring window elements, per spatial dimension.
        ceil_mode: whether a last position that overhangs the padded input counts if it starts inside.
        layout: position of the channel dimension.
    """

    KERNEL = KernelTraits("pooling", works_on_views=True)

    input = operand()
    kernel = attribute(tuple)
    strides = attribute(tuple)
    pads = attribute(tuple)
    dilations = attribute(tuple)
    ceil_mode = attribute(bool, default=False)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        *,
        kernel: tuple[int, ...],
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        dilations: tuple[int, ...],
        ceil_mode: bool,
        layout: str,
        **_attributes: object,
    ) -> TensorSpec:
        """The same channels, and the spatial positions of the window."""
        require_number(input=input)
        require_length(input.rank - 2, kernel=kernel)
        window = Window(kernel, strides, pads, dilations, ceil_mode)
        window.check()
        window.check_pads()
        batch, channels, spatial = split_layout(input.shape, layout)
        return input.with_shape(join_layout(batch, channels, window.output_shape(spatial), layout))

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])


class MaxPoolOp(PoolOp):
    """The maximum of the window (ONNX MaxPool).

    ```mlir
    %1 = "stepwell.max_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
    ```
    """

    OPERATION_NAME = "stepwell.max_pool"

    @staticmethod
    def reference(input: np.ndarray, *, layout: str, **attributes: Any) -> np.ndarray:
        """The maximum over the window's taps, one tap for all positions at a time."""
        array = to_channels_first(input, layout)
        window = Window(**attributes)
        positions = window.positions(array)
        window = window.clipped(array.shape[2:])
        least = -np.inf if is_float(input.dtype) else np.iinfo(input.dtype).min
        total = np.full((*array.shape[:2], *positions), least, input.dtype)
        for _, view in window.views(window.pad(array, least, positions), positions):
            np.maximum(total, view, out=total)
        return from_channels_first(total, layout)


class MaxPoolIndicesOp(PoolOp):
    """Index of the window's greatest element among the elements of its channel (ONNX MaxPool's Indices).

    Among equal elements the first one wins. NaN is greater than every number.

    ```mlir
    %1 = "stepwell.max_pool_indices"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xi64>
    ```
    """

    OPERATION_NAME = "stepwell.max_pool_indices"

    @staticmethod
    def infer(input: TensorSpec, **attributes: object) -> TensorSpec:
        """The same shape as for every pooling, in i64."""
        pooled = PoolOp.infer(input, **attributes)  # pyright: ignore[reportArgumentType]
        return TensorSpec(pooled.shape, np.dtype(np.int64))

    @staticmethod
    def reference(input: np.ndarray, *, layout: str, **attributes: Any) -> np.ndarray:
        """Compares the window's taps, one tap for all positions at a time."""
        array = to_channels_first(input, layout)
        window = Window(**attributes)
        positions = window.positions(array)
        window = window.clipped(array.shape[2:])
        shape = (*array.shape[:2], *positions)
        numbers = np.arange(np.prod(array.shape[2:])).reshape(1, 1, *array.shape[2:])
        best, at = np.zeros(shape, array.dtype), np.full(shape, -1)
        views = zip(
            window.views(window.pad(array, 0, positions), positions),
            window.views(window.pad(numbers, -1, positions), positions),
            strict=True,
        )
        for (_, item), (_, number) in views:
            # Only NaN differs from itself.
            is_more = (item > best) | ((item != item) & (best == best))
            wins = (number >= 0) & ((at < 0) | is_more)
            best, at = np.where(wins, item, best), np.where(wins, number, at)
        return from_channels_first(at, layout)


class SumPoolOp(PoolOp):
    """The sum of the elements of the window.

    ```mlir
    %1 = "stepwell.sum_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sum_pool"
    ROUNDING = Rounding.SUM

    @staticmethod
    def infer(input: TensorSpec, **attributes: object) -> TensorSpec:
        """The same shape as for every pooling; the input must be floating point."""
        require_float(input=input)
        return PoolOp.infer(input, **attributes)  # pyright: ignore[reportArgumentType]

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, layout: str, **attributes: Any) -> np.ndarray:
        """The sum over the window's taps, one tap for all positions at a time."""
        array = to_channels_first(input, layout)
        window = Window(**attributes)
        return from_channels_first(_summed(array, window, window.positions(array)), layout)


def _summed(array: np.ndarray, window: Window, positions: tuple[int, ...]) -> np.ndarray:
    window = window.clipped(array.shape[2:])
    total = np.zeros((*array.shape[:2], *positions), array.dtype)
    for _, view in window.views(window.pad(array, 0, positions), positions):
        total += view
    return total


class AveragePoolOp(PoolOp):
    """The mean of the elements of the window (ONNX AveragePool).

    Attributes:
        count_include_pad: whether the zeros of `pads` count as elements. An overhang of `ceil_mode` never counts.

    ```mlir
    %1 = "stepwell.average_pool"(%0) {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>,
        pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x8x40x40xf32>) -> tensor<1x8x20x20xf32>
    ```
    """

    OPERATION_NAME = "stepwell.average_pool"
    ROUNDING = Rounding.SUM
    count_include_pad = attribute(bool, default=False)

    @staticmethod
    def infer(input: TensorSpec, **attributes: object) -> TensorSpec:
        """The same shape as for every pooling; the input must be floating point."""
        require_float(input=input)
        return PoolOp.infer(input, **attributes)  # pyright: ignore[reportArgumentType]

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, layout: str, count_include_pad: bool, **attributes: Any) -> np.ndarray:
        """The sum over the window's taps divided by the number of taps that count."""
        array = to_channels_first(input, layout)
        window = Window(**attributes)
        positions = window.positions(array)
        total = _summed(array, window, positions)
        counted = np.ones((1, 1, *array.shape[2:]), array.dtype)
        if count_include_pad:
            rank, pads = len(window.kernel), window.pads
            counted = np.pad(counted, [(0, 0), (0, 0), *zip(pads[:rank], pads[rank:], strict=True)], constant_values=1)
            window = replace(window, pads=(0,) * (2 * rank))
        return from_channels_first(total / _summed(counted, window, positions), layout)
