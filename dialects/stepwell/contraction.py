"""Contractions: matrix product, convolution and its transpose."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ...support.wording import quantity
from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, optional_operand, result
from ..dims import DimShape, numbers
from ..specs import size_of
from ..types import TensorSpec
from .numerics import summed_up
from .shapes import (
    broadcast,
    may_equal,
    product_dtype,
    require_dtype,
    require_length,
    require_number,
    require_rank,
    require_shape,
    same_dtype,
)
from .windows import (
    CHANNELS_FIRST,
    LAYOUTS,
    Window,
    flops_of_convolution,
    from_channels_first,
    join_layout,
    split_layout,
    to_channels_first,
)


class MatmulOp(Op):
    """Matrix product of the last two dimensions; those before them are batches, which broadcast (ONNX MatMul, Gemm).

    Products of bytes, i8 or ui8, are summed in i32. A vector is a matrix with one row or column: the importer adds the
    dimension.

    Attributes:
        transpose_lhs: whether `lhs` is stored as [..., K, M] rather than [..., M, K].
        transpose_rhs: whether `rhs` is stored as [..., N, K] rather than [..., K, N].
        depth: index, in the table of extents, of the k from which on all products are 0, or -1. It does not change the
            values.

    ```mlir
    %2 = "stepwell.matmul"(%0, %1) {transpose_rhs = true}
        : (tensor<12x128x64xf32>, tensor<12x128x64xf32>) -> tensor<12x128x128xf32>
    ```
    """

    OPERATION_NAME = "stepwell.matmul"
    KERNEL = KernelTraits("contraction")
    ROUNDING = Rounding.SUM
    lhs = operand("[..., M, K]")
    rhs = operand("[..., K, N]")
    transpose_lhs = attribute(bool, default=False)
    transpose_rhs = attribute(bool, default=False)
    depth = attribute(int, default=-1)
    result = result("[..., M, N]")

    @staticmethod
    def infer(
        lhs: TensorSpec, rhs: TensorSpec, *, transpose_lhs: bool, transpose_rhs: bool, depth: int = -1
    ) -> TensorSpec:
        """[..., M, N], the batches broadcast."""
        kind = product_dtype(lhs, rhs)
        require_number(lhs=lhs)
        for name, spec in (("lhs", lhs), ("rhs", rhs)):
            if spec.rank < 2:
                raise OpError(f"operand '{name}' must have at least rank 2, but is {spec}")
        rows, summed = _matrix(lhs.shape, transpose_lhs)
        other, columns = _matrix(rhs.shape, transpose_rhs)
        if not may_equal(summed, other):
            raise OpError(f"contracts {summed} elements of lhs ({lhs}) with {other} of rhs ({rhs})")
        return TensorSpec((*broadcast(lhs.shape[:-2], rhs.shape[:-2]), rows, columns), kind)

    @staticmethod
    @summed_up
    def reference(
        lhs: np.ndarray, rhs: np.ndarray, *, transpose_lhs: bool, transpose_rhs: bool, depth: int = -1
    ) -> np.ndarray:
        """Computes it with numpy."""
        left = lhs.swapaxes(-1, -2) if transpose_lhs else lhs
        right = rhs.swapaxes(-1, -2) if transpose_rhs else rhs
        return left @ right

    def flops(self) -> int:
        """One multiply-add for each element of the result and each term of its sum."""
        depth = ir.RankedTensorType(self.lhs.type).shape[-2 if self.transpose_lhs else -1]
        return 2 * size_of(self.result) * depth


def _matrix(shape: DimShape, is_transposed: bool) -> DimShape:
    return (shape[-1], shape[-2]) if is_transposed else shape[-2:]


class ConvOp(Op):
    """Convolution (computed as cross-correlation) over 1 to 3 spatial dimensions (ONNX Conv).

    The weight is [O, I / group, spatial...] for either layout. With C channels and `group = C` it is depthwise.
    Products of bytes, i8 or ui8, are summed in i32, which then is also the type of the bias.

    Attributes:
        strides: the step per spatial dimension.
        pads: zeros added before each spatial dimension, then those added after.
        dilations: the distance between neighbouring kernel elements, per spatial dimension.
        group: the number of groups into which input and output channels are split.
        layout: position of the channel dimension in input and result.

    ```mlir
    %3 = "stepwell.conv"(%0, %1, %2)
        {strides = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>, dilations = array<i64: 1, 1>}
        : (tensor<1x3x224x224xf32>, tensor<32x3x3x3xf32>, tensor<32xf32>) -> tensor<1x32x112x112xf32>
    ```
    """

    OPERATION_NAME = "stepwell.conv"
    KERNEL = KernelTraits("convolution")
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand("[O, I / group, spatial...]")
    bias = optional_operand("[O]")
    strides = attribute(tuple)
    pads = attribute(tuple)
    dilations = attribute(tuple)
    group = attribute(int, default=1)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        bias: TensorSpec | None,
        *,
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        dilations: tuple[int, ...],
        group: int,
        layout: str,
    ) -> TensorSpec:
        """O channels, and the spatial positions of the kernel."""
        window = Window(_kernel_of(input, weight, bias), strides, pads, dilations)
        window.check()
        batch, channels, spatial = split_layout(input.shape, layout)
        outputs = weight.shape[0]
        if group < 1 or not may_equal(channels, weight.shape[1] * group):
            raise OpError(
                f"group {group} of weight {weight} takes {weight.shape[1] * group} channels, but input has {channels}"
            )
        if isinstance(outputs, int) and outputs % group:
            raise OpError(f"{outputs} output channels cannot be split into {group} groups")
        require_shape((outputs,), bias=bias)
        shape = join_layout(batch, outputs, window.output_shape(spatial), layout)
        return TensorSpec(shape, product_dtype(input, weight))

    @staticmethod
    @summed_up
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        dilations: tuple[int, ...],
        group: int,
        layout: str,
    ) -> np.ndarray:
        """One matrix product per kernel tap."""
        array = to_channels_first(input, layout)
        window = Window(weight.shape[2:], strides, pads, dilations)
        positions = window.positions(array)
        batch, outputs = len(array), len(weight)
        per_group = weight.reshape(group, outputs // group, *weight.shape[1:])
        total = np.zeros((batch, group, outputs // group, math.prod(positions)), array.dtype)
        for place, view in window.views(window.pad(array, 0, positions), positions):
            total += per_group[(..., *place)] @ view.reshape(batch, group, weight.shape[1], -1)
        result = total.reshape(batch, outputs, *positions)
        if bias is not None:
            result += bias.reshape(-1, *[1] * len(positions))
        return from_channels_first(result, layout)

    def flops(self) -> int:
        """Each weight is multiplied once per output position."""
        return flops_of_convolution(self.weight, self.result, self.layout)


class ConvTransposeOp(Op):
    """The transpose of a convolution: its gradient by the input (ONNX ConvTranspose).

    The weight is [I, O / group, spatial...] for either layout.

    Attributes:
        strides: the step in the result per input element, per spatial dimension.
        pads: elements cut off before each spatial dimension of the result, then those cut off after.
        dilations: the distance between neighbouring kernel elements, per spatial dimension.
        output_padding: elements added after each spatial dimension of the result.
        group: the number of groups into which input and output channels are split.
        layout: position of the channel dimension in input and result.

    ```mlir
    %2 = "stepwell.conv_transpose"(%0, %1) {strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>,
        dilations = array<i64: 1, 1>, output_padding = array<i64: 0, 0>}
        : (tensor<1x24x40x40xf32>, tensor<24x8x2x2xf32>) -> tensor<1x8x80x80xf32>
    ```
    """

    OPERATION_NAME = "stepwell.conv_transpose"
    KERNEL = KernelTraits("convolution")
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand("[I, O / group, spatial...]")
    bias = optional_operand("[O]")
    strides = attribute(tuple)
    pads = attribute(tuple)
    dilations = attribute(tuple)
    output_padding = attribute(tuple)
    group = attribute(int, default=1)
    layout = attribute(str, default=CHANNELS_FIRST, choices=LAYOUTS)
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        bias: TensorSpec | None,
        *,
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        dilations: tuple[int, ...],
        output_padding: tuple[int, ...],
        group: int,
        layout: str,
    ) -> TensorSpec:
        """O channels, and per spatial dimension `(in - 1) * stride + extent + output_padding - pads`."""
        same_dtype(input, weight)
        window = Window(_kernel_of(input, weight, bias), strides, pads, dilations)
        window.check()
        require_length(len(strides), output_padding=output_padding)
        batch, channels, spatial = split_layout(input.shape, layout)
        if not may_equal(channels, weight.shape[0]):
            raise OpError(f"weight {weight} takes {weight.shape[0]} channels, but input has {channels}")
        if group < 1 or (isinstance(channels, int) and channels % group):
            raise OpError(f"{quantity(channels, 'channel')} cannot be split into {group} groups")
        require_shape((weight.shape[1] * group,), bias=bias)
        out = _transposed_shape(window, spatial, output_padding)
        return input.with_shape(join_layout(batch, weight.shape[1] * group, out, layout))

    @staticmethod
    @summed_up
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        bias: np.ndarray | None,
        *,
        strides: tuple[int, ...],
        pads: tuple[int, ...],
        dilations: tuple[int, ...],
        output_padding: tuple[int, ...],
        group: int,
        layout: str,
    ) -> np.ndarray:
        """One matrix product per kernel tap, added to the result elements that the tap contributes to."""
        array = to_channels_first(input, layout)
        window = Window(weight.shape[2:], strides, pads, dilations)
        spatial, rank = array.shape[2:], len(strides)
        out = _transposed_shape(window, spatial, output_padding)
        batch, channels = array.shape[:2]
        per_group = weight.reshape(group, channels // group, *weight.shape[1:]).swapaxes(1, 2)
        columns = array.reshape(batch, group, channels // group, -1)
        # Large enough for every kernel tap, even if output_padding is less than the pads cut off.
        room = [
            max(size + sum(pads[axis::rank]), (spatial[axis] - 1) * strides[axis] + window.extents[axis])
            for axis, size in enumerate(numbers(out))
        ]
        total = np.zeros((batch, weight.shape[1] * group, *room), array.dtype)
        for place, view in window.views(total, spatial):
            view += (per_group[(..., *place)] @ columns).reshape(view.shape)
        result = total[(..., *(slice(pads[axis], pads[axis] + size) for axis, size in enumerate(out)))]
        if bias is not None:
            result = result + bias.reshape(-1, *[1] * rank)
        return from_channels_first(np.ascontiguousarray(result), layout)

    def flops(self) -> int:
        """Each weight is multiplied once per input position."""
        return flops_of_convolution(self.weight, self.input, self.layout)


def _kernel_of(input: TensorSpec, weight: TensorSpec, bias: TensorSpec | None) -> tuple[int, ...]:
    """Checks the operands of a convolution and returns the spatial extents of its weight.

    Raises:
        OpError: element types or ranks do not match, or the kernel's extents are not static.
    """
    kind = product_dtype(input, weight)
    require_number(input=input)
    if bias is not None:
        require_dtype(kind, bias=bias)
    require_rank(input.rank, weight=weight)
    kernel = tuple(size for size in weight.shape[2:] if isinstance(size, int))
    if len(kernel) != input.rank - 2:
        raise OpError(f"operand 'weight' must have static spatial dimensions, but is {weight}")
    return kernel


def _transposed_shape(window: Window, spatial: DimShape, output_padding: tuple[int, ...]) -> DimShape:
    rank = len(spatial)
    return tuple(
        (dim - 1) * window.strides[axis] + window.extents[axis] + output_padding[axis] - sum(window.pads[axis::rank])
        for axis, dim in enumerate(spatial)
    )
