"""Ops on packed weights: contractions and convolutions whose weight is laid out as `panels` describes."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ...support.wording import quantity
from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..dims import Dim
from ..specs import size_of
from ..types import TensorSpec, is_float
from .panels import BY_COLUMNS, BY_ROWS, PACKED, SHORT_FLOATS, grain_of, unpack
from .shapes import require_dtype, same_dtype
from .windows import CHANNELS_LAST, flops_of_convolution


def _sum_dtype(input: TensorSpec, weight: TensorSpec, depth: Dim = 0, grain: int = 0) -> np.dtype:
    """The element type of the result: i32 for bytes, else that of the weight.

    Numbers that are multiplied with a weight of 16-bit floats may be float32, in which the products are summed.

    Raises:
        OpError: the operands' types do not match, or `depth` is not a multiple of the grain.
    """
    grain = grain or grain_of(weight.dtype)
    is_bytes = weight.dtype == np.dtype(np.int8)
    if is_bytes:
        require_dtype(np.uint8, input=input)
    elif input.dtype != np.float32 or weight.dtype not in SHORT_FLOATS:
        same_dtype(input, weight)
    if isinstance(depth, int) and depth % grain:
        name = "bytes" if is_bytes else str(weight.dtype)
        raise OpError(f"the length of sums of {name} must be a multiple of {grain}, but is {depth}")
    return np.dtype(np.int32) if is_bytes else weight.dtype


def _check_packed(weight: TensorSpec, elements: Dim) -> None:
    if weight.rank != 1 or weight.shape[0] != elements:
        raise OpError(f"the packed weight must be a flat tensor of {quantity(elements, 'element')}, but is {weight}")


class PackedMatmulOp(Op):
    """Product of the rows of `input` [.., K] with a packed weight of `columns` columns: [.., columns].

    With a `batch`, the leading dimensions of the input form that many matrices, each with its own weight. A weight that
    is stored in another order is packed by the kernel, one panel after the other, each before all rows use it.

    ```mlir
    %1 = "stepwell.packed_matmul"(%0, %w) {columns = 48 : i64, panel = 32 : i64}
      : (tensor<4x8xf32>, tensor<384xf32>) -> tensor<4x48xf32>
    ```
    """

    OPERATION_NAME = "stepwell.packed_matmul"
    KERNEL = KernelTraits("contraction", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand("[batch, K, columns], packed")
    columns = attribute(int)
    panel = attribute(int)
    batch = attribute(int, 1, doc="number of matrices in the input's dimensions before the last two")
    grain = attribute(int, 0, doc="neighbours along the reduction that are adjacent; 0 for as many as the type needs")
    stored = attribute(
        str,
        PACKED,
        choices=(PACKED, BY_ROWS, BY_COLUMNS),
        doc="order of the flat weight: packed, [batch, K, columns], or [batch, columns, K]",
    )
    keeps_sums = attribute(bool, False, doc="whether sums of float32 and a weight of short floats stay float32")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        *,
        columns: int,
        panel: int,
        batch: int,
        grain: int = 0,
        stored: str = PACKED,
        keeps_sums: bool = False,
    ) -> TensorSpec:
        """The last dimension becomes `columns`."""
        if input.rank == 0:
            raise OpError("the input must have a dimension to contract")
        kind = _sum_dtype(input, weight, input.shape[-1], grain)
        if keeps_sums and (input.dtype != np.float32 or weight.dtype not in SHORT_FLOATS):
            raise OpError("attribute 'keeps_sums' needs an input of float32 and a weight of short floats")
        kind = input.dtype if keeps_sums else kind
        if batch != 1 and math.prod(input.shape[:-2]) != batch:
            raise OpError(f"the input {input} does not hold {batch} matrices")
        if stored != PACKED and (grain or grain_of(weight.dtype)) > 1:
            raise OpError(f"a weight of {weight.dtype} must be packed")
        if input.shape[-1] != 0:
            _check_packed(weight, batch * input.shape[-1] * columns)
        return TensorSpec((*input.shape[:-1], columns), kind)

    @staticmethod
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        *,
        columns: int,
        panel: int,
        batch: int,
        grain: int = 0,
        stored: str = PACKED,
        keeps_sums: bool = False,
    ) -> np.ndarray:
        """`input @ weight`."""
        if stored == PACKED:
            filters = unpack(weight, batch, columns, panel, grain)
        elif stored == BY_COLUMNS:
            filters = weight.reshape(batch, columns, input.shape[-1])
        else:
            filters = weight.reshape(batch, input.shape[-1], columns).swapaxes(1, 2)
        kind = input.dtype
        input, filters, rounded = _summable(input, filters)
        kind = kind if keeps_sums else rounded
        matrices = filters.swapaxes(1, 2)
        product = input @ (matrices[0] if batch == 1 else matrices.reshape(*input.shape[:-2], *matrices.shape[1:]))
        return product.astype(kind, copy=False)

    def flops(self) -> int:
        """One multiply-add for each element of the result and each term of its sum."""
        return 2 * size_of(self.result) * ir.RankedTensorType(self.input.type).shape[-1]


def _summable(input: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.dtype]:
    """The operands in the type in which their products are summed, and the type of the result."""
    if weight.dtype == np.int8:
        return input.astype(np.int32), weight.astype(np.int32), np.dtype(np.int32)
    if is_float(input.dtype):
        return input.astype(np.float64), weight.astype(np.float64), weight.dtype  # see `summed_up`
    return input, weight, input.dtype


def window_size(size: Dim, kernel: int, stride: int, dilation: int) -> Dim:
    """The number of positions of a window of `kernel` taps in an already padded dimension."""
    return (size - (kernel - 1) * dilation - 1) // stride + 1


def _windows(input: np.ndarray, kernel: tuple, strides: tuple, dilations: tuple) -> np.ndarray:
    """The elements in every window of `input` [N, *spatial, C], as [N, *output, C, *kernel]."""
    spans = [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]
    axes = tuple(range(1, len(kernel) + 1))
    # The type stubs of older numpy declare a single axis only.
    view = np.lib.stride_tricks.sliding_window_view(input, spans, axes)  # pyright: ignore
    places = tuple(slice(None, None, stride) for stride in strides)
    taps = tuple(slice(None, None, dilation) for dilation in dilations)
    return view[(slice(None), *places, slice(None), *taps)]


def _pad(input: np.ndarray, pads: tuple = ()) -> np.ndarray:
    """`input` [N, *spatial, C] with zeros around its images."""
    if not pads:
        return input
    count = len(pads) // 2
    return np.pad(input, ((0, 0), *zip(pads[:count], pads[count:], strict=True), (0, 0)))


def _infer_windows(
    input: TensorSpec, kernel: tuple, strides: tuple, dilations: tuple, pads: tuple = ()
) -> tuple[Dim, ...]:
    spatial = input.shape[1:-1]
    if pads and (len(pads) != 2 * len(spatial) or min(pads) < 0):
        raise OpError(f"attribute 'pads' must be {2 * len(spatial)} non-negative numbers, or empty")
    if pads:
        ends = zip(pads[: len(spatial)], pads[len(spatial) :], strict=True)
        spatial = tuple(size + (low + high) for size, (low, high) in zip(spatial, ends, strict=True))
    if not len(kernel) == len(strides) == len(dilations) == len(spatial):
        raise OpError(
            f"kernel, strides and dilations must have one entry for each of {len(spatial)} spatial dimensions"
        )
    return tuple(map(window_size, spatial, kernel, strides, dilations))


class PackedConvOp(Op):
    """Convolution of `input` [N, *spatial, C]; the weight is [group, columns / group, *kernel, C / group].

    ```mlir
    %1 = "stepwell.packed_conv"(%0, %w) {columns = 32 : i64, panel = 32 : i64, kernel = array<i64: 3, 3>,
      strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<1x10x10x4xf32>, tensor<1152xf32>) -> tensor<1x8x8x32xf32>
    ```
    """

    OPERATION_NAME = "stepwell.packed_conv"
    KERNEL = KernelTraits("convolution", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand()
    columns = attribute(int, doc="total number of output channels")
    panel = attribute(int)
    kernel = attribute(tuple)
    strides = attribute(tuple)
    dilations = attribute(tuple)
    group = attribute(int, 1)
    pads = attribute(tuple, (), doc="zeros around the images, all low ends first; none if empty")
    grain = attribute(int, 0, doc="neighbours along the reduction that are adjacent; 0 for as many as the type needs")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        *,
        columns: int,
        panel: int,
        kernel: tuple,
        strides: tuple,
        dilations: tuple,
        group: int,
        pads: tuple = (),
        grain: int = 0,
    ) -> TensorSpec:
        """[N, *output, columns]."""
        kind = _sum_dtype(input, weight, input.shape[-1] // group, grain)
        spatial = _infer_windows(input, kernel, strides, dilations, pads)
        if columns % group:
            raise OpError(f"{quantity(columns, 'column')} cannot be divided into {group} groups")
        _check_packed(weight, input.shape[-1] // group * math.prod(kernel) * columns)
        return TensorSpec((input.shape[0], *spatial, columns), kind)

    @staticmethod
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        *,
        columns: int,
        panel: int,
        kernel: tuple,
        strides: tuple,
        dilations: tuple,
        group: int,
        pads: tuple = (),
        grain: int = 0,
    ) -> np.ndarray:
        """Every window times the weight, group by group."""
        input, filters, kind = _summable(input, unpack(weight, group, columns // group, panel, grain))
        windows = np.moveaxis(_windows(_pad(input, pads), kernel, strides, dilations), len(kernel) + 1, -1)
        places = windows.shape[: len(kernel) + 1]
        split = windows.reshape(*places, math.prod(kernel), group, input.shape[-1] // group)
        split = np.moveaxis(split, -2, -3).reshape(*places, group, -1)
        return np.einsum("...gk,gok->...go", split, filters).reshape(*places, columns).astype(kind, copy=False)

    def flops(self) -> int:
        """Each weight is multiplied once per output position."""
        return flops_of_convolution(self.weight, self.result, CHANNELS_LAST)


class PackedDepthwiseConvOp(Op):
    """Convolution of every channel of `input` [N, *spatial, C] by its own filter in `weight` [*kernel, C].

    ```mlir
    %1 = "stepwell.packed_depthwise_conv"(%0, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
      : (tensor<1x10x10x4xf32>, tensor<3x3x4xf32>) -> tensor<1x8x8x4xf32>
    ```
    """

    OPERATION_NAME = "stepwell.packed_depthwise_conv"
    KERNEL = KernelTraits("depthwise", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand()
    strides = attribute(tuple)
    dilations = attribute(tuple)
    pads = attribute(tuple, (), doc="zeros around the images, all low ends first; none if empty")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, weight: TensorSpec, *, strides: tuple, dilations: tuple, pads: tuple = ()
    ) -> TensorSpec:
        """[N, *output, C]."""
        kind = _sum_dtype(input, weight)
        if weight.rank != input.rank - 1 or weight.shape[-1] != input.shape[-1]:
            raise OpError(f"the weight must be [*kernel, {input.shape[-1]}], but is {weight}")
        spatial = _infer_windows(input, weight.shape[:-1], strides, dilations, pads)
        return TensorSpec((input.shape[0], *spatial, input.shape[-1]), kind)

    @staticmethod
    def reference(
        input: np.ndarray, weight: np.ndarray, *, strides: tuple, dilations: tuple, pads: tuple = ()
    ) -> np.ndarray:
        """Every window times its channel's filter."""
        kernel = weight.shape[:-1]
        input, weight, kind = _summable(input, weight)
        windows = _windows(_pad(input, pads), kernel, strides, dilations)
        flat = windows.reshape(*windows.shape[: -len(kernel)], -1)
        return np.einsum("...ck,kc->...c", flat, weight.reshape(-1, weight.shape[-1])).astype(kind, copy=False)

    def flops(self) -> int:
        """Each weight is multiplied once per output position."""
        return flops_of_convolution(self.weight, self.result, CHANNELS_LAST)


