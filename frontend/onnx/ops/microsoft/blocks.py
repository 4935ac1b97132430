"""Weights of a few bits in blocks with one scale each (com.microsoft)."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.blocks import BlockMatmulOp
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp
from ....build import (
    added,
    cast,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    known_dim,
    part_along,
    rank,
    reshaped,
    scalar,
)
from ....errors import NodeError, UnsupportedError
from ...nodes.node import Node
from ...nodes.registry import imports

_MS = "com.microsoft"
_U8 = np.dtype(np.uint8)

# The accuracy level at which blocks of rows are rounded to 8 bits. The lower levels allow f16 and bf16.
_ROUNDED_ROWS = 4
Value = ir.Value


@imports("MatMulNBits", domain=_MS)
def matmul_bits(
    node: Node,
    a: Value,
    b: Value,
    scales: Value,
    zeros: Value | None = None,
    groups: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """MatMulNBits: A times a matrix whose columns are stored as rows of blocks, [columns, blocks, bytes]."""
    bits, block = node.attribute("bits", 4), node.attribute("block_size")
    columns, depth = node.attribute("N"), node.attribute("K")
    rounds_input = node.attribute("accuracy_level", 0) == _ROUNDED_ROWS
    if node.attribute("weight_prepacked", 0):
        raise UnsupportedError("has a weight packed for a specific processor (weight_prepacked)")
    blocks = -(-depth // block)
    if bits not in (2, 4, 8):
        raise UnsupportedError(f"has weights of {bits} bits")
    if groups is None and (zeros is None or dtype(zeros) == _U8):
        weight = reshaped(b, integers([columns, blocks, block * bits // 8]))
        factors = reshaped(scales, integers([columns, blocks]))
        start = None if zeros is None else _packed_zeros(zeros, bits, columns, blocks)
        product = emit(BlockMatmulOp, a, weight, factors, start, bits=bits, rounds_input=rounds_input)
        return added(product, bias)
    numbers = reshaped(_unpacked(b, bits), integers([columns, blocks, block]))
    start = _zeros(zeros, bits, columns, blocks, scales)
    factor = reshaped(scales, integers([columns, blocks, 1]))
    if groups is not None:
        return added(emit(MatmulOp, a, _by_group(node, numbers, start, factor, groups), transpose_rhs=True), bias)
    matrix = emit(ew.MulOp, emit(ew.SubOp, cast(numbers, dtype(scales)), start), factor)
    flat = part_along(reshaped(matrix, integers([columns, blocks * block])), 1, 0, depth)
    return added(emit(MatmulOp, a, cast(flat, dtype(a)), transpose_rhs=True), bias)


def _by_group(node: Node, numbers: Value, start: Value, factor: Value, groups: Value) -> Value:
    """Dequantises the matrix if `groups` gives, for each of its rows, the block whose scale applies."""
    columns, depth, block = (node.attribute(name) for name in ("N", "K", "block_size"))
    blocks = -(-depth // block)
    flat = part_along(reshaped(numbers, integers([columns, blocks * block])), 1, 0, depth)
    places = part_along(groups, 0, 0, depth)
    if rank(start):
        start = gathered(reshaped(start, integers([columns, blocks])), places, 1)
    scale = gathered(reshaped(factor, integers([columns, blocks])), places, 1)
    return emit(ew.MulOp, emit(ew.SubOp, cast(flat, dtype(factor)), start), scale)


@imports("GatherBlockQuantized", domain=_MS)
def gather_blocks(node: Node, data: Value, indices: Value, scales: Value, zeros: Value | None = None) -> Value:
    """GatherBlockQuantized: rows of a table that is stored in blocks; only the gathered rows are unpacked."""
    bits, block = node.attribute("bits", 4), node.attribute("block_size", 128)
    axis, along = node.attribute("gather_axis", 0), node.attribute("quantize_axis", 1)
    last = rank(data) - 1
    if axis != 0 or along not in (-1, last):
        raise UnsupportedError(
            "gathers along a dimension other than the first, or has blocks along another than the last"
        )
    is_packed = dtype(data) == _U8
    rows, factor = gathered(data, indices, 0), gathered(scales, indices, 0)
    numbers = _unpacked(rows, bits) if is_packed else rows
    width = known_dim(numbers, rank(numbers) - 1, "the width of the table")
    blocks = known_dim(factor, rank(factor) - 1, "the number of blocks")
    start = None
    if zeros is not None:
        start = gathered(zeros, indices, 0)
        if is_packed:
            start = part_along(_unpacked(start, bits), rank(start) - 1, 0, blocks)
    elif is_packed:
        start = scalar(1 << (bits - 1), numbers)
    spread = np.minimum(np.arange(width) // block, blocks - 1)
    places = node.importer.weight(f"{node.name}.blocks", spread)
    number = cast(numbers, dtype(scales))
    if start is not None:
        start = cast(start, dtype(scales))
        number = emit(ew.SubOp, number, gathered(start, places, -1) if rank(start) else start)
    return emit(ew.MulOp, number, gathered(factor, places, -1))


def _zeros(zeros: Value | None, bits: int, columns: int, blocks: int, scales: Value) -> Value:
    """The zero points, [columns, blocks, 1] or a scalar, in the scales' type; bytes are packed like the numbers."""
    if zeros is None:
        return scalar(1 << (bits - 1), scales)
    if dtype(zeros) != _U8:
        return reshaped(cast(zeros, dtype(scales)), integers([columns, blocks, 1]))
    return cast(reshaped(_packed_zeros(zeros, bits, columns, blocks), integers([columns, blocks, 1])), dtype(scales))


def _packed_zeros(zeros: Value, bits: int, columns: int, blocks: int) -> Value:
    """The zero points [columns, blocks] from rows of packed bytes."""
    each = reshaped(_unpacked(zeros, bits), integers([columns, -(-blocks * bits // 8) * 8 // bits]))
    return part_along(each, 1, 0, blocks)


def _unpacked(value: Value, bits: int) -> Value:
    """Unpacks the numbers in bytes along the last dimension, the lowest bits first.

    [..., bytes] --> [..., bytes * 8 / bits]
    """
    if bits == 8:
        return value
    if bits not in (2, 4):
        raise UnsupportedError(f"has weights of {bits} bits")
    if dtype(value) != _U8:
        raise NodeError(f"has packed weights of the type {dtype(value)}")
    count, base = 8 // bits, scalar(1 << bits, value)
    parts, rest = [], value
    for index in range(count):
        last = index == count - 1
        parts.append(emit(ExpandDimsOp, rest if last else emit(ew.ModOp, rest, base), axes=(rank(value),)))
        rest = rest if last else emit(ew.DivOp, rest, base)
    stacked = joined(parts, rank(value))
    width = known_dim(value, rank(value) - 1, "the width of the packed tensor")
    return reshaped(stacked, joined([dims_of(value, 0, rank(value) - 1), integers([width * count])]))
