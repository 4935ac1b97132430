"""Products with weights of few bits in blocks, as one linalg.generic per column group."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, linalg

from ...dialects import discardable
from ...dialects.stepwell.blocks import GRAIN, PackedBlockMatmulOp
from ...dialects.stepwell.panels import ColumnGroup, column_groups
from ...passes.ir.values import Shape, shape_of
from ...passes.kernel.demand import kernel_of, varying_rows
from ..builders.generics import constant, generic
from ..builders.spaces import ResultSpace, expand, slice_axis
from .products import PRODUCT, Product, aligned_outer


@PRODUCT.attach(PackedBlockMatmulOp)
def packed_block_matmul(op: PackedBlockMatmulOp, others: Sequence[Shape]) -> Product:
    """Returns a product with a packed weight of few bits as a contraction.

    (outer.., panel, lane, block, word, part, byte):
        input[outer.., block, word, part, byte] * scale[panel, block, lane]
            * number(part, weight[panel, block, word, lane, byte])
    """
    result, (*rows, blocks) = shape_of(op.result), shape_of(op.sums)
    parts, depth = 8 // op.bits, shape_of(op.input)[-1]
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
        weight = _panels(op.weight, group, size, [blocks, words, GRAIN * group.width])
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
        body = _Body(op.bits, op.zeros is not None, op.factors is not None, space.rank + 2)
        affine = [ir.AffineMap.get(space.rank + 4, 0, list(exprs)) for exprs in maps]
        made = generic(tensors, out, affine, space.rank, body)
        discardable.BLOCK_BITS.write(made, op.bits)
        return made

    return Product(space, column_groups(op.columns, op.panel), emit)


def _panels(packed: ir.Value, group: ColumnGroup, per_column: int, inner: Sequence[int]) -> ir.Value:
    """Returns the part of a packed tensor that belongs to a column group as [panel, *inner]."""
    flat = slice_axis(packed, 0, group.start * per_column, group.size * per_column)
    return expand(flat, 0, [group.panels, *inner])


class _Body:
    """Emits the body for one element: sum + input * (number - zero) * scale * factor.

    The operands are input, weight, sums, scale, zero (if there are zeros), factor (if there are factors) and sum; the
    sums of blocks are for code that handles a block at a time.
    """

    def __init__(self, bits: int, has_zeros: bool, has_factors: bool, part: int) -> None:
        self.bits, self.has_zeros, self.has_factors, self.part = bits, has_zeros, has_factors, part

    def __call__(
        self, value: ir.Value, data: ir.Value, block_sum: ir.Value, scale: ir.Value, *rest: ir.Value
    ) -> ir.Value:
        f32, *others, total = ir.F32Type.get(), *rest
        byte = data
        if self.bits < 8:
            shift = arith.muli(
                linalg.IndexOp(self.part).result, constant(ir.IntegerAttr.get(ir.IndexType.get(), self.bits))
            )
            shifted = arith.shrui(data, arith.index_cast(data.type, shift))
            byte = arith.andi(shifted, constant(ir.IntegerAttr.get(data.type, (1 << self.bits) - 1)))
        number = arith.uitofp(f32, byte)
        half = ir.FloatAttr.get(f32, float(1 << (self.bits - 1)))
        zero = _float(others.pop(0), is_signed=False) if self.has_zeros else constant(half)
        factor = _float(scale)
        if self.has_factors:
            factor = arith.mulf(factor, others.pop(0))
        return arith.addf(total, arith.mulf(_float(value), arith.mulf(arith.subf(number, zero), factor)))


def _float(value: ir.Value, is_signed: bool = True) -> ir.Value:
    f32 = ir.F32Type.get()
    if value.type == f32:
        return value
    if isinstance(value.type, ir.FloatType):
        return arith.extf(f32, value)
    return arith.sitofp(f32, value) if is_signed else arith.uitofp(f32, value)
