"""Softmax and normalisations: composite ops that are slow when decomposed."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ..specs import size_of
from ..types import TensorSpec
from .axes import AlongAxesOp
from .numerics import widened
from .shapes import (
    broadcasts_to,
    normalize_axis,
    require_float,
    require_shape,
    same_dtype,
)
from .windows import CHANNELS_FIRST, LAYOUTS, from_channels_first, split_layout, to_channels_first


class SoftmaxOp(AlongAxesOp):
    """`exp(x)` divided by its sum along `axis` (ONNX Softmax from opset 13).

    ```mlir
    %1 = "stepwell.softmax"(%0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.softmax"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.ROUNDED
    input = operand()
    axis = attribute(int, default=-1)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, axis: int) -> TensorSpec:
        """The result is like the input."""
        require_float(input=input)
        normalize_axis(axis, input.rank)
        return input.with_shape(input.shape)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, axis: int) -> np.ndarray:
        """Computes it with numpy, with the maximum subtracted to avoid overflow."""
        return softmax(input, axis)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])

    def combined_axes(self, rank: int) -> Collection[int]:
        """The axis."""
        return {self.axis % rank}


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """Returns the exponentials along an axis, divided by their sum."""
    exponential = np.exp(x - x.max(axis, keepdims=True))
    return exponential / exponential.sum(axis, keepdims=True)


class LogSoftmaxOp(AlongAxesOp):
    """The logarithm of `softmax`, computed without taking the logarithm of 0 (ONNX LogSoftmax from opset 13).

    ```mlir
    %1 = "stepwell.log_softmax"(%0) {axis = 1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
    ```
    """

    OPERATION_NAME = "stepwell.log_softmax"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.ROUNDED
    input = operand()
    axis = attribute(int, default=-1)
    result = result()
    infer = staticmethod(SoftmaxOp.infer)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, axis: int) -> np.ndarray:
        """Computes it with numpy."""
        shifted = input - input.max(axis, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])

    def combined_axes(self, rank: int) -> Collection[int]:
        """The axis."""
        return {self.axis % rank}


class LayerNormOp(AlongAxesOp):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX LayerNormalization; Ba et al. 2016).

    Attributes:
        axis: the first of the dimensions over which mean and (biased) variance are taken, down to the last.
        epsilon: number added to the variance.

    ```mlir
    %3 = "stepwell.layer_norm"(%0, %1, %2) {operandSegmentSizes = array<i32: 1, 1, 1>, epsilon = 1.0e-5 : f64}
        : (tensor<1x128x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
    ```
    """

    OPERATION_NAME = "stepwell.layer_norm"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    scale = optional_operand("broadcasts to the normalised dimensions")
    bias = optional_operand("broadcasts to the normalised dimensions")
    axis = attribute(int, default=-1)
    epsilon = attribute(float, default=1e-5)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, scale: TensorSpec | None, bias: TensorSpec | None, *, axis: int, epsilon: float
    ) -> TensorSpec:
        """The result is like the input."""
        return _check_norm(input, axis, scale=scale, bias=bias)

    @staticmethod
    @widened
    def reference(
        input: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None, *, axis: int, epsilon: float
    ) -> np.ndarray:
        """Computes it with numpy."""
        axes = tuple(range(axis % input.ndim, input.ndim))
        centred = input - _mean(input, axes)
        normal = centred / np.sqrt(_mean(np.square(centred), axes) + input.dtype.type(epsilon))
        return _scaled(normal, scale, bias)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])

    def combined_axes(self, rank: int) -> Collection[int]:
        """The axis and the dimensions after it."""
        return range(self.axis % rank, rank)


class RmsNormOp(AlongAxesOp):
    """`x / sqrt(mean(x * x) + epsilon) * scale` (ONNX RMSNormalization; Zhang and Sennrich 2019).

    Attributes:
        axis: the first of the dimensions over which the mean is taken, down to the last.
        epsilon: number added to the mean.

    ```mlir
    %2 = "stepwell.rms_norm"(%0, %1) {epsilon = 1.0e-6 : f64}
        : (tensor<1x128x384xf32>, tensor<384xf32>) -> tensor<1x128x384xf32>
    ```
    """

    OPERATION_NAME = "stepwell.rms_norm"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    scale = optional_operand("broadcasts to the normalised dimensions")
    axis = attribute(int, default=-1)
    epsilon = attribute(float, default=1e-5)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, scale: TensorSpec | None, *, axis: int, epsilon: float) -> TensorSpec:
        """The result is like the input."""
        return _check_norm(input, axis, scale=scale)

    @staticmethod
    @widened
    def reference(input: np.ndarray, scale: np.ndarray | None, *, axis: int, epsilon: float) -> np.ndarray:
        """Computes it with numpy."""
        axes = tuple(range(axis % input.ndim, input.ndim))
        normal = input / np.sqrt(_mean(np.square(input), axes) + input.dtype.type(epsilon))
        return _scaled(normal, scale, None)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])

    def combined_axes(self, rank: int) -> Collection[int]:
        """The axis and the dimensions after it."""
        return range(self.axis % rank, rank)


def _check_norm(input: TensorSpec, axis: int, **factors: TensorSpec | None) -> TensorSpec:
    require_float(input=input, **factors)
    normalized = input.shape[normalize_axis(axis, input.rank) :]
    for name, spec in factors.items():
        if spec is None:
            continue
        same_dtype(input, spec)
        if not broadcasts_to(spec.shape, normalized):
            raise OpError(f"operand '{name}' must broadcast to the normalised dimensions of {input}, but is {spec}")
    return input.with_shape(input.shape)


def _mean(values: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Returns the mean over the last axes, which stay with extent 1; 0 of no elements, of which numpy warns."""
    if values.size:
        return values.mean(axes, keepdims=True)
    return np.zeros((*values.shape[: axes[0]], *[1] * len(axes)), values.dtype)


def _scaled(normal: np.ndarray, scale: np.ndarray | None, bias: np.ndarray | None) -> np.ndarray:
    scaled = normal if scale is None else normal * scale
    return scaled if bias is None else scaled + bias


class BatchNormOp(Op):
    """`(x - mean) / sqrt(variance + epsilon) * scale + bias`, per channel (ONNX BatchNormalization for inference).

    ```mlir
    %5 = "stepwell.batch_norm"(%0, %1, %2, %3, %4)
        : (tensor<1x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
    ```
    """

    OPERATION_NAME = "stepwell.batch_norm"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.ROUNDED
    input = operand("at least rank 2")
    scale = operand("[channels]")
    bias = operand("[channels]")
    mean = operand("[channels]")
    variance = operand("[channels]")
    epsilon = attribute(float, default=1e-5)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        scale: TensorSpec,
        bias: TensorSpec,
        mean: TensorSpec,
        variance: TensorSpec,
        *,
        epsilon: float,
        layout: str,
    ) -> TensorSpec:
        """The result is like the input."""
        if input.rank < 2:
            raise OpError(f"operand 'input' must have at least rank 2, but is {input}")
        require_float(input=input)
        same_dtype(input, scale, bias, mean, variance)
        _, channels, _ = split_layout(input.shape, layout)
        require_shape((channels,), scale=scale, bias=bias, mean=mean, variance=variance)
        return input.with_shape(input.shape)

    @staticmethod
    @widened
    def reference(
        input: np.ndarray,
        scale: np.ndarray,
        bias: np.ndarray,
        mean: np.ndarray,
        variance: np.ndarray,
        *,
        epsilon: float,
        layout: str,
    ) -> np.ndarray:
        """Computes it with numpy."""
        array = to_channels_first(input, layout)
        factor = scale / np.sqrt(variance + input.dtype.type(epsilon))
        over_channels = (-1, *[1] * (input.ndim - 2))
        normal = (array - mean.reshape(over_channels)) * factor.reshape(over_channels) + bias.reshape(over_channels)
        return from_channels_first(normal, layout)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])


class LocalResponseNormOp(AlongAxesOp):
    """`x / (bias + alpha / size * sum(x * x)) ** beta`, the sum over the `size` neighbouring channels (ONNX LRN).

    ```mlir
    %1 = "stepwell.local_response_norm"(%0) {size = 5 : i64, alpha = 1.0e-4 : f64, beta = 0.75 : f64, bias = 1.0 : f64}
        : (tensor<1x64x56x56xf32>) -> tensor<1x64x56x56xf32>
    ```
    """

    OPERATION_NAME = "stepwell.local_response_norm"
    KERNEL = KernelTraits("reduction", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand("at least rank 3")
    size = attribute(int)
    alpha = attribute(float, default=1e-4)
    beta = attribute(float, default=0.75)
    bias = attribute(float, default=1.0)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(input: TensorSpec, *, size: int, alpha: float, beta: float, bias: float, layout: str) -> TensorSpec:
        """The result is like the input."""
        require_float(input=input)
        if input.rank < 3:
            raise OpError(f"operand 'input' must have at least rank 3, but is {input}")
        if size < 1:
            raise OpError(f"attribute 'size' must be positive, but is {size}")
        return input.with_shape(input.shape)

    @staticmethod
    @widened
    def reference(input: np.ndarray, *, size: int, alpha: float, beta: float, bias: float, layout: str) -> np.ndarray:
        """Computes it with numpy: one shifted sum per channel of the window."""
        array = to_channels_first(input, layout)
        around = [(0, 0), ((size - 1) // 2, size // 2), *[(0, 0)] * (input.ndim - 2)]
        squares = np.pad(np.square(array), around)
        total = sum(squares[:, offset : offset + array.shape[1]] for offset in range(size))
        return from_channels_first(array / (bias + alpha / size * total) ** beta, layout)

    def flops(self) -> int:
        """One operation for each element of the input."""
        return size_of(self.operation.operands[0])

    def combined_axes(self, rank: int) -> Collection[int]:
        """The channels."""
        return {1 if self.layout == CHANNELS_FIRST else rank - 1}
