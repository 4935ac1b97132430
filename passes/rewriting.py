"""Rewrite patterns over the stepwell dialect, and the driver that applies them until nothing changes.

    class FoldTransposePair(Pattern[TransposeOp]):
        \"\"\"transpose(transpose(x, p), q) --> transpose(x, p[q])\"\"\"

        root = TransposeOp

        def rewrite(self, op: TransposeOp) -> Replacement:
            inner = defining_op(op.input, TransposeOp)
            if inner is None:
                return None
            ...
            return TransposeOp(inner.input, permutation=...).result

The insertion point is before `op` and the location is that of `op`.
Upstream's greedy driver does not serve here: IRDL ops have no traits, so it can neither drop dead ones nor explain a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from mlir import ir

from ..dialects.core import Op
from ..dialects.stepwell import STEPWELL

O = TypeVar("O", bound=Op)


@dataclass(frozen=True)
class Refusal:
    """A pattern looked at an op that it is meant for and did not rewrite it, for this reason."""

    reason: str


Replacement = ir.Value | Sequence[ir.Value] | Refusal | None


class Pattern(Generic[O]):
    """One rewrite: the docstring shows `before --> after`, `root` is the op class it starts from."""

    root: ClassVar[type[Op]]

    def rewrite(self, op: O) -> Replacement:
        """The values that replace the results of `op`; None where the pattern does not fit; a Refusal where it might have."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class Refused:
    """A refusal with where it came from: for the optimisation report."""

    pattern: str
    location: str
    reason: str


def defining_op(value: ir.Value | None, kind: type[O]) -> O | None:
    """The op that makes `value`, if it is of the class `kind`."""
    if value is None or isinstance(value.owner, ir.Block) or value.owner.name != kind.OPERATION_NAME:
        return None
    return kind(value.owner)


def has_one_use(value: ir.Value) -> bool:
    """Whether exactly one operand reads `value`."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Every operation inside `op`, outer before inner, in program order; safe against erasure of the one at hand."""
    for region in op.operation.regions:
        for block in region:
            for inner in list(block.operations):
                yield inner.operation
                yield from walk(inner)


def erase_dead_ops(root: ir.Operation) -> int:
    """Erases the stepwell ops (all pure) whose results nobody reads; returns how many."""
    erased = 0
    for op in reversed(list(walk(root))):
        if op.name in STEPWELL.ops and not any(True for result in op.results for _ in result.uses):
            op.erase()
            erased += 1
    return erased


def apply_patterns(root: ir.Operation, patterns: Sequence[Pattern], max_sweeps: int = 32) -> list[Refused]:
    """Applies `patterns` to everything inside `root` until no pattern fits, and drops what became dead.

    Returns:
        The refusals of the last sweep.

    Raises:
        RuntimeError: the patterns undo each other and do not come to an end.
    """
    by_root: dict[str, list[Pattern]] = {}
    for pattern in patterns:
        by_root.setdefault(pattern.root.OPERATION_NAME, []).append(pattern)
    for _ in range(max_sweeps):
        refused: list[Refused] = []
        changed = [_rewrite_one(op, by_root.get(op.name, ()), refused) for op in walk(root)]
        erase_dead_ops(root)
        if not any(changed):
            return refused
    names = ", ".join(type(pattern).__name__ for pattern in patterns)
    raise RuntimeError(f"no fixed point after {max_sweeps} sweeps of: {names}")


def _rewrite_one(operation: ir.Operation, patterns: Sequence[Pattern], refused: list[Refused]) -> bool:
    for pattern in patterns:
        view = STEPWELL.view(operation)
        assert view is not None
        with operation.location, ir.InsertionPoint(operation):
            outcome = pattern.rewrite(view)
        if isinstance(outcome, Refusal):
            refused.append(Refused(type(pattern).__name__, str(operation.location), outcome.reason))
        elif outcome is not None:
            replace_op(operation, [outcome] if isinstance(outcome, ir.Value) else outcome)
            return True
    return False


def replace_op(operation: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Makes every reader of `operation` read `values`, and erases it."""
    for old, new in zip(operation.results, values, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


