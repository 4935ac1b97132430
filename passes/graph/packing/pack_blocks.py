"""Packing of weights of few bits, and unpacking of those that no kernel takes as they are."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.stepwell.blocks import GRAIN, LARGEST, BlockMatmulOp, PackedBlockMatmulOp, block_of
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise.arithmetic import AbsOp, AddOp, DivOp, MaximumOp, ModOp, MulOp, RoundOp, SubOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, RowOp, SliceOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from ....machines.block_tiles import BlockWork, choose_block_panel, converts_blocks, spreads_blocks
from ....machines.machine import Machine
from ...ir.rewriting import Pattern, Replacement, defining_op
from ...ir.values import Shape
from ..values import dtype_of, is_fixed, scalar_like, static_shape, static_shapes
from .panels import pack

_F32, _I8, _BRAIN = np.dtype(np.float32), np.dtype(np.int8), np.dtype(ml_dtypes.bfloat16)

# Rows are divided by a magnitude of at least this, so that a block of zeros stays zeros.
_LEAST = 1e-30


@dataclass(frozen=True)
class PackBlockMatmul(Pattern[BlockMatmulOp]):
    """block_matmul(x, w, s, z) --> packed_block_matmul(x by block, sums of its blocks, packed w, packed s, packed z)

    Rows of stacked weights are taken from the packed ones. If there are many rows, and a matrix unit, panels of the
    weight are converted to bf16 instead, and no row is rounded to bytes:

    block_matmul(x, w, s, z) --> packed_block_matmul(bf16 x, packed w, packed s, packed z)

    Attributes:
        machine: the machine.
        is_alike: whether rows are rounded in the same way, however many there are.
        typical: returns the numbers of rows of a product at representative sizes; None if sizes do not vary.
    """

    machine: Machine
    is_alike: bool = False
    typical: Callable[[ir.Value], Sequence[int]] | None = None
    root = BlockMatmulOp

    def rewrite(self, op: BlockMatmulOp) -> Replacement:
        shape = static_shape(op.input)
        stacked = _Stacked.of(op)
        if shape is None or not (_is_packable(op) or stacked is not None):
            return None
        kept, input = dtype_of(op.input), _cast(op.input, _F32)
        columns, blocks, _ = ir.RankedTensorType(op.weight.type).shape
        work = BlockWork(op.bits, block_of(op), op.rounds_input)
        panel = choose_block_panel(self.machine, columns, work)
        if stacked is not None:
            panel = math.gcd(panel, columns)  # so that panels do not reach across matrices
        by_block = (*shape[:-1], blocks, block_of(op))
        padded = _padded(input, blocks * block_of(op))
        if stacked is None:
            weights = _packed_operands(op.weight, op.scales, op.zeros, op.bits, panel)
        else:
            weights = stacked.packed(op.bits, panel)
        attributes: dict[str, Any] = {"columns": columns, "panel": panel, "bits": op.bits}
        rows = [math.prod(shape[:-1])] if self.typical is None else self.typical(op.result)
        # The rows of one of several matrices, such as those of an expert, may be far fewer than their maximum.
        if stacked is None and not self.is_alike and converts_blocks(self.machine, work, rows):
            made = PackedBlockMatmulOp(_cast(padded, _BRAIN), None, *weights, None, **attributes)
            return _cast(made.result, kept)
        values = ReshapeOp(padded, shape=by_block).result
        factors = None
        if op.rounds_input:
            most = ReduceMaxOp(AbsOp(values), axes=(len(shape),), keepdims=True).result
            factor = DivOp(scalar_like(LARGEST, most), MaximumOp(most, scalar_like(_LEAST, most)))
            values = RoundOp(MulOp(values, factor)).result
            factors = MulOp(ReshapeOp(most, shape=by_block[:-1]), scalar_like(1 / LARGEST, most)).result
        sums = ReduceSumOp(values, axes=(len(shape),), keepdims=False).result
        if factors is not None:
            values, sums = CastOp(values, dtype=_I8).result, MulOp(sums, factors).result
        flat = ReshapeOp(values, shape=(*shape[:-1], blocks * block_of(op))).result
        if spreads_blocks(self.machine, work, max(rows, default=0), panel):
            attributes["spread"] = True
        made = PackedBlockMatmulOp(flat, sums, *weights, factors, **attributes)
        return _cast(made.result, kept)


@dataclass(frozen=True)
class _Stacked:
    """Fixed weights of several matrices, of which a product takes one: weight, scales and zeros at the same index.

    row(w, i), row(s, i) --> row(packed w, i), row(packed s, i)
    """

    operands: tuple[ir.Value | None, ...]
    index: ir.Value

    @staticmethod
    def of(op: BlockMatmulOp) -> _Stacked | None:
        """Returns the operands before the rows are taken; None if the product does not take rows of fixed weights."""
        if block_of(op) * op.bits % 32 != 0:
            return None
        given = [value for value in (op.weight, op.scales, op.zeros) if value is not None]
        rows = [row for value in given if (row := defining_op(value, RowOp)) is not None]
        is_alike = len(rows) == len(given) and all(row.index == rows[0].index for row in rows)
        if not is_alike or not all(is_fixed(row.input) for row in rows):
            return None
        return _Stacked((*(row.input for row in rows), *[None] * (3 - len(rows))), rows[0].index)

    def packed(self, bits: int, panel: int) -> list[ir.Value | None]:
        """Returns the rows of the packed operands: the columns of all matrices are packed as those of one."""
        count = 0
        joined: list[ir.Value | None] = []
        for value in self.operands:
            if value is not None:
                count, columns, *rest = ir.RankedTensorType(value.type).shape
                value = ReshapeOp(value, shape=(count * columns, *rest)).result
            joined.append(value)
        weight, scales, zeros = joined
        assert weight is not None and scales is not None
        made: list[ir.Value | None] = []
        for value in _packed_operands(weight, scales, zeros, bits, panel):
            if value is not None:
                size = ir.RankedTensorType(value.type).shape[0] // count
                value = RowOp(ReshapeOp(value, shape=(count, size)).result, self.index).result
            made.append(value)
        return made


def _packed_operands(
    weight: ir.Value, scales: ir.Value, zeros: ir.Value | None, bits: int, panel: int
) -> list[ir.Value | None]:
    """Returns weight, scales and zeros packed in panels."""
    columns, blocks, _ = ir.RankedTensorType(weight.type).shape
    others = [None if value is None else pack(value, 1, columns, blocks, panel, grain=1) for value in (scales, zeros)]
    return [_packed(weight, bits, panel), *others]


class UnpackBlocks(Pattern[BlockMatmulOp]):
    """block_matmul(x, w, s, z) --> matmul(x, (unpacked w - z) * s), if the weight cannot be packed"""

    root = BlockMatmulOp

    def rewrite(self, op: BlockMatmulOp) -> Replacement:
        shapes = static_shapes(op.input, op.weight)
        if shapes is None:
            return None
        (columns, blocks, _), depth = shapes[1], shapes[0][-1]
        kind = _F32 if _F32 in (dtype_of(op.input), dtype_of(op.scales)) else dtype_of(op.scales)
        scales = _cast(op.scales, kind)
        numbers = CastOp(ReshapeOp(unpacked(op.weight, op.bits), shape=(columns, blocks, block_of(op))), dtype=kind)
        if op.zeros is None:
            start = scalar_like(1 << (op.bits - 1), scales)
        else:
            start = ReshapeOp(_cast(op.zeros, kind), shape=(columns, blocks, 1)).result
        scaled = MulOp(SubOp(numbers, start), ReshapeOp(scales, shape=(columns, blocks, 1)))
        flat = ReshapeOp(scaled, shape=(columns, blocks * block_of(op))).result
        weight = _cast(_first(flat, depth), dtype_of(op.input))
        rows = ReshapeOp(op.input, shape=(math.prod(shapes[0][:-1]), depth)).result
        product = MatmulOp(rows, weight, transpose_rhs=True).result
        return ReshapeOp(product, shape=(*shapes[0][:-1], columns)).result


def _is_packable(op: BlockMatmulOp) -> bool:
    """Returns whether the weight is fixed, and a block of it is a multiple of what a lane holds."""
    operands = (op.weight, op.scales, op.zeros)
    return all(value is None or is_fixed(value) for value in operands) and block_of(op) * op.bits % 32 == 0


def _packed(weight: ir.Value, bits: int, panel: int) -> ir.Value:
    """The weight with numbers 4 elements apart in a byte, packed in panels."""
    columns, blocks, size = ir.RankedTensorType(weight.type).shape
    per_byte = 8 // bits
    if per_byte > 1:
        words = blocks * size // GRAIN
        numbers = ReshapeOp(unpacked(weight, bits), shape=(columns, words, per_byte, GRAIN)).result
        parts = [_part(numbers, slot) for slot in range(per_byte)]
        weight = parts[0]
        for slot, part in enumerate(parts[1:], 1):
            weight = AddOp(weight, MulOp(part, scalar_like(1 << (bits * slot), part))).result
    return pack(ReshapeOp(weight, shape=(columns, blocks * size)).result, 1, columns, blocks * size, panel)


def unpacked(value: ir.Value, bits: int) -> ir.Value:
    """The numbers in bytes along the last dimension: [.., bytes] --> [.., bytes, numbers per byte]."""
    shape = (*ir.RankedTensorType(value.type).shape, 1)
    base, rest, result = scalar_like((1 << bits) % 256, value), value, None
    for slot in range(8 // bits):
        is_last = slot == 8 // bits - 1
        part = ReshapeOp(rest if is_last else ModOp(rest, base), shape=shape).result
        result = part if result is None else ConcatOp(result, part, axis=len(shape) - 1).result
        rest = rest if is_last else DivOp(rest, base).result
    assert result is not None
    return result


def _part(numbers: ir.Value, slot: int) -> ir.Value:
    """[columns, words, numbers per byte, 4] --> [columns, words, 4]"""
    shape = ir.RankedTensorType(numbers.type).shape
    starts, stops = (0, 0, slot, 0), (*shape[:2], slot + 1, shape[3])
    part = SliceOp(numbers, starts=starts, stops=stops, steps=(1, 1, 1, 1))
    return ReshapeOp(part, shape=(*shape[:2], shape[3])).result


def _padded(value: ir.Value, depth: int) -> ir.Value:
    shape: Shape = tuple(ir.RankedTensorType(value.type).shape)
    if shape[-1] == depth:
        return value
    low = (0,) * len(shape)
    return PadOp(value, low=low, high=(*low[:-1], depth - shape[-1])).result


def _first(value: ir.Value, depth: int) -> ir.Value:
    columns, whole = ir.RankedTensorType(value.type).shape
    return value if whole == depth else SliceOp(value, starts=(0, 0), stops=(columns, depth), steps=(1, 1)).result


def _cast(value: ir.Value, dtype: np.dtype) -> ir.Value:
    return value if dtype_of(value) == dtype else CastOp(value, dtype=dtype).result
