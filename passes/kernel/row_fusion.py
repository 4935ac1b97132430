"""Fuses several reductions of the same rows into one kernel, for example a norm written op by op.

If sizes vary, norms are decomposed into sums that skip padding. In one kernel each row stays in the cache for all of
them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from ...dialects.registry import view_of
from ...dialects.specs import size_of
from ...dialects.stepwell.elementwise import AddOp, MulOp, SubOp
from ..ir.kernel_classes import WITH_EPILOGUES, kernel_class
from ..ir.values import shape_of
from .masks import REDUCTIONS

# Maximum number of ops in a kernel.
_MOST_OPS = 32
# Minimum number of rows: with fewer, threads would be idle.
_FEWEST_ROWS = 8
_REPEATED = (AddOp.OPERATION_NAME, SubOp.OPERATION_NAME, MulOp.OPERATION_NAME)


@dataclass(frozen=True)
class _Rows:
    """The rows that are reduced: shape of the operand, shape of a reduction's result, and element type of both.

    `row_bytes` bounds the size of a row.
    """

    shape: Sequence[int]
    reduced: Sequence[int]
    element: ir.Type
    row_bytes: int

    @staticmethod
    def of(op: ir.Operation, row_bytes: int) -> _Rows | None:
        """The rows of a reduction over all its last dimensions, of at most `row_bytes`; None if there are none."""
        view = view_of(op)
        if not isinstance(view, REDUCTIONS) or not view.keepdims:
            return None
        shape, reduced = shape_of(op.operands[0]), shape_of(op.results[0])
        axes = sorted(axis % len(shape) for axis in view.axes)
        kind = ir.RankedTensorType(op.operands[0].type).element_type
        if not axes or axes != list(range(axes[0], len(shape))) or not isinstance(kind, ir.F32Type | ir.F64Type):
            return None
        row = math.prod(shape[axes[0] :])
        if row == 1 or row * kind.width // 8 > row_bytes or math.prod(shape[: axes[0]]) < _FEWEST_ROWS:
            return None
        return _Rows(shape, reduced, kind, row_bytes)

    def has(self, op: ir.Operation) -> bool:
        """Returns whether an op works row by row: elementwise on rows or on reduced values, or a reduction of rows."""
        kinds = {ir.RankedTensorType(value.type).element_type for value in [*op.operands, *op.results]}
        if kinds != {self.element}:
            return False
        if kernel_class(op) == "elementwise":
            return shape_of(op.results[0]) in (self.shape, self.reduced)
        return _Rows.of(op, self.row_bytes) == self


def rows_group(
    anchor: ir.Operation,
    feeders: Sequence[ir.Operation],
    users: Callable[[ir.Operation], list[int]],
    free: Callable[[int], ir.Operation | None],
    row_bytes: int,
) -> list[ir.Operation] | None:
    """A reduction of rows with its consumers, up to one value of the same rows; None if there is no such value.

    Args:
        anchor: the reduction.
        feeders: elementwise ops that compute its operand.
        users: returns the positions of an op's users in the block.
        free: returns the op at a position; None if it is already in a kernel.
        row_bytes: maximum bytes of a row; its reads and writes must fit into the cache of one core.
    """
    rows = _Rows.of(anchor, row_bytes)
    if rows is None:
        return None
    group, best = [*feeders, anchor], None
    heap = users(anchor)
    while heap and len(group) < _MOST_OPS:
        op = free(heapq.heappop(heap))
        if op is None:
            break
        if op in group:
            continue
        if not rows.has(op):
            break
        group.append(op)
        heap = list(heapq.merge(heap, users(op)))
        if shape_of(op.results[0]) == rows.shape and _has_one_escape(group):
            best = list(group)
    return best


def _has_one_escape(group: Sequence[ir.Operation]) -> bool:
    inside = set(group)
    return all(use.owner.operation in inside for op in group[:-1] for result in op.results for use in result.uses)


def repeat_cheap(block: ir.Block) -> None:
    """Clones a cheap op for every reader if it reads one large operand and otherwise only small ones.

    A kernel that reduces the value and one that uses it otherwise then need not store it in memory. An op that can be
    part of the epilogue of a product is not cloned: the product's kernel stores a value of that size anyway.

        %1 = sub(%x, %mean)                      %1 = sub(%x, %mean)
        %2 = reduce_sum(mul(%1, %1))     -->     %2 = reduce_sum(mul(%1, %1))
        %3 = mul(%1, %factor)                    %4 = sub(%x, %mean)
                                                 %3 = mul(%4, %factor)
    """
    for op in reversed([op.operation for op in block.operations]):
        if op.name not in _REPEATED or not _is_cheap(op) or _is_epilogue(op):
            continue
        uses = list(op.results[0].uses)
        readers = list(dict.fromkeys(use.owner.operation for use in uses))
        if any(kernel_class(reader) not in ("elementwise", "reduction") for reader in readers):
            continue
        for reader in readers[1:]:
            with ir.InsertionPoint(op):
                copy = op.clone()
            for index, value in enumerate(reader.operands):
                if value == op.results[0]:
                    reader.operands[index] = copy.results[0]


def _is_cheap(op: ir.Operation) -> bool:
    size, large = size_of(op.results[0]), _large(op)
    return len(large) == 1 and all(size_of(value) * 8 <= size for value in op.operands if value not in large)


def _is_epilogue(op: ir.Operation) -> bool:
    """Returns whether only elementwise ops lead from a product to an op, and nothing else reads their operands."""
    while True:
        large = _large(op)
        if len(large) != 1 or len(list(large[0].uses)) != 1 or isinstance(large[0].owner, ir.Block):
            return False
        op = large[0].owner.operation
        if kernel_class(op) != "elementwise":
            return kernel_class(op) in WITH_EPILOGUES


def _large(op: ir.Operation) -> list[ir.Value]:
    """Returns the operands of an elementwise op that are as large as its result."""
    size = size_of(op.results[0])
    return [value for value in op.operands if size_of(value) == size]
