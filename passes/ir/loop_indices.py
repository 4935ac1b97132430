"""Indices of rows in the iterations of a loop: scalar tensors, and the arithmetic that computes them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.elementwise import AddOp, MulOp, SubOp
from .rewriting import defining_op
from .values import integer_of


@dataclass(frozen=True)
class IndexArithmetic:
    """An arithmetic op on indices: its form on scalars, and on known numbers."""

    scalar: Callable[[ir.Value, ir.Value], ir.OpView]
    compute: Callable[[np.ndarray, np.ndarray], np.ndarray]


ARITHMETIC = {
    AddOp.OPERATION_NAME: IndexArithmetic(arith.AddIOp, np.add),
    SubOp.OPERATION_NAME: IndexArithmetic(arith.SubIOp, np.subtract),
    MulOp.OPERATION_NAME: IndexArithmetic(arith.MulIOp, np.multiply),
}
"""The ops on scalar tensors, by name."""

_OF_SCALARS = {"arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply}


def index_values(index: ir.Value, number: ir.Value, rounds: np.ndarray) -> np.ndarray | None:
    """Returns the values of an index in the iterations of a loop; None if they are unknown.

    Args:
        index: an index, or a scalar tensor of integers.
        number: the number of the iteration, an argument of the loop's block.
        rounds: the values of `number`.
    """
    if isinstance(index.owner, ir.Block):
        return rounds if index == number else None
    owner = index.owner.operation
    if owner.name in ("tensor.from_elements", "arith.index_cast"):
        return index_values(owner.operands[0], number, rounds)
    constant = defining_op(index, ConstantOp)
    known = integer_of(index) if constant is None else constant.value.reshape(())
    if known is not None:
        return np.broadcast_to(known, rounds.shape)
    compute = ARITHMETIC[owner.name].compute if owner.name in ARITHMETIC else _OF_SCALARS.get(owner.name)
    if compute is None:
        return None
    left, right = (index_values(value, number, rounds) for value in owner.operands)
    return None if left is None or right is None else compute(left, right)
