"""What a process was at when it ended: a line of text that a supervisor can still read then.

Small and quick to import, as a supervisor starts before everything else.
"""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Callable

_NOTE_BYTES = 4096


class SharedNote:
    """A line of text that outlives the process that writes it: what a child was at when it ended."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _NOTE_BYTES)

    def __call__(self, text: str) -> None:
        """Remembers what is about to be done."""
        self._memory[:] = text.encode(errors="replace")[:_NOTE_BYTES].ljust(_NOTE_BYTES, b"\0")

    @property
    def text(self) -> str:
        """What was remembered last."""
        return self._memory[:].rstrip(b"\0").decode(errors="replace")

    def crash_of(self, status: int) -> str:
        """How a child ended, by its wait status: the signal, and what it was at; "" where it was no crash."""
        if not os.WIFSIGNALED(status):
            return ""
        at = self.text
        return f"crashed ({signal_of(status)}){f' in {at}' if at else ''}"


class _Current:
    """Where the passes of this process are noted; None where nobody would read it."""

    note: Callable[[str], None] | None = None


def note_in(note: Callable[[str], None]) -> None:
    """Notes from here on what this process is at."""
    _Current.note = note


def say(text: str) -> None:
    """Notes what is about to be done; "" once it is done."""
    if _Current.note is not None:
        _Current.note(text)


def signal_of(status: int) -> str:
    """The name of the signal in a wait status."""
    return signal.Signals(os.WTERMSIG(status)).name
