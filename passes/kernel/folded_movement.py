"""Movement ops folded into a kernel, which reads or writes the moved tensor in another order instead."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir

from ...dialects.core import Op
from ...dialects.registry import view_of
from ...dialects.stepwell.movement import ReshapeOp, SliceOp, TransposeOp
from ..ir.rewriting import has_one_use
from ..ir.values import shape_of


def views_before(value: ir.Value, is_free: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """The movement ops that make `value` a view of another tensor, the last one first, and have no other reader.

    Args:
        value: value that a kernel reads.
        is_free: whether the kernel may absorb an op.
    """
    chain: list[ir.Operation] = []
    while not isinstance(value.owner, ir.Block) and has_one_use(value):
        op = value.owner.operation
        view = view_of(op)
        if view is None or not can_view(view) or not is_free(op):
            break
        chain.append(op)
        value = op.operands[0]
    return _without_last_reshapes(chain)


def views_after(value: ir.Value, is_free: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """The movement ops on `value` that a kernel can fold into its writes while it keeps rows of its last dimension.

    Args:
        value: value that a kernel computes.
        is_free: whether the kernel may absorb an op.
    """
    chain: list[ir.Operation] = []
    found: list[ir.Operation] = []
    while has_one_use(value):
        op = next(iter(value.uses)).owner.operation
        if not isinstance(view_of(op), TransposeOp | ReshapeOp) or not is_free(op):
            break
        chain.append(op)
        value = op.results[0]
        if _keeps_rows(chain):
            found = list(chain)
    return _without_last_reshapes(found)


def can_view(op: Op) -> bool:
    """Returns whether the result of `op` is always a view of its operand."""
    if isinstance(op, TransposeOp):
        return True
    if isinstance(op, SliceOp):
        return all(step == 1 for step in op.steps)
    return isinstance(op, ReshapeOp) and splits(shape_of(op.input), shape_of(op.result)) is not None


def splits(old: Sequence[int], new: Sequence[int]) -> list[list[int]] | None:
    """For every dimension of `old`, the dimensions of `new` that it is split into; None if dimensions are merged.

    A dimension of size 1 has an empty list, and new ones of size 1 are in no list.
    """
    groups: list[list[int]] = []
    position = 0
    for size in old:
        group: list[int] = []
        while position < len(new) and math.prod(new[item] for item in group) < size:
            if new[position] != 1:
                group.append(position)
            position += 1
        if math.prod(new[item] for item in group) != size:
            return None
        groups.append(group)
    return groups if all(size == 1 for size in new[position:]) else None


def _keeps_rows(chain: Sequence[ir.Operation]) -> bool:
    """Returns whether the first op's operand is a view of the last op's result with the same last dimension."""
    shape = shape_of(chain[-1].results[0])
    axes = list(range(len(shape)))
    rank = len(axes)
    for item in reversed(chain):
        op = view_of(item)
        shape = shape_of(item.operands[0])
        if isinstance(op, TransposeOp):
            axes = [axes[op.permutation.index(axis)] for axis in range(len(shape))]
        elif axes == list(range(rank)):
            axes, rank = list(range(len(shape))), len(shape)
        else:
            return False
    return axes[-1] == rank - 1


def _without_last_reshapes(chain: list[ir.Operation]) -> list[ir.Operation]:
    """Drops trailing reshapes, which are views without any kernel."""
    while chain and chain[-1].name == ReshapeOp.OPERATION_NAME:
        chain.pop()
    return chain
