"""Packs stacks of weights of which each product takes one, as loops over experts do."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise.logic import CastOp
from ....dialects.stepwell.movement import RowOp, TransposeOp
from ....dialects.stepwell.packed import PackedMatmulOp
from ....dialects.stepwell.panels import SHORT_FLOATS
from ....machines.machine import Machine
from ....machines.panels import LEAST_SHARED_ROWS, choose_panel
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op
from ..values import dtype_of, is_fixed, static_shape
from .panels import pack_each


@dataclass(frozen=True)
class PackStackedMatmul(Pattern[MatmulOp]):
    """matmul(x, row(w, i)) --> packed_matmul(x, row(packed w, i)), for a fixed stack of matrices w of float32

    Stacks of short floats, whose rows are converted to float32, stay short.
    """

    machine: Machine
    varies: bool
    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        cast = defining_op(op.rhs, CastOp)
        is_short = cast is not None and dtype_of(cast.input) in SHORT_FLOATS
        row = defining_op(op.rhs if cast is None or not is_short else cast.input, RowOp)
        if row is None or not is_fixed(row.input):
            return None
        shape, rows = static_shape(row.input), static_shape(op.lhs)
        if shape is None or rows is None or len(shape) != 3:
            return Refusal("the weights are not a stack of matrices of static shape")
        if op.transpose_lhs or dtype_of(op.rhs) != "float32":
            return Refusal("the left operand is transposed, or the weights are not float32")
        stack = row.input if op.transpose_rhs else TransposeOp(row.input, permutation=(0, 2, 1)).result
        _, columns, depth = ir.RankedTensorType(stack.type).shape
        count = math.prod(rows[:-1])
        count = max(count, LEAST_SHARED_ROWS) if self.varies else count
        panel = choose_panel(self.machine, columns, self.machine.lanes(4), count)
        given: dict[str, Any] = {"keeps_sums": True} if is_short else {}
        packed = RowOp(pack_each(stack, columns, depth, panel), row.index).result
        return PackedMatmulOp(op.lhs, packed, columns=columns, panel=panel, **given).result