class PackedGroupedConvOp(Op):
    """Convolution of narrow groups of the channels of `input` [N, *spatial, C].

    The weight is [*kernel, C / group, columns]. The columns of all groups are adjacent, so that one vector of
    them serves several groups.

    ```mlir
    %1 = "stepwell.packed_grouped_conv"(%0, %w) {group = 8 : i64, strides = array<i64: 1, 1>,
      dilations = array<i64: 1, 1>}
      : (tensor<1x10x10x32xf32>, tensor<3x3x4x32xf32>) -> tensor<1x8x8x32xf32>
    ```
    """

    OPERATION_NAME = "stepwell.packed_grouped_conv"
    KERNEL = KernelTraits("depthwise", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand()
    group = attribute(int)
    strides = attribute(tuple)
    dilations = attribute(tuple)
    pads = attribute(tuple, (), doc="zeros around the images, all low ends first; none if empty")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, weight: TensorSpec, *, group: int, strides: tuple, dilations: tuple, pads: tuple = ()
    ) -> TensorSpec:
        """[N, *output, columns]."""
        kind = _sum_dtype(input, weight)
        if weight.rank != input.rank or group < 1 or weight.shape[-2] * group != input.shape[-1]:
            raise OpError(f"the weight must be [*kernel, {input.shape[-1]} / {group}, columns], but is {weight}")
        if weight.shape[-1] % group:
            raise OpError(f"{weight.shape[-1]} columns cannot be divided into {group} groups")
        spatial = _infer_windows(input, weight.shape[:-2], strides, dilations, pads)
        return TensorSpec((input.shape[0], *spatial, weight.shape[-1]), kind)

    @staticmethod
    def reference(
        input: np.ndarray, weight: np.ndarray, *, group: int, strides: tuple, dilations: tuple, pads: tuple = ()
    ) -> np.ndarray:
        """Every window times the weight, group by group."""
        *kernel, depth, columns = weight.shape
        input, weight, kind = _summable(input, weight)
        windows = _windows(_pad(input, pads), tuple(kernel), strides, dilations)
        places = windows.shape[: len(kernel) + 1]
        split = windows.reshape(*places, group, depth, math.prod(kernel))
        filters = weight.reshape(math.prod(kernel), depth, group, columns // group)
        return np.einsum("...gdk,kdgo->...go", split, filters).reshape(*places, columns).astype(kind, copy=False)

    def flops(self) -> int:
        """Each weight is multiplied once per output position."""
        return flops_of_convolution(self.weight, self.result, CHANNELS_LAST)
