"""Prevents folding that would make graphs differ between sizes, as compiling for ranges of sizes requires."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from mlir import ir

from ..core import Op
from .movement import BroadcastToOp, DynamicBroadcastToOp
from .shape import FillOp, RangeOp

_kept: ContextVar[set[ir.Value] | None] = ContextVar("kept", default=None)


@contextmanager
def keep_ranges() -> Iterator[None]:
    """Context in which values computed from ranges, or from tensors filled with one number, are not folded."""
    token = _kept.set(set())
    try:
        yield
    finally:
        _kept.reset(token)


def may_fold(op: Op) -> bool:
    """Returns whether an op on constants may be folded; if not, marks its results so that their users stay too."""
    kept = _kept.get()
    if kept is None or kept.isdisjoint(op.operation.operands):
        return True
    kept.update(op.operation.results)
    return False


def may_share(op: ir.Operation) -> bool:
    """Returns whether an op may be merged with an equal one: ranges may be equal at some sizes but not at others."""
    kept = _kept.get()
    return kept is None or kept.isdisjoint(op.results)


def note_folded(op: Op, values: list[ir.Value]) -> None:
    """Records the constants that replace an op's results."""
    kept = _kept.get()
    if kept is not None and _is_range(op):
        kept.update(values)


def _is_range(op: Op) -> bool:
    """Returns whether an op makes a tensor of any size from a few numbers; lists of extents (1-D integers) excluded."""
    if isinstance(op, RangeOp):
        return True
    if not isinstance(op, FillOp | BroadcastToOp | DynamicBroadcastToOp):
        return False
    kind = ir.RankedTensorType(op.operation.results[0].type)
    return kind.rank > 1 or (kind.rank == 1 and isinstance(kind.element_type, ir.FloatType))
