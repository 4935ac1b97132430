"""Packs right-hand sides that are no parameters, and so are packed in every run."""

from __future__ import annotations

import collections
import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from ....dialects.registry import view_of
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ....dialects.stepwell.packed import PackedMatmulOp
from ....dialects.stepwell.panels import BY_COLUMNS
from ....machines.caches import L2_WAYS, cached_bytes, way_bytes
from ....machines.machine import Machine
from ....machines.matrix_units import takes_rows
from ....machines.panels import choose_panel
from ...ir.named_ops import ops_named
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..products.byte_products import sum_bytes
from ..values import dtype_of, is_fixed, static_shape

# Minimum number of rows of a product for which a copy of its right-hand side pays.
_LEAST_ROWS = 64

# Number of pages of a right-hand side that a first-level TLB holds besides the pages of all other data.
_PAGES = 32

_BRAIN, _PAIR = np.dtype(ml_dtypes.bfloat16), 2
"""The type that a matrix unit multiplies beside bytes, and its neighbours along the reduction in a lane."""


@dataclass(frozen=True)
class PackRhs(Pattern[MatmulOp]):
    """matmul(x, y) --> packed_matmul(x, packed y), if packing y in every run pays

    Vectors run along the columns, so a transposed y is rearranged in any case: by the kernel of the product if all rows
    of x stay in the cache while it goes through the panels, and once for all products of an unrolled loop that have y
    in common. Any other y is packed if its rows take many pages or evict each other from the cache, and if there is
    enough work to pay for the copy. A matrix unit reads pairs of bf16, which no other order has.
    """

    machine: Machine
    in_kernels: bool = False
    shared: Collection[ir.Value] = ()
    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        left, right = static_shape(op.lhs), static_shape(op.rhs)
        if left is None or right is None or is_fixed(op.rhs):
            return None
        if dtype_of(op.rhs).itemsize == 1:
            return Refusal("bytes are packed once, or not at all")
        if op.transpose_lhs or len(right) < 2 or math.prod(right[:-2]) not in (1, math.prod(left[:-2])):
            return Refusal("the operands are not matrices in equal batches")
        size, lanes = dtype_of(op.rhs).itemsize, self.machine.lanes(sum_bytes(op))
        columns, depth = right[-2:] if op.transpose_rhs else right[:-3:-1]
        batch = math.prod(right[:-2])
        rows = math.prod(left[:-1]) // batch
        if dtype_of(op.rhs) == _BRAIN and takes_rows(self.machine, rows):
            return self._in_pairs(op, (batch, rows, depth, columns))
        fits = rows * depth * size <= cached_bytes(self.machine)
        if self.in_kernels and op.transpose_rhs and fits and op.rhs not in self.shared:
            panel = choose_panel(self.machine, columns, lanes, rows)
            flat = ReshapeOp(op.rhs, shape=(batch * columns * depth,)).result
            return PackedMatmulOp(op.lhs, flat, columns=columns, panel=panel, batch=batch, stored=BY_COLUMNS).result
        panel = choose_panel(self.machine, columns, lanes, rows, even=True)
        if columns % panel or not (op.transpose_rhs or _is_worth_packing(self.machine, rows, depth, columns * size)):
            return Refusal("the right operand can be read in place")
        axes = (0, 1, 3, 2) if op.transpose_rhs else (0, 2, 1, 3)
        split = (batch, columns // panel, panel, depth) if op.transpose_rhs else (batch, depth, columns // panel, panel)
        panels = TransposeOp(ReshapeOp(op.rhs, shape=split).result, permutation=axes).result
        packed = ReshapeOp(panels, shape=(batch * columns * depth,)).result
        return PackedMatmulOp(op.lhs, packed, columns=columns, panel=panel, batch=batch).result

    def _in_pairs(self, op: MatmulOp, sizes: tuple[int, int, int, int]) -> Replacement:
        batch, rows, depth, columns = sizes
        panel = choose_panel(self.machine, columns, self.machine.lanes(sum_bytes(op)), rows, even=True, in_tiles=True)
        if columns % panel or depth % _PAIR:
            return Refusal("the right operand does not consist of whole panels of pairs")
        panels, pairs = (columns // panel, panel), (depth // _PAIR, _PAIR)
        split, axes = (batch, *pairs, *panels), (0, 3, 1, 4, 2)
        if op.transpose_rhs:
            split, axes = (batch, *panels, *pairs), (0, 1, 3, 2, 4)
        moved = TransposeOp(ReshapeOp(op.rhs, shape=split).result, permutation=axes).result
        packed = ReshapeOp(moved, shape=(batch * columns * depth,)).result
        return PackedMatmulOp(op.lhs, packed, columns=columns, panel=panel, batch=batch, grain=_PAIR).result


def shared_operands(module: ir.Operation) -> frozenset[ir.Value]:
    """Returns the transposed right operands that several products have in common."""
    products = map(view_of, ops_named(module, MatmulOp.OPERATION_NAME))
    counts = collections.Counter(op.rhs for op in products if isinstance(op, MatmulOp) and op.transpose_rhs)
    return frozenset(value for value, count in counts.items() if count > 1)


def _is_worth_packing(machine: Machine, rows: int, depth: int, stride: int) -> bool:
    """Returns whether `depth` rows, `stride` bytes apart, take many pages or evict each other from the cache."""
    way = way_bytes(machine)
    sets = way // math.gcd(stride, way)
    # Prefetching stops if two rows take a page.
    is_far = 2 * stride >= machine.page_bytes and depth * stride >= _PAGES * machine.page_bytes
    takes_pages = rows >= 2 * _LEAST_ROWS and is_far
    return takes_pages or (rows >= _LEAST_ROWS and depth > L2_WAYS * sets // 2)


class TransposeRhs(Pattern[MatmulOp]):
    """matmul(x, y) {transpose_rhs} --> matmul(x, transpose(y)), because vectors run along the columns"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        shape = static_shape(op.rhs)
        if not op.transpose_rhs or shape is None or is_fixed(op.rhs):
            return None
        rank = len(shape)
        rhs = TransposeOp(op.rhs, permutation=(*range(rank - 2), rank - 1, rank - 2)).result
        depth: dict[str, Any] = {"depth": op.depth} if op.depth >= 0 else {}
        return MatmulOp(op.lhs, rhs, transpose_lhs=op.transpose_lhs, **depth).result
