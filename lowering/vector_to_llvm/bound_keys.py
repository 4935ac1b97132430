"""Ends an attention's loops over keys at the number of keys of a call."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from ...passes.infra.base import PassError
from ...passes.ir.rewriting import walk
from ...passes.ir.values import constant_index
from .positions import WRITES, linear_of, loop_of, positions, root_of

_MEMREF_OPERANDS = {**WRITES, "memref.load": 0, "vector.load": 0, "vector.transfer_read": 0}


def is_along_keys(root: ir.Value, count: int) -> bool:
    """Returns whether a kernel's own buffer is [.., keys, 1, ..], which distinguishes keys from queries and depth."""
    return not isinstance(root.owner, ir.Block) and list(ir.MemRefType(root.type).shape)[-3:-1] == [count, 1]


def bound_keys(kernel: ir.Operation, count: int, most: ir.Value) -> None:
    """Bounds all loops over keys, which are those over the scores, [.., keys, 1, queries].

    Args:
        kernel: the attention.
        count: maximum number of keys.
        most: number of keys at run time.

    Raises:
        PassError: scores are read or written outside of such loops, so that some would be undefined.
    """
    found: dict[int, tuple[ir.Operation, int]] = {}
    for op in walk(kernel):
        operand = _MEMREF_OPERANDS.get(op.name)
        if operand is None:
            continue
        root = root_of(op.operands[operand])
        if not is_along_keys(root, count):
            continue
        axis = ir.MemRefType(root.type).rank - 3
        rank = ir.MemRefType(op.operands[operand].type).rank
        indices = [linear_of(value) for value in list(op.operands)[operand + 1 : operand + 1 + rank]]
        where = positions(op.operands[operand], indices, root)
        along = next((position for position in where or () if position.dims == (axis,)), None)
        loop = None if along is None else loop_of(along.index)
        if loop is None:
            raise PassError("an attention accesses scores outside of its loops over keys", op.location)
        found[hash(loop[0].regions[0].blocks[0].arguments[0])] = loop
    for loop, factor in found.values():
        with loop.location, ir.InsertionPoint(loop):
            rounds = most if factor == 1 else arith.CeilDivSIOp(most, constant_index(factor)).result
            loop.operands[1] = arith.MinSIOp(loop.operands[1], rounds).result
