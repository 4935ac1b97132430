"""What compiling for ranges of sizes needs of those who build graphs: that they are the same at every size."""

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
    """While it is entered, what is computed from ranges, and from tensors filled with a number, does not get folded."""
    token = _kept.set(set())
    try:
        yield
    finally:
        _kept.reset(token)


def may_fold(op: Op) -> bool:
    """Whether what an op makes of constants may become a constant; what uses its results is to ask for itself."""
    kept = _kept.get()
    if kept is None or kept.isdisjoint(op.operation.operands):
        return True
    kept.update(op.operation.results)
    return False


def may_share(op: ir.Operation) -> bool:
    """Whether an op that does what another does may go: ranges may be the same at some sizes, and not at others."""
    kept = _kept.get()
    return kept is None or kept.isdisjoint(op.results)


def note_folded(op: Op, values: list[ir.Value]) -> None:
    """Notes the constants that have taken the place of an op's results."""
    kept = _kept.get()
    if kept is not None and _is_range(op):
        kept.update(values)


def _is_range(op: Op) -> bool:
    """Whether an op makes a tensor that is no list of extents, however large, of few numbers."""
    if isinstance(op, RangeOp):
        return True
    if not isinstance(op, FillOp | BroadcastToOp | DynamicBroadcastToOp):
        return False
    kind = ir.RankedTensorType(op.operation.results[0].type)
    return kind.rank > 1 or (kind.rank == 1 and isinstance(kind.element_type, ir.FloatType))
