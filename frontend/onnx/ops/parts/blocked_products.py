"""Products with weights that DequantizeLinear scales in blocks along the sums: they stay in few bits.

matmul(x, (numbers - zeros[k / block]) * scales[k / block]) --> block_matmul(x, numbers, scales, zeros)
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from mlir import ir

from .....dialects.core import Op
from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.blocks import BlockMatmulOp
from .....dialects.stepwell.movement import GatherOp
from .....passes.ir.rewriting import defining_op
from ....build import dtype, emit, rank
from ...nodes.node import Node

_F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class _Blocked:
    """A stored matrix in blocks along an axis; zeros are None if they are 0."""

    numbers: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray | None
    block: int
    axis: int


def blocked_product(node: Node, lhs: ir.Value, rhs: ir.Value, transpose_rhs: bool = False) -> ir.Value | None:
    """The product with a stored matrix that was dequantised in blocks along the sums; None if it was not."""
    if dtype(lhs) != _F32 or dtype(rhs) != _F32 or rank(lhs) == 0 or rank(rhs) != 2:
        return None
    found = _blocked(node, rhs)
    if found is None or found.axis != int(transpose_rhs):
        return None
    limits = ml_dtypes.iinfo(found.numbers.dtype)
    per_byte = 8 // limits.bits
    if limits.bits > 8 or found.block % per_byte:
        return None
    order = (0, 1) if transpose_rhs else (1, 0)
    numbers, scales = found.numbers.transpose(order), found.scales.transpose(order)
    columns, depth = numbers.shape
    blocks, least = scales.shape[1], int(limits.min)
    wide = np.zeros((columns, blocks * found.block), np.uint8)
    wide[:, :depth] = numbers.astype(np.int16) - least
    parts = wide.reshape(columns, blocks, -1, per_byte)
    packed = np.zeros(parts.shape[:3], np.uint8)
    for place in range(per_byte):
        packed |= parts[..., place] << (limits.bits * place)
    start = np.full(scales.shape, -least, np.uint8)
    if found.zeros is not None:
        start = (found.zeros.transpose(order).astype(np.int16) - least).astype(np.uint8)
    weight = node.importer.weight
    has_zeros = bool((start != 1 << (limits.bits - 1)).any())
    return emit(
        BlockMatmulOp,
        lhs,
        weight(f"{node.name}.numbers", packed),
        weight(f"{node.name}.scales", np.ascontiguousarray(scales)),
        weight(f"{node.name}.zeros", start) if has_zeros else None,
        bits=limits.bits,
        rounds_input=False,
    )


def _operands_of(value: ir.Value, op: type[Op]) -> list[ir.Value]:
    """The operands of the op that computes a value; none if it is not of this class."""
    found = defining_op(value, op)
    return [] if found is None else list(found.operation.operands)


def _blocked(node: Node, value: ir.Value) -> _Blocked | None:
    """The parts of a value as the import of DequantizeLinear makes it."""
    product = _operands_of(value, ew.MulOp)
    wide, spread = (_operands_of(product[0], ew.CastOp), _operands_of(product[1], GatherOp)) if product else ([], [])
    if not wide or not spread:
        return None
    numbers, zeros = wide[0], None
    beyond = _operands_of(numbers, ew.SubOp)
    if beyond:
        source, offset = (_operands_of(item, ew.CastOp) for item in beyond)
        start = _operands_of(offset[0], GatherOp) if source and offset else []
        if not start:
            return None
        numbers, zeros = source[0], node.known(start[0])
        if zeros is None:
            return None
    stored, scales, places = (node.known(item) for item in (numbers, *spread))
    if stored is None or scales is None or places is None or scales.ndim != stored.ndim:
        return None
    block = int(np.count_nonzero(places == 0))
    axis = GatherOp(product[1].owner).axis
    return _Blocked(stored, scales, zeros, block, axis)
