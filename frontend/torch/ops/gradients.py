"""Gradients: the ops that PyTorch's derivatives consist of, beyond those that it decomposes itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir

from ....dialects.dims import is_static, numbers
from ....dialects.stepwell.movement import ExpandDimsOp, SqueezeOp
from ....dialects.stepwell.pooling import MaxPoolOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ....passes.differentiation.reverse import pulled_back
from ....passes.differentiation.rules.pooling import max_pool_gradient
from ....passes.infra.base import PassError
from ...build import emit, rank, reshaped, shape
from ...errors import NeedsShapes, UnsupportedError
from ..node import AtenNode
from ..registry import AtenHandler, imports
from .contraction import attention, attention_scores, convolution, scaled_query
from .padding import padded
from .pooling import adaptive_average_pool, average_pool, interval_table, window_of
from .reduction import kept_log_sum_exp
from .resampling import grid_sample
from .tables import by_tables, transposed_tables


def _gradients(forward: Callable[[], ir.Value], wrt: Sequence[ir.Value], gradient: ir.Value) -> list[ir.Value]:
    """Differentiates what `forward` writes: the gradients of the values `wrt`, from that of its result.

    Raises:
        NeedsShapes: a size is not a number.
        UnsupportedError: the compiler has no derivative of it.
    """
    _require_sizes(*wrt, gradient)
    block = ir.InsertionPoint.current.block
    before = len(block.operations)
    result = forward()
    operations = [view.operation for view in list(block.operations)[before:]]
    try:
        return pulled_back(operations, wrt, [(result, gradient)])
    except PassError as error:
        raise UnsupportedError(str(error)) from error


def _require_sizes(*values: ir.Value) -> None:
    if not all(is_static(shape(value)) for value in values):
        raise NeedsShapes("the sizes of tensors of which gradients are computed must be known")


@imports("aten.convolution_backward.default")
def convolution_gradients(
    node: AtenNode,
    grad_output: ir.Value,
    input: ir.Value,
    weight: ir.Value,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[ir.Value | None, ...]:
    """The gradients of a convolution's input, weight and bias, of which the mask names those that are needed."""

    def forward() -> ir.Value:
        window = stride, padding, dilation, transposed, output_padding, groups
        return convolution(node, input, weight, None, *window)

    needed = [value for value, is_needed in zip((input, weight), output_mask, strict=False) if is_needed]
    found = iter(_gradients(forward, needed, grad_output) if needed else ())
    of_input, of_weight = (next(found) if is_needed else None for is_needed in output_mask[:2])
    others = tuple(axis for axis in range(rank(grad_output)) if axis != rank(grad_output) - rank(weight) + 1)
    of_bias = emit(ReduceSumOp, grad_output, axes=others, keepdims=False) if output_mask[2] else None
    return of_input, of_weight, of_bias


@imports("aten._scaled_dot_product_flash_attention_for_cpu.default")
def attention_with_sums(
    node: AtenNode,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    dropout_p: float,
    is_causal: bool,
    attn_mask: ir.Value | None,
    scale: float | None,
) -> tuple[ir.Value, ir.Value | None]:
    """Attention, and the logarithms of the sums of the exponentials of its scores."""
    made = attention(node, query, key, value, attn_mask, dropout_p, is_causal, scale, False)
    if not node.is_used(1):
        return made, None
    query, factor = scaled_query(query, scale)
    scores = attention_scores(query, key, attn_mask, factor, is_causal)
    return made, reshaped(kept_log_sum_exp(scores, (rank(scores) - 1,)), node.shape(1))


def _average_pool_gradient(dimensions: int) -> AtenHandler:
    def handler(
        node: AtenNode,
        grad_output: ir.Value,
        input: ir.Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> ir.Value:
        """The sum of the shares of each window that meets an element."""
        forward = average_pool(dimensions)
        window = kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override
        return _gradients(lambda: forward(node, input, *window), [input], grad_output)[0]

    return handler


def _adaptive_average_pool_gradient(dimensions: int) -> AtenHandler:
    def handler(node: AtenNode, grad_output: ir.Value, input: ir.Value) -> ir.Value:
        """The sums of the shares that an element has in windows, which may overlap."""
        _require_sizes(grad_output, input)
        before, after = (numbers(shape(item)[-dimensions:]) for item in (input, grad_output))
        if all(small and large % small == 0 for large, small in zip(before, after, strict=True)):
            forward = adaptive_average_pool(dimensions)
            return _gradients(lambda: forward(node, input, after), [input], grad_output)[0]
        tables = [interval_table(small, large) for small, large in zip(after, before, strict=True)]
        return by_tables(node, grad_output, transposed_tables(tables, before))

    return handler


def _replication_pad_gradient(
    node: AtenNode, grad_output: ir.Value, input: ir.Value, padding: Sequence[int]
) -> ir.Value:
    """The gradients of elements and of their copies."""
    return _gradients(lambda: padded("edge")(node, input, padding), [input], grad_output)[0]


@imports("aten.grid_sampler_2d_backward.default", "aten.grid_sampler_3d_backward.default")
def sample_gradients(
    node: AtenNode,
    grad_output: ir.Value,
    input: ir.Value,
    grid: ir.Value,
    interpolation_mode: int,
    padding_mode: int,
    align_corners: bool,
    output_mask: Sequence[bool],
) -> tuple[ir.Value | None, ...]:
    """The gradients of images and positions, of which the mask names those that are needed."""

    def forward() -> ir.Value:
        return grid_sample(node, input, grid, interpolation_mode, padding_mode, align_corners)

    needed = [value for value, is_needed in zip((input, grid), output_mask, strict=True) if is_needed]
    found = iter(_gradients(forward, needed, grad_output))
    return tuple(next(found) if is_needed else None for is_needed in output_mask)


def _max_pool_gradient(dimensions: int) -> AtenHandler:
    def handler(
        node: AtenNode,
        grad_output: ir.Value,
        input: ir.Value,
        kernel_size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        ceil_mode: bool,
        indices: ir.Value,
    ) -> ir.Value:
        """The gradient of each window at its greatest element."""
        _require_sizes(input, grad_output)
        window = window_of(dimensions, kernel_size, stride, padding, dilation, ceil_mode)
        is_single = rank(input) == dimensions + 1
        image, gradient, places = (
            emit(ExpandDimsOp, item, axes=(0,)) if is_single else item for item in (input, grad_output, indices)
        )
        made = max_pool_gradient(MaxPoolOp(image, **window), gradient, places)
        return emit(SqueezeOp, made, axes=(0,)) if is_single else made

    return handler


for _dimensions in (1, 2, 3):
    imports(f"aten.replication_pad{_dimensions}d_backward.default")(_replication_pad_gradient)
for _dimensions in (2, 3):
    imports(f"aten.avg_pool{_dimensions}d_backward.default")(_average_pool_gradient(_dimensions))
    imports(f"aten._adaptive_avg_pool{_dimensions}d_backward.default")(_adaptive_average_pool_gradient(_dimensions))
    imports(f"aten.max_pool{_dimensions}d_with_indices_backward.default")(_max_pool_gradient(_dimensions))
