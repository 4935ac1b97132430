"""The work that a process was doing when it ended: a line of text that a supervisor can still read afterwards.

Small and quick to import, because a supervisor starts before everything else.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable

_NOTE_BYTES = 4096
"""Length in bytes at which a line is cut: a page, the unit in which memory is mapped."""


class SharedNote:
    """A line of text in shared memory that outlives its writer: the work that a child was doing when it ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NOTE_BYTES)

    def __call__(self, text: str) -> None:
        """Stores the work that is about to begin."""
        self._memory[:] = text.encode(errors="replace")[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")

    @property
    def text(self) -> str:
        """The text that was stored last."""
        return self._memory[:].rstrip(b"\0").decode(errors="replace")

    def crash_of(self, status: int) -> str:
        """The signal that ended a child with this wait status, and the work in progress; "" if it did not crash."""
        if not os.WIFSIGNALED(status):
            return ""
        at = self.text
        return f"crashed ({signal_of(status)}){f' in {at}' if at else ''}"


class _Current:
    """The note that this process writes its passes to; None if no supervisor reads it."""

    note: Callable[[str], None] | None = None


def write_notes_to(note: Callable[[str], None]) -> None:
    """Makes `set_note` pass its notes to `note` from now on."""
    _Current.note = note


def set_note(text: str) -> None:
    """Notes the work that is about to begin; "" when it is done."""
    if _Current.note is not None:
        _Current.note(text)


def signal_of(status: int) -> str:
    """The name of the signal in a wait status."""
    return signal.Signals(os.WTERMSIG(status)).name
