"""Matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.elementwise import MulOp
from ....support.wording import quantity
from ...build import added, emit, multiplied, rank, scalar, shape, transposed
from ...errors import AttributeFault, NodeError
from ..nodes.node import Node
from ..nodes.registry import imports
from .parts.blocked_products import blocked_product
from .parts.windows import NodeWindow, halved, pads_of, window_of

_Dims = tuple[int, ...]


@imports("MatMul")
def matmul(node: Node, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """MatMul, computed on few bits if the second operand was dequantised in blocks."""
    quantized = blocked_product(node, lhs, rhs)
    return multiplied(lhs, rhs) if quantized is None else quantized


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
    result = None if transposes["transpose_lhs"] else blocked_product(node, a, b, transposes["transpose_rhs"])
    if result is None:
        result = emit(MatmulOp, a, b, **transposes)
    result = _scaled(result, node.attribute("alpha"))
    return added(result, None if c is None else _scaled(c, node.attribute("beta")))


def _scaled(value: ir.Value, factor: float) -> ir.Value:
    return value if factor == 1 else emit(MulOp, value, scalar(factor, value))


@imports("Conv")
def conv(node: Node, input: ir.Value, weight: ir.Value, bias: ir.Value | None = None) -> ir.Value:
    """Conv."""
    window = window_of(node, input, kernel_of(node, weight))
    pads = pads_of(node, input, window)
    attributes = {"strides": window.strides, "dilations": window.dilations, "group": node.attribute("group")}
    return emit(ConvOp, input, weight, bias, pads=pads, **attributes)


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


def _transposed_pads(node: Node, input: ir.Value, window: NodeWindow, padding: Sequence[int]) -> tuple[_Dims, _Dims]:
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
