"""Record of the fate of the model's ops during lowering, for the optimisation report.

Each rewrite or pass that removes an op adds an entry, which costs one tuple. `driver/facts.py` interprets the entries
once, at the end of the compile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from mlir import ir


@dataclass(frozen=True)
class OpRemoval:
    """The removal of an op.

    Attributes:
        location: location of the op.
        how: "rewritten" by a pattern rooted at it, "absorbed" if only such an op read it, "folded" to a constant,
            "shared" with an equal op, "unread".
        by: the pattern or pass.
        into: locations of the ops that replaced it.
    """

    location: ir.Location
    how: str
    by: str
    into: Sequence[ir.Location] = ()


@dataclass(frozen=True)
class UnfusedPair:
    """Two ops that were not fused into one kernel although the second reads the first, and the reason."""

    maker: ir.Location
    reader: ir.Location
    reason: str


@dataclass(frozen=True)
class RefusedRewrite:
    """A pattern's refusal to rewrite, with the location of the op that it examined."""

    pattern: str
    location: ir.Location
    reason: str


@dataclass
class Journal:
    """The entries of one compile in chronological order."""

    removals: list[OpRemoval] = field(default_factory=list)
    unfused: list[UnfusedPair] = field(default_factory=list)
    refused: list[RefusedRewrite] = field(default_factory=list)


_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)


@contextmanager
def journal() -> Iterator[Journal]:
    """Keeps a new journal inside the block and yields it."""
    kept = Journal()
    token = _journal.set(kept)
    try:
        yield kept
    finally:
        _journal.reset(token)


def current() -> Journal | None:
    """The journal that is being kept; None if there is none."""
    return _journal.get()


def note_removal(op: ir.Operation, how: str, by: str, into: Sequence[ir.Location] = ()) -> None:
    """Notes that an op is about to be erased; see `OpRemoval`."""
    kept = _journal.get()
    if kept is not None:
        kept.removals.append(OpRemoval(op.location, how, by, into))


def makers_of(values: Sequence[ir.Value]) -> list[ir.Location]:
    """The locations of the ops that define the values."""
    return [value.owner.location for value in values if not isinstance(value.owner, ir.Block)]
