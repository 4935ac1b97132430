"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from ....dialects.dims import Dim
from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import MulOp
from ....dialects.stepwell.movement import ExpandDimsOp, ReshapeOp, SqueezeOp
from ....support.wording import quantity
from ...build import added, cast, dtype, emit, rank, scalar, shape, transposed
from ...errors import AttributeFault, NodeError
from ..nodes.node import Node
from ..nodes.registry import imports
from .parts.blocked_products import blocked_product
from .parts.byte_products import Bytes, convolved, dequantized, is_one, may_convolve, may_multiply, multiplied
from .parts.windows import NodeWindow, halved, pads_of, window_of

Dims = tuple[int, ...]


@imports("MatMul")
def matmul(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """MatMul, computed on bytes if both operands were dequantised, or on few bits if the second one was in blocks."""
    quantized = _of_bytes(node, lhs, rhs) or blocked_product(node, lhs, rhs)
    return product(lhs, rhs) if quantized is None else quantized


def product(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """A matrix product by numpy's rules: a vector on the left is a row, a vector on the right a column."""
    left = emit(ExpandDimsOp, lhs, axes=(0,)) if rank(lhs) == 1 else lhs
    right = emit(ExpandDimsOp, rhs, axes=(1,)) if rank(rhs) == 1 else rhs
    result = emit(MatmulOp, left, right)
    added_axes = tuple(axis for axis, operand in ((-2, lhs), (-1, rhs)) if rank(operand) == 1)
    return emit(SqueezeOp, result, axes=added_axes) if added_axes else result


@imports("FusedMatMul", "TransposeMatMul", domain="com.microsoft")
def fused_matmul(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """FusedMatMul of ONNX Runtime: alpha * A * B; operands may be transposed, or have their rows before the batches."""
    if node.attribute("transBatchA", 0):
        lhs = _batches_first(lhs)
    if node.attribute("transBatchB", 0):
        rhs = _batches_first(rhs)
    result = emit(
        MatmulOp,
        lhs,
        rhs,
        transpose_lhs=bool(node.attribute("transA", 0)),
        transpose_rhs=bool(node.attribute("transB", 0)),
    )
    return _scaled(result, node.attribute("alpha", 1.0))


def _batches_first(value: ir.Value) -> ir.Value:
    """[rows, batches..., columns] --> [batches..., rows, columns]"""
    last = rank(value) - 1
    return transposed(value, (*range(1, last), 0, last))


@imports("Gemm")
def gemm(node: Node, a: ir.Value, b: ir.Value, c: ir.Value | None = None) -> ir.Value:
    """Gemm: alpha * A * B + beta * C on matrices."""
    transposes = {"transpose_lhs": bool(node.attribute("transA")), "transpose_rhs": bool(node.attribute("transB"))}
    if rank(a) != 2 or rank(b) != 2:
        raise NodeError(f"takes matrices, but A has rank {rank(a)} and B rank {rank(b)}")
    result = None if transposes["transpose_lhs"] else _of_bytes(node, a, b, transposes["transpose_rhs"])
    if result is None and not transposes["transpose_lhs"]:
        result = blocked_product(node, a, b, transposes["transpose_rhs"])
    if result is None:
        result = emit(MatmulOp, a, b, **transposes)
    result = _scaled(result, node.attribute("alpha"))
    return added(result, None if c is None else _scaled(c, node.attribute("beta")))


def _of_bytes(node: Node, lhs: ir.Value, rhs: ir.Value, transpose_rhs: bool = False) -> ir.Value | None:
    """The product of two dequantised matrices, computed on bytes; None if it cannot be.

    The right one must be quantised per column or as a whole.

    matmul((a - p) * s, (b - q) * t) --> matmul of bytes * (s * t)
    """
    left, right = dequantized(lhs), dequantized(rhs)
    if left is None or right is None or not may_multiply(node, left, right):
        return None
    columns = shape(right.numbers)[0 if transpose_rhs else 1]
    factors = [right.scale, *([] if right.zero is None else [right.zero])]
    if not is_one(left.scale) or not is_one(left.zero) or not all(_is_per(columns, item) for item in factors):
        return None
    if rank(rhs) == 2 and transpose_rhs != (rank(right.scale) == 2) and not is_one(right.scale):
        return None
    flat = Bytes(right.numbers, None if right.zero is None else _listed(right.zero))
    total = multiplied(node, Bytes(left.numbers, _whole(left.zero)), flat, transpose_rhs)
    factor = emit(MulOp, _whole(left.scale), _listed(right.scale))
    return emit(MulOp, cast(total, dtype(factor)), factor)


def _is_per(count: Dim, values: ir.Value) -> bool:
    """Returns whether there is a single value, or one per channel."""
    return is_one(values) or [dim for dim in shape(values) if dim != 1] == [count]


def _listed(values: ir.Value) -> ir.Value:
    """Removes the dimensions other than that of the channels."""
    count = max((dim for dim in shape(values) if isinstance(dim, int)), default=1)
    return values if rank(values) < 2 else emit(ReshapeOp, values, shape=(count,))


def _whole(value: Any) -> Any:
    """Reshapes a single value for a whole tensor to a scalar."""
    return value if value is None or rank(value) == 0 else emit(ReshapeOp, value, shape=())


def _scaled(value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1 else emit(MulOp, value, scalar(factor, value))


@imports("Conv")
def conv(node: Node, input: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """Conv, computed on bytes if input and weight were dequantised."""
    window = window_of(node, input, kernel_of(node, weight))
    pads = pads_of(node, input, window)
    quantized = _conv_of_bytes(node, input, weight, window, pads)
    if quantized is not None:
        spread = None if bias is None else emit(ExpandDimsOp, bias, axes=tuple(range(1, rank(input) - 1)))
        return added(quantized, spread)
    attributes = {"strides": window.strides, "dilations": window.dilations, "group": node.attribute("group")}
    return emit(ConvOp, input, weight, bias, pads=pads, **attributes)


def _conv_of_bytes(
    node: Node, input: ir.Value, weight: ir.Value, window: NodeWindow, pads: tuple[int, ...]
) -> ir.Value | None:
    """The convolution of dequantised operands, computed on bytes; None if it cannot be.

    The weight must be quantised per output channel or as a whole.
    """
    left, right = dequantized(input), dequantized(weight)
    if left is None or right is None or not is_one(left.scale) or not may_convolve(node, left, right):
        return None
    if not is_one(right.scale) and shape(right.scale) != (shape(weight)[0], *[1] * (rank(weight) - 1)):
        return None
    total = convolved(node, Bytes(left.numbers, _whole(left.zero)), right, None, window, pads)
    spread = right.scale if is_one(right.scale) else emit(SqueezeOp, right.scale, axes=(1,))
    factor = emit(MulOp, _whole(left.scale), _whole(spread) if is_one(spread) else spread)
    return emit(MulOp, cast(total, dtype(factor)), factor)


@imports("ConvTranspose")
def conv_transpose(node: Node, input: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """ConvTranspose; if the shape of the output is given, it determines the pads."""
    kernel = kernel_of(node, weight)
    padding = node.attribute("output_padding", (0,) * len(kernel))
    window = window_of(node, input, kernel)
    pads, padding = _transposed_pads(node, input, window, padding)
    return emit(
        ConvTransposeOp,
        input,
        weight,
        bias,
        strides=window.strides,
        pads=pads,
        dilations=window.dilations,
        output_padding=padding,
        group=node.attribute("group"),
    )


def kernel_of(node: Node, weight: ir.Value) -> tuple[int, ...]:
    """The extents of a convolution's kernel, which must be known.

    Raises:
        NodeError: the attribute `kernel_shape` contradicts the weight.
    """
    actual = node.static(shape(weight)[2:], "the extents of the kernel")
    if node.attribute("kernel_shape", actual) != actual:
        raise AttributeFault(
            f"attribute 'kernel_shape' is {list(node.attribute('kernel_shape'))}, but the weight's is {list(actual)}"
        )
    return actual


def _transposed_pads(node: Node, input: ir.Value, window: NodeWindow, padding: Sequence[int]) -> tuple[Dims, Dims]:
    """The pads of the input and the padding of the output.

    If `output_shape` or `auto_pad` give the output's extents, these determine the pads. An output larger than the
    transposed convolution's ends in zeros.
    """
    mode, wanted = node.attribute("auto_pad"), node.attribute("output_shape")
    if wanted is None and not mode.startswith("SAME"):
        return pads_of(node, input, window), tuple(padding)
    spatial = node.static(shape(input)[2:], "the extents of the input")
    if wanted is None:
        wanted = tuple(dim * stride for dim, stride in zip(spatial, window.strides, strict=True))
    if len(wanted) != len(spatial) or len(padding) != len(spatial):
        raise NodeError(f"attributes 'output_shape' and 'output_padding' must have {quantity(len(spatial), 'entry')}")
    full = [
        (dim - 1) * stride + extra + extent
        for dim, stride, extra, extent in zip(spatial, window.strides, padding, window.extents, strict=True)
    ]
    totals = [max(size - goal, 0) for size, goal in zip(full, wanted, strict=True)]
    lacking = [max(goal - size, 0) for size, goal in zip(full, wanted, strict=True)]
    ends = tuple(extra + more for extra, more in zip(padding, lacking, strict=True))
    return halved(totals, "SAME_UPPER" if mode == "SAME_UPPER" else "SAME_LOWER"), ends
