"""A compile in a process of its own, for whoever must outlive a crash of native code: see `Options.guarded`.

The command-line tools are in such a process anyway.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..runtime import progress
from .guarded import CompilerCrash, Crash, Lines, Note, guarded
from .note import note_in
from .recorder import Recorder, recording

Made = TypeVar("Made")


def apart(work: Callable[[], Made]) -> Made:
    """What some work gives, done in a child process; what it raises is raised by doing it here.

    Raises:
        CompilerCrash: native code ended the child; another, watched, has left how far it came.
    """

    def once(note: Note) -> bytes:
        note_in(note)
        return pickle.dumps(work(), pickle.HIGHEST_PROTOCOL)

    try:
        data = guarded(once, is_loud=True, lines=_events())
    except Crash as crash:
        raise _watched(work, crash) from None
    return work() if data is None else pickle.loads(data)


def _events() -> Lines | None:
    """The events of the compile at hand, which the child writes and the parent tells; None if nothing listens."""
    told = progress.current()
    return Lines(progress.written_to, told.retell) if told is not None and told.is_heard else None


def _watched(work: Callable[[], object], crash: Crash) -> CompilerCrash:
    """The error of a crash, after the work was done again in view of a recorder."""
    folder = Path(tempfile.mkdtemp(prefix="stepwell-"))

    def again(note: Note) -> bytes:
        note_in(note)
        with recording(Recorder(folder)):
            work()
        return b""

    try:
        guarded(again)
    except Crash as seen:
        return CompilerCrash(str(seen), seen.signal_name, folder)
    shutil.rmtree(folder, ignore_errors=True)  # it needs more than that to crash
    return CompilerCrash(str(crash), crash.signal_name)
