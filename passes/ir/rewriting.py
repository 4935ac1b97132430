"""Rewrite patterns on the stepwell dialect, and the driver that applies them to a fixed point.

    class FoldTransposePair(Pattern[TransposeOp]):
        \"\"\"transpose(transpose(x, p), q) --> transpose(x, p[q])\"\"\"

        root = TransposeOp

        def rewrite(self, op: TransposeOp) -> Replacement:
            inner = defining_op(op.input, TransposeOp)
            if inner is None:
                return None
            ...
            return TransposeOp(inner.input, permutation=...).result

The insertion point is before `op` and the location is that of `op`. A pattern only adds ops; the driver erases `op` and
all ops that became dead. The returned values must have the types of the results they replace.
Upstream's greedy driver is unsuitable: IRDL ops have no traits, so it cannot erase dead ones, and it has no refusals
with reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from mlir import ir

from ...dialects.core import Op
from ...dialects.registry import OPS
from ...runtime.remarks import ABSORBED, REWRITTEN, UNREAD
from ...sizes.algebra import UndecidedError
from ..infra.state import CompileState
from .locations import inherit, left_unread, names_in

AnyOp = TypeVar("AnyOp", bound=Op)


@dataclass(frozen=True)
class Refusal:
    """A pattern matched the kind of an op but did not rewrite it, for this reason."""

    reason: str


Replacement = ir.Value | Sequence[ir.Value] | Refusal | None


class Pattern(Generic[AnyOp]):
    """One rewrite: the docstring shows `before --> after`; `root` is the op class (or classes) that it starts from."""

    root: ClassVar[type[Op] | tuple[type[Op], ...]]

    def rewrite(self, op: AnyOp) -> Replacement:
        """The values that replace the results of `op`; None for no match, a Refusal for a near match."""
        raise NotImplementedError(type(self).__name__)


def defining_op(value: ir.Value | None, kind: type[AnyOp]) -> AnyOp | None:
    """The op that defines `value`, if it is of the class `kind`."""
    owner = None if value is None else value.owner
    if owner is None or isinstance(owner, ir.Block) or owner.name != kind.OPERATION_NAME:
        return None
    return kind.of(owner.operation)


def has_one_use(value: ir.Value) -> bool:
    """Returns whether exactly one operand reads `value`."""
    uses = iter(value.uses)
    return next(uses, None) is not None and next(uses, None) is None


def identity(op: ir.Operation | ir.OpView) -> int:
    """A number that identifies an op with results among all existing ops.

    MLIR hashes an operation by its contents, which can change and which equal operations share, but a value by its
    address.
    """
    return hash(op.operation.results[0])


def walk(op: ir.Operation | ir.OpView) -> Iterator[ir.Operation]:
    """Every operation inside `op` in program order, outer before inner; the caller may erase the current one."""
    levels = [_directly_inside(op.operation)]
    while levels:
        inner = next(levels[-1], None)
        if inner is None:
            levels.pop()
            continue
        # Read before the yield, because the caller may erase the op.
        has_regions = len(inner.regions) > 0
        yield inner
        if has_regions:
            levels.append(_directly_inside(inner))


def _directly_inside(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region:
            yield from [item.operation for item in block.operations]


def find_ops(root: ir.Operation | ir.OpView, wanted: Callable[[ir.Operation], bool]) -> list[ir.Operation]:
    """The operations inside `root` that are `wanted`, in program order; takes half the time of `walk`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if wanted(op) and op != own:
            found.append(op)
        return ir.WalkResult.ADVANCE

    own = root.operation
    own.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def find_op(root: ir.Operation | ir.OpView, wanted: Callable[[ir.Operation], bool]) -> ir.Operation | None:
    """The first operation inside `root` that is `wanted`; takes a third of the time of `walk`."""
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not wanted(op) or op == own:
            return ir.WalkResult.ADVANCE
        found.append(op)
        return ir.WalkResult.INTERRUPT

    own = root.operation
    own.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[0] if found else None


def erase_dead_ops(root: ir.Operation | ir.OpView, state: CompileState) -> int:
    """Erases the stepwell ops (all pure) whose results are unused; returns their number."""
    erased = 0
    for op in reversed(list(walk(root))):
        if op.name in OPS and not _is_read(op):
            note_unread(op, state)
            op.erase()
            erased += 1
    return erased


