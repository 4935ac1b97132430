"""Prevents folding that would make graphs differ between sizes, as compiling for ranges of sizes requires.

The mode is an attribute of the module, and what must not be folded is marked in the IR, so that importers and passes
read both from the ops that they work on.
"""

from __future__ import annotations

from mlir import ir

from ..core import Op
from .movement import BroadcastToOp, DynamicBroadcastToOp
from .shape import FillOp, RangeOp

KEEPS_RANGES = "stepwell.keeps_ranges"
"""Attribute of modules in which values computed from ranges, or from tensors filled with one number, are not folded."""

_OF_RANGE = "stepwell.of_range"
"""Attribute of the ops in such a module whose results are computed from ranges."""


def keep_ranges(module: ir.Module) -> None:
    """Makes a module keep what is computed from ranges from now on."""
    module.operation.attributes[KEEPS_RANGES] = ir.UnitAttr.get(module.context)


def release_ranges(module: ir.Module) -> None:
    """Removes the mode and its marks from a module."""

    def release(op: ir.Operation) -> ir.WalkResult:
        if _OF_RANGE in op.attributes:
            del op.attributes[_OF_RANGE]
        return ir.WalkResult.ADVANCE

    if KEEPS_RANGES in module.operation.attributes:
        del module.operation.attributes[KEEPS_RANGES]
        module.operation.walk(release, ir.WalkOrder.POST_ORDER)


def may_fold(op: Op) -> bool:
    """Returns whether an op on constants may be folded; if not, marks it, so that its users stay too."""
    if all(may_share(value.owner) for value in op.operation.operands if not isinstance(value.owner, ir.Block)):
        return True
    _mark(op.operation)
    return False


def may_share(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether an op may be merged with an equal one: ranges may be equal at some sizes but not at others."""
    return _OF_RANGE not in op.operation.attributes


def note_folded(op: Op, values: list[ir.Value]) -> None:
    """Marks the constants that replace an op's results, if they must not be folded further."""
    if _is_range(op) and KEEPS_RANGES in _module_of(op.operation).attributes:
        for value in values:
            _mark(value.owner)


def _mark(op: ir.Operation | ir.OpView) -> None:
    op.operation.attributes[_OF_RANGE] = ir.UnitAttr.get(op.operation.context)


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
