"""Prevents folding that would make graphs differ between sizes, as compiling for ranges of sizes requires.

The mode is an attribute of the module, and what must not be folded is marked in the IR, so that importers and passes
read both from the ops that they work on.
"""

from __future__ import annotations

from mlir import ir

from ..core import Op
from ..discardable import KEEPS_RANGES, OF_RANGE
from .movement import BroadcastToOp, DynamicBroadcastToOp
from .shape import FillOp, RangeOp


def keep_ranges(module: ir.Module) -> None:
    """Makes a module keep what is computed from ranges from now on."""
    KEEPS_RANGES.write(module.operation, True)


def release_ranges(module: ir.Module) -> None:
    """Removes the mode and its marks from a module."""

    def release(op: ir.Operation) -> ir.WalkResult:
        OF_RANGE.remove(op)
        return ir.WalkResult.ADVANCE

    if KEEPS_RANGES.is_on(module.operation):
        KEEPS_RANGES.remove(module.operation)
        module.operation.walk(release, ir.WalkOrder.POST_ORDER)


def may_fold(op: Op) -> bool:
    """Returns whether an op on constants may be folded; if not, marks it, so that its users stay too."""
    if all(may_share(value.owner) for value in op.operation.operands if not isinstance(value.owner, ir.Block)):
        return True
    OF_RANGE.write(op.operation, True)
    return False


def may_share(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether an op may be merged with an equal one: ranges may be equal at some sizes but not at others."""
    return not OF_RANGE.is_on(op.operation)


def note_folded(op: Op, values: list[ir.Value]) -> None:
    """Marks the constants that replace an op's results, if they must not be folded further."""
    if _is_range(op) and KEEPS_RANGES.is_on(_module_of(op.operation)):
        for value in values:
            OF_RANGE.write(value.owner.operation, True)


def _module_of(op: ir.Operation) -> ir.Operation:
    while op.parent is not None:
        op = op.parent.operation
    return op


def _is_range(op: Op) -> bool:
    """Returns whether an op makes a tensor of any size from a few numbers; lists of extents (1-D integers) excluded."""
    if isinstance(op, RangeOp):
        return True
    if not isinstance(op, FillOp | BroadcastToOp | DynamicBroadcastToOp):
        return False
    kind = ir.RankedTensorType(op.operation.results[0].type)
    return kind.rank > 1 or (kind.rank == 1 and isinstance(kind.element_type, ir.FloatType))
