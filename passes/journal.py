"""What became of the model's ops on their way to kernels, noted by whoever takes one away: for the report.

Noting costs a tuple. What the notes mean is worked out once, when all is known (`driver/facts.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from mlir import ir


@dataclass(frozen=True)
class End:
    """An op that went.

    Attributes:
        location: the op's.
        how: "rewritten" by a pattern that started from it, "absorbed" as only such an op read it, "folded" to a
            constant, "shared" with an equal op, "unread".
        by: the pattern or pass.
        into: the locations of what took its place.
    """

    location: ir.Location
    how: str
    by: str
    into: Sequence[ir.Location] = ()


@dataclass(frozen=True)
class Apart:
    """Two ops, of which the second reads the first, that were not put into one kernel, and why."""

    maker: ir.Location
    reader: ir.Location
    reason: str


@dataclass(frozen=True)
class Refused:
    """A refusal of a pattern, with the location of the op that it looked at."""

    pattern: str
    location: ir.Location
    reason: str


@dataclass
class Journal:
    """What was noted in one compile, in the order in which it happened."""

    ends: list[End] = field(default_factory=list)
    apart: list[Apart] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)


@contextmanager
def journal() -> Iterator[Journal]:
    """A journal that is kept while this is entered."""
    kept = Journal()
    token = _journal.set(kept)
    try:
        yield kept
    finally:
        _journal.reset(token)


def current() -> Journal | None:
    """The journal that is being kept, if one is."""
    return _journal.get()


def note_end(op: ir.Operation, how: str, by: str, into: Sequence[ir.Location] = ()) -> None:
    """Notes that an op is about to be erased; see `End`."""
    kept = _journal.get()
    if kept is not None:
        kept.ends.append(End(op.location, how, by, into))


def makers_of(values: Sequence[ir.Value]) -> list[ir.Location]:
    """The locations of the ops that make values."""
    return [value.owner.location for value in values if not isinstance(value.owner, ir.Block)]
