"""Runs a compile in a child process, so that the caller survives a crash of native code: see `Options.guarded`.

The command-line tools already run in such a process.
"""

from __future__ import annotations

import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ..passes.infra.guarded import CompilerCrash, Crash, Lines, Note, guarded
from ..passes.infra.progress_note import write_notes_to
from ..runtime.progress.progress import CompileReporter
from .failure_recorder import FailureRecorder

Made = TypeVar("Made")


_Work = Callable[[FailureRecorder | None], Made]
"""A compile, which may be recorded."""


def in_child_process(work: _Work[Made], reporter: CompileReporter | None = None) -> Made:
    """Returns the result of `work`, computed in a child process.

    If the child raises an exception, `work` runs again in this process and raises it here.

    Args:
        work: the compile.
        reporter: what the compile reports its progress to.

    Raises:
        CompilerCrash: native code ended the child. A second, recorded run has stored its progress in a folder.
    """

    def once(note: Note) -> bytes:
        write_notes_to(note)
        return pickle.dumps(work(None), pickle.HIGHEST_PROTOCOL)

    try:
        data = guarded(once, is_loud=True, lines=_events(reporter))
    except Crash as crash:
        raise _recorded_crash(work, crash, reporter) from None
    return work(None) if data is None else pickle.loads(data)


def _events(reporter: CompileReporter | None) -> Lines | None:
    """Progress events of the compile, which the child writes and the parent replays; None without a listener."""
    return Lines(reporter.write_to, reporter.relay) if reporter is not None and reporter.has_listener else None


def _recorded_crash(work: _Work[object], crash: Crash, reporter: CompileReporter | None) -> CompilerCrash:
    """Runs the work again with a recorder and returns the error of the crash."""
    folder = Path(tempfile.mkdtemp(prefix="stepwell-"))

    def again(note: Note) -> bytes:
        if reporter is not None:
            reporter.listener = None  # only the parent calls the callbacks
        write_notes_to(note)
        work(FailureRecorder(folder))
        return b""

    try:
        guarded(again)
    except Crash as second_crash:
        return CompilerCrash(str(second_crash), second_crash.signal_name, folder)
    shutil.rmtree(folder, ignore_errors=True)  # the second run did not crash
    return CompilerCrash(str(crash), crash.signal_name)
