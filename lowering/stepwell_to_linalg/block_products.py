"""Products with weights of few bits in blocks, as one linalg.generic per column group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, linalg, tensor

from ...dialects import discardable
from ...dialects.stepwell.blocks import GRAIN, PackedBlockMatmulOp
from ...dialects.stepwell.panels import ColumnGroup, column_groups
from ...passes.ir.values import Shape, shape_of
from ...passes.kernel.demand import kernel_of, varying_rows
from ..builders.generics import constant, generic
from ..builders.spaces import ResultSpace, expand, slice_axis
from .products import PRODUCT, Product, aligned_outer, emit_grains, in_grains

_PAIR = 2
"""Neighbours along the reduction that a lane of bf16 holds."""


@PRODUCT.attach(PackedBlockMatmulOp)
def packed_block_matmul(op: PackedBlockMatmulOp, others: Sequence[Shape]) -> Product:
    """Returns a product with a packed weight of few bits as a contraction.

    (outer.., panel, lane, block, word, part, byte):
        input[outer.., block, word, part, byte] * scale[panel, block, lane]
            * number(part, weight[panel, block, word, lane, byte])

    Rows of bf16 are multiplied by a panel that is converted to bf16 first:

    (outer.., panel, lane, pair, k): input[outer.., pair, k] * converted[panel, pair, lane, k]
    """
    if op.sums is None:
        return _converted_product(op, others)
    result, (*rows, blocks) = shape_of(op.result), shape_of(op.sums)
    parts, depth = 1 if op.spread else 8 // op.bits, shape_of(op.input)[-1]
    words = depth // (blocks * parts * GRAIN)
    apart = varying_rows(kernel_of(op.operation), result)
    space = ResultSpace(result, [*aligned_outer(others, len(result)), (1,) * len(rows)], separate=apart)
    panel, lane, block, word, part, byte = (ir.AffineExpr.get_dim(space.rank - 2 + number) for number in range(6))

    def row_view(value: ir.Value, inner: Sequence[int]) -> tuple[ir.Value, list[ir.AffineExpr]]:
        flat, outer = space.flatten(value, trailing=1)
        return expand(flat, len(outer), inner), [ir.AffineExpr.get_dim(dim) for dim in outer]

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        lhs, outer = row_view(op.input, [blocks, words, parts, GRAIN])
        sums, _ = row_view(op.sums, [blocks])
        size = GRAIN * words * blocks
        inner = [blocks, words, GRAIN * group.width]
        weight = _spread(op, group, inner) if op.spread else _panels(op.weight, group, size, inner)
        tensors, maps = (
            [lhs, weight, sums],
            [[*outer, block, word, part, byte], [panel, block, word, GRAIN * lane + byte]],
        )
        maps.append([*outer, block])
        for packed in (op.scales, op.zeros):
            if packed is not None:
                tensors.append(_panels(packed, group, blocks, [blocks, group.width]))
                maps.append([panel, block, lane])
        if op.factors is not None:
            tensors.append(row_view(op.factors, [blocks])[0])
            maps.append([*outer, block])
        maps.append([ir.AffineExpr.get_dim(dim) for dim in range(space.rank)])
        body = _Body(op.bits, op.spread, op.zeros is not None, op.factors is not None, space.rank + 2)
        affine = [ir.AffineMap.get(space.rank + 4, 0, list(exprs)) for exprs in maps]
        made = generic(tensors, out, affine, space.rank, body)
        discardable.BLOCK_BITS.write(made, op.bits)
        return made

    return Product(space, column_groups(op.columns, op.panel), emit)


def _converted_product(op: PackedBlockMatmulOp, others: Sequence[Shape]) -> Product:
    """Returns a product of rows of bf16 with panels that the kernel converts."""
    result, depth, dim = shape_of(op.result), shape_of(op.input)[-1], ir.AffineExpr.get_dim
    apart = varying_rows(kernel_of(op.operation), result)
    space = ResultSpace(result, [*aligned_outer(others, len(result)), (1,) * (len(result) - 1)], separate=apart)
    rows, outer = space.flatten(op.input, trailing=1)
    panel, lane, pair = (dim(space.rank - 2 + number) for number in range(3))

    def emit(group: ColumnGroup, out: ir.Value) -> ir.OpView:
        grains = in_grains(rows, _PAIR)
        return emit_grains(
            grains, [*map(dim, outer), pair], _converted(op, group, depth), [panel, pair, lane], out, 1, _PAIR
        )

    return Product(space, column_groups(op.columns, op.panel), emit)


def _converted(op: PackedBlockMatmulOp, group: ColumnGroup, depth: int) -> ir.Value:
    """Returns the panels of a group as bf16 [panel, pair, 2 * lane + k].

    Schedules find the op that converts them by its attribute `stepwell.packing`, and compute it panel by panel. A pair
    is in two neighbouring bytes of a word.
    """
    blocks, parts = shape_of(op.scales)[0] // op.columns, 8 // op.bits
    words, pairs = depth // (GRAIN * parts), depth // _PAIR
    panel, pair, lane = (ir.AffineExpr.get_dim(number) for number in range(3))
    column = ir.AffineExpr.get_floor_div(lane, _PAIR)
    byte = GRAIN * column + _PAIR * (pair % _PAIR) + lane % _PAIR
    tensors = [_panels(op.weight, group, GRAIN * words, [words, GRAIN * group.width])]
    maps = [[panel, ir.AffineExpr.get_floor_div(pair, _PAIR * parts), byte]]
    for packed in (op.scales, op.zeros):
        if packed is not None:
            tensors.append(_panels(packed, group, blocks, [blocks, group.width]))
            maps.append([panel, ir.AffineExpr.get_floor_div(pair, pairs // blocks), column])
    maps.append([panel, pair, lane])
    empty = tensor.EmptyOp([group.panels, pairs, _PAIR * group.width], ir.BF16Type.get()).result
    affine = [ir.AffineMap.get(len(maps[-1]), 0, exprs) for exprs in maps]
    made = generic(tensors, empty, affine, len(maps[-1]), _Conversion(op.bits, op.zeros is not None))
    discardable.PACKING.write(made, group.start)
    discardable.BLOCK_BITS.write(made, op.bits)
    return made.results[0]


def _spread(op: PackedBlockMatmulOp, group: ColumnGroup, inner: Sequence[int]) -> ir.Value:
    """Returns the panels of a group with each number in a byte, [panel, block, word, 4 * lane + byte]."""
    blocks, words, width = inner
    parts = 8 // op.bits
    panel, block, word, byte = (ir.AffineExpr.get_dim(number) for number in range(4))
    stored = _panels(op.weight, group, blocks * words * GRAIN // parts, [blocks, words // parts, width])
    empty = tensor.EmptyOp([group.panels, *inner], ir.RankedTensorType(stored.type).element_type).result
    maps = [[panel, block, ir.AffineExpr.get_floor_div(word, parts), byte], [panel, block, word, byte]]

    def number(data: ir.Value, _: ir.Value) -> ir.Value:
        index = ir.IndexType.get()
        part = arith.remui(linalg.IndexOp(2).result, arith.constant(index, parts))
        return _bits_of(data, op.bits, part)

    made = generic([stored], empty, [ir.AffineMap.get(4, 0, exprs) for exprs in maps], 4, number)
    discardable.PACKING.write(made, group.start)
    discardable.BLOCK_BITS.write(made, op.bits)
    return made.results[0]


def _panels(packed: ir.Value, group: ColumnGroup, per_column: int, inner: Sequence[int]) -> ir.Value:
    """Returns the part of a packed tensor that belongs to a column group as [panel, *inner]."""
    flat = slice_axis(packed, 0, group.start * per_column, group.size * per_column)
    return expand(flat, 0, [group.panels, *inner])


@dataclass(frozen=True)
class _Body:
    """Emits the body for one element: sum + input * (number - zero) * scale * factor.

    The operands are input, weight, sums, scale, zero (if there are zeros), factor (if there are factors) and sum; the
    sums of blocks are for code that handles a block at a time.
    """

    bits: int
    is_spread: bool
    has_zeros: bool
    has_factors: bool
    part: int

    def __call__(
        self, value: ir.Value, data: ir.Value, block_sum: ir.Value, scale: ir.Value, *rest: ir.Value
    ) -> ir.Value:
        *others, total = rest
        number = _number(data, 8 if self.is_spread else self.bits, linalg.IndexOp(self.part).result)
        zero = _float(others.pop(0), is_signed=False) if self.has_zeros else _middle(self.bits)
        factor = _float(scale)
        if self.has_factors:
            factor = arith.mulf(factor, others.pop(0))
        return arith.addf(total, arith.mulf(_float(value), arith.mulf(arith.subf(number, zero), factor)))


@dataclass(frozen=True)
class _Conversion:
    """Emits the body for one element: bf16 of (number - zero) * scale.

    The operands are weight, scale, zero (if there are zeros) and the element.
    """

    bits: int
    has_zeros: bool

    def __call__(self, data: ir.Value, scale: ir.Value, *rest: ir.Value) -> ir.Value:
        index = ir.IndexType.get()
        half = arith.divui(linalg.IndexOp(1).result, arith.constant(index, _PAIR))
        number = _number(data, self.bits, arith.remui(half, arith.constant(index, 8 // self.bits)))
        zero = _float(rest[0], is_signed=False) if self.has_zeros else _middle(self.bits)
        return arith.truncf(ir.BF16Type.get(), arith.mulf(arith.subf(number, zero), _float(scale)))


def _number(data: ir.Value, bits: int, part: ir.Value) -> ir.Value:
    """Returns the number in a part of a byte as a float."""
    return arith.uitofp(ir.F32Type.get(), data if bits == 8 else _bits_of(data, bits, part))


def _bits_of(data: ir.Value, bits: int, part: ir.Value) -> ir.Value:
    """Returns the number in a part of a byte as a byte."""
    shift = arith.muli(part, constant(ir.IntegerAttr.get(ir.IndexType.get(), bits)))
    shifted = arith.shrui(data, arith.index_cast(data.type, shift))
    return arith.andi(shifted, constant(ir.IntegerAttr.get(data.type, (1 << bits) - 1)))


def _middle(bits: int) -> ir.Value:
    """Returns the number that stands for 0 if there are no zero points."""
    return constant(ir.FloatAttr.get(ir.F32Type.get(), float(1 << (bits - 1))))


def _float(value: ir.Value, is_signed: bool = True) -> ir.Value:
    f32 = ir.F32Type.get()
    if value.type == f32:
        return value
    if isinstance(value.type, ir.FloatType):
        return arith.extf(f32, value)
    return arith.sitofp(f32, value) if is_signed else arith.uitofp(f32, value)
