"""Forms in ONNX of products: matrices, convolutions, attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from mlir import ir

from .....dialects.dims import Dim
from .....dialects.stepwell import attention as attention_ops
from .....dialects.stepwell import blocks as block_ops
from .....dialects.stepwell import contraction as ops
from .....dialects.stepwell.windows import CHANNELS_FIRST
from .....dialects.types import spec_of_type
from ..node_writer import NodeWriter, TensorName
from ..onnx_form import ONNX_FORM, NoOnnxFormError, static_shape

_MICROSOFT = "com.microsoft"


@ONNX_FORM.attach(ops.MatmulOp)
def matmul(op: ops.MatmulOp, nodes: NodeWriter) -> str:
    """MatMul, after transposes of the operands that the op reads transposed"""
    lhs = _matrix(op.lhs, op.transpose_lhs, nodes)
    return nodes.add("MatMul", lhs, _matrix(op.rhs, op.transpose_rhs, nodes))


def _matrix(value: ir.Value, is_transposed: bool, nodes: NodeWriter) -> str:
    return _swapped(value, spec_of_type(value.type).rank, nodes) if is_transposed else nodes.name_of(value)


def _swapped(tensor: TensorName, rank: int, nodes: NodeWriter) -> str:
    """Exchanges the last two dimensions of a tensor."""
    return nodes.transposed(tensor, (*range(rank - 2), rank - 1, rank - 2))


@ONNX_FORM.attach(ops.ConvOp)
def convolution(op: ops.ConvOp, nodes: NodeWriter) -> str:
    """Conv"""
    _require_channels_first(op.layout)
    attributes = {"strides": op.strides, "pads": op.pads, "dilations": op.dilations, "group": op.group}
    return nodes.add("Conv", *op.operand_values(), kernel_shape=_kernel(op.weight), **attributes)


@ONNX_FORM.attach(ops.ConvTransposeOp)
def transposed_convolution(op: ops.ConvTransposeOp, nodes: NodeWriter) -> str:
    """ConvTranspose"""
    _require_channels_first(op.layout)
    return nodes.add(
        "ConvTranspose",
        *op.operand_values(),
        kernel_shape=_kernel(op.weight),
        strides=op.strides,
        pads=op.pads,
        dilations=op.dilations,
        output_padding=op.output_padding,
        group=op.group,
    )


def _kernel(weight: ir.Value) -> Sequence[int]:
    return static_shape(weight)[2:]


def _require_channels_first(layout: str) -> None:
    if layout != CHANNELS_FIRST:
        raise NoOnnxFormError("ONNX convolves images with channels first only")


@ONNX_FORM.attach(attention_ops.AttentionOp)
def attention(op: attention_ops.AttentionOp, nodes: NodeWriter) -> str:
    """MatMul(Softmax(MatMul(query, transposed key) * scale + mask), value)"""
    keys, values = (_for_all_heads(item, spec_of_type(op.query.type).shape[1], nodes) for item in (op.key, op.value))
    products = nodes.add("MatMul", op.query, _swapped(keys, 4, nodes))
    scores = nodes.add("Mul", products, nodes.scalar_like(op.query, op.scale))
    if op.cap:
        cap = nodes.scalar_like(op.query, op.cap)
        scores = nodes.add("Mul", nodes.add("Tanh", nodes.add("Div", scores, cap)), cap)
    if op.mask is not None and spec_of_type(op.mask.type).dtype == np.bool_:
        scores = nodes.add("Where", op.mask, scores, nodes.scalar_like(op.query, op.masked))
    elif op.mask is not None:
        scores = nodes.add("Add", scores, op.mask)
    nothing = nodes.scalar_like(op.query, -np.inf)
    for is_outside in _windows(op, nodes):
        scores = nodes.add("Where", is_outside, nothing, scores)
    weights = nodes.add("Softmax", scores, axis=-1)
    if op.zero_empty:
        most = nodes.add("ReduceMax", scores, nodes.integers([-1]), keepdims=1)
        is_empty = nodes.add("Equal", most, nothing)
        weights = nodes.add("Where", is_empty, nodes.scalar_like(op.query, 0), weights)
    return nodes.add("MatMul", weights, values)


def _windows(op: attention_ops.AttentionOp, nodes: NodeWriter) -> Iterator[str]:
    """Yields masks of the keys that are too far after and before each query."""
    if op.after >= attention_ops.UNBOUNDED and op.before >= attention_ops.UNBOUNDED:
        return
    zero, one = (nodes.constant(np.array(number, np.int64), "number") for number in (0, 1))
    keys, queries = (
        nodes.add("Range", zero, nodes.size(spec_of_type(item.type).shape[2]), one) for item in (op.key, op.query)
    )
    distance = nodes.add("Sub", keys, nodes.add("Unsqueeze", queries, nodes.integers([1])))
    if op.after < attention_ops.UNBOUNDED:
        yield nodes.add("Greater", distance, nodes.constant(np.array(op.after, np.int64), "after"))
    if op.before < attention_ops.UNBOUNDED:
        yield nodes.add("Less", distance, nodes.constant(np.array(-op.before, np.int64), "before"))


def _for_all_heads(value: ir.Value, heads: Dim, nodes: NodeWriter) -> TensorName:
    """Repeats the heads of keys or values for all heads of queries that share them."""
    batch, shared, length, depth = spec_of_type(value.type).shape
    if shared == heads:
        return value
    if not isinstance(heads, int) or not isinstance(shared, int):
        raise NoOnnxFormError("the numbers of heads must be known")
    apart = nodes.add("Unsqueeze", value, nodes.integers([2]))
    copies = nodes.add("Expand", apart, nodes.sizes((batch, shared, heads // shared, length, depth)))
    return nodes.add("Reshape", copies, nodes.sizes((batch, heads, length, depth)))


@ONNX_FORM.attach(block_ops.BlockMatmulOp)
def block_matmul(op: block_ops.BlockMatmulOp, nodes: NodeWriter) -> str:
    """MatMulNBits"""
    columns, blocks, size = static_shape(op.weight)
    depth = static_shape(op.input)[-1]
    return nodes.add(
        "MatMulNBits",
        op.input,
        op.weight,
        nodes.add("Reshape", op.scales, nodes.integers([columns * blocks])),
        None if op.zeros is None else _packed_zeros(op, nodes),
        domain=_MICROSOFT,
        K=depth,
        N=columns,
        bits=op.bits,
        block_size=size * 8 // op.bits,
        accuracy_level=4 if op.rounds_input else 0,
    )


def _packed_zeros(op: block_ops.BlockMatmulOp, nodes: NodeWriter) -> str:
    zeros = nodes.array_of(op.zeros)
    if zeros is None or op.bits == 2 or np.any(zeros != np.rint(zeros)):
        raise NoOnnxFormError("MatMulNBits takes zero points that are whole numbers of 4 or 8 bits and constant")
    codes = zeros.astype(np.uint8)
    if op.bits == 4:
        codes = np.pad(codes, ((0, 0), (0, codes.shape[1] % 2)))
        codes = codes[:, ::2] | codes[:, 1::2] << 4
    return nodes.constant(codes.reshape(-1), "zero_points")