def apply_patterns(
    root: ir.Operation | ir.OpView, patterns: Sequence[Pattern], state: CompileState, max_sweeps: int = 16
) -> None:
    """Applies `patterns` to all ops inside `root` until none matches, and erases the ops that became dead.

    Each rewrite, and each refusal of the last sweep, becomes a remark in `state`.

    Raises:
        RuntimeError: the patterns undo each other and never reach a fixed point.
    """
    driver = _Driver(patterns, state)
    for _ in range(max_sweeps):
        if not driver.sweep(root):
            driver.note_refusals()
            return
    raise driver.endless()


def note_unread(op: ir.Operation, state: CompileState) -> None:
    """Adds the remark that an op is about to be erased because nothing reads it."""
    state.passed("Erase", names_in(op.location), "nothing reads it", how=UNREAD)


def names_of_makers(values: Sequence[ir.Value]) -> tuple[str, ...]:
    """The names of the model's nodes in the locations of the ops that define the values, each once."""
    makers = (value.owner for value in values if not isinstance(value.owner, ir.Block))
    return tuple(dict.fromkeys(name for maker in makers for name in names_in(maker.location)))


class _Driver:
    """A worklist in program order; ops affected by a rewrite are visited again before the rest."""

    def __init__(self, patterns: Sequence[Pattern], state: CompileState) -> None:
        self._patterns, self._state, self._limit = patterns, state, state.limit
        self._fitting: dict[str, list[Pattern]] = {}
        self._refused: list[tuple[str, ir.Location, str]] = []
        self._stack: list[int] = []
        self._pending: dict[int, ir.Operation] = {}
        self._known: set[int] = set()
        self._recent: deque[str] = deque(maxlen=8)
        # Key: identity of an op that a rewrite may have left without readers. Value: that rewrite.
        self._causes: dict[int, tuple[str, ir.Location]] = {}

    def sweep(self, root: ir.Operation | ir.OpView) -> int:
        """Visits every operation inside `root`, and again those a change affected; returns the number of rewrites."""
        self._refused = []
        operations = find_ops(root, lambda op: op.name in OPS)
        identities = list(map(identity, operations))
        self._known = set(identities)
        self._pending = dict(zip(identities, operations, strict=True))
        self._stack = identities[::-1]
        budget, rewrites = 16 * len(operations) + 1024, 0
        while self._stack:
            op = self._pending.pop(self._stack.pop(), None)
            rewrites += op is not None and self._visit(op)
            if rewrites > budget:
                raise self.endless()
        return rewrites

    def _rooted_at(self, name: str) -> list[Pattern]:
        """The patterns that may match an op of this name."""
        if name not in self._fitting:
            cls = OPS[name]
            self._fitting[name] = [pattern for pattern in self._patterns if issubclass(cls, pattern.root)]
        return self._fitting[name]

    def endless(self) -> RuntimeError:
        """The error that the patterns reach no fixed point; it names the last patterns that matched."""
        return RuntimeError(f"the patterns reach no fixed point; the last ones that matched: {', '.join(self._recent)}")

    def _visit(self, op: ir.Operation) -> bool:
        if not _is_read(op):
            cause = self._causes.get(identity(op))
            if cause is None:
                note_unread(op, self._state)
            else:
                self._note_rewrite(op, ABSORBED, cause[0], tuple(names_in(cause[1])))
            self._erase(op, cause)
            return False
        patterns = self._rooted_at(op.name)
        if not patterns or (self._limit is not None and len(self._limit.done) >= self._limit.most):
            return False
        with op.location, ir.InsertionPoint(op):
            fitting = self._fitting_pattern(op, patterns)
            if fitting is None:
                return False
            name, values = fitting
            self._recent.append(name)
            if self._limit is not None:
                self._limit.done.append((name, op.location))
            self._replace(op, values, name)
        return True

    def _fitting_pattern(self, op: ir.Operation, patterns: Sequence[Pattern]) -> tuple[str, Sequence[ir.Value]] | None:
        """The name of the first pattern that matches `op`, and the values that replace the results."""
        view = OPS[op.name].of(op)
        try:
            for pattern in patterns:
                outcome = self._rewritten(pattern, view)
                values = None if outcome is None else self._accepted(op, pattern, outcome)
                if values is not None:
                    return type(pattern).__name__, values
        except Exception as error:
            # A bug in the pattern: the error report needs the location of the op.
            vars(error).setdefault("location", op.location)
            raise
        return None

    def _rewritten(self, pattern: Pattern, view: Op) -> Replacement:
        try:
            return pattern.rewrite(view)
        except UndecidedError as error:
            return Refusal(str(error))

    def _accepted(
        self, op: ir.Operation, pattern: Pattern, outcome: ir.Value | Sequence[ir.Value] | Refusal
    ) -> Sequence[ir.Value] | None:
        if isinstance(outcome, Refusal):
            self._refused.append((type(pattern).__name__, op.location, outcome.reason))
            return None
        values = [outcome] if isinstance(outcome, ir.Value) else outcome
        for old, new in zip(op.results, values, strict=True):
            if old.type != new.type:
                self._push_new(new)
                reason = f"the result would change its type from {old.type} to {new.type}"
                self._refused.append((type(pattern).__name__, op.location, reason))
                return None
        return values

    def note_refusals(self) -> None:
        """Adds remarks for the refusals of the last sweep."""
        for pattern, location, reason in self._refused:
            self._state.missed(pattern, names_in(location), reason)

    def _note_rewrite(self, op: ir.Operation, how: str, pattern: str, into: tuple[str, ...]) -> None:
        """Adds a remark for an op that a rewrite is about to erase."""
        names = names_in(op.location)
        others = tuple(name for name in into if name not in names)
        if others:
            self._state.passed(pattern, names, f"{how} into {', '.join(others)}", how=how, into=others)
        else:
            self._state.passed(pattern, names, how, how=how)

    def _replace(self, op: ir.Operation, values: Sequence[ir.Value], pattern: str) -> None:
        users = [use.owner.operation for result in op.results for use in result.uses]
        for old, new in zip(op.results, values, strict=True):
            old.replace_all_uses_with(new)
        fresh = self._fresh(values)
        inherit(fresh, [op, *left_unread(op)])
        named = {name for made in fresh for name in names_in(made.location)}
        how = ABSORBED if named and named.isdisjoint(names_in(op.location)) else REWRITTEN
        self._note_rewrite(op, how, pattern, names_of_makers(values))
        self._erase(op, (pattern, op.location))
        for value in values:
            self._push_new(value)
        # Pushed last, so visited first: a user may undo the new ops before other patterns build on them.
        for user in users:
            self._push(user)

    def _fresh(self, values: Sequence[ir.Value]) -> list[ir.Operation]:
        """The ops that a rewrite made to compute `values`."""
        found: dict[int, ir.Operation] = {}
        pending = list(values)
        while pending:
            owner = pending.pop().owner
            if isinstance(owner, ir.Block):
                continue
            key = identity(owner.operation)
            if key not in self._known and key not in found:
                found[key] = owner.operation
                pending.extend(owner.operands)
        return list(found.values())

    def _push_new(self, value: ir.Value) -> None:
        if isinstance(value.owner, ir.Block):
            return
        owner = value.owner.operation
        key = identity(owner)
        if key in self._known:
            return
        self._known.add(key)
        self._push(owner)
        for operand in owner.operands:
            self._push_new(operand)

    def _push(self, op: ir.Operation) -> None:
        key = identity(op) if op.name in OPS else None
        if key is not None and key not in self._pending:
            self._pending[key] = op
            self._stack.append(key)

    def _erase(self, op: ir.Operation, cause: tuple[str, ir.Location] | None) -> None:
        makers = [value.owner for value in op.operands]
        self._known.discard(identity(op))
        self._pending.pop(identity(op), None)
        op.erase()
        for maker in makers:
            if not isinstance(maker, ir.Block):
                self._push(maker.operation)
                if cause is not None:
                    self._causes[identity(maker)] = cause


def _is_read(op: ir.Operation) -> bool:
    for result in op.results:
        for _ in result.uses:
            return True
    return False


def replace_op(operation: ir.Operation, values: Sequence[ir.Value]) -> None:
    """Makes every reader of `operation` read `values` instead, and erases it."""
    for old, new in zip(operation.results, values, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
