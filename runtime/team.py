"""Threads that help with calls: teams that wait in native code, and a pool that lends each to one call at a time.

A team is memory, laid out as the compiler's `team.py` says, and helpers: threads that spend their life in the native
function `stepwell_work`. They look for work for some tens of microseconds after the last, then sleep until there is
more. A call never waits for a helper that has not begun, so that teams may outnumber the cores.
"""

from __future__ import annotations

import _thread
import contextlib
import os
from typing import TYPE_CHECKING

import numpy as np

from .program import aligned_empty

if TYPE_CHECKING:
    from .loader import NativeCode

# What the native code expects of the memory: the number of threads first, then so much of its own, all zero.
_FIXED_BYTES, _BYTES_PER_THREAD = 512, 128

# Helpers never leave, so that nothing of a team may be freed.
_TEAMS: list[Team] = []


class Team:
    """Helpers for one call at a time, and the code that they are in; both stay for as long as the process lives.

    Attributes:
        address: what native code takes.
    """

    def __init__(self, threads: int, code: NativeCode) -> None:
        """Starts the helpers.

        Args:
            threads: how many there are with the caller.
            code: a program that shares out work; any will do.
        """
        self._memory = aligned_empty(_FIXED_BYTES + _BYTES_PER_THREAD * threads)
        self._memory.fill(0)
        self._memory[:8].view(np.int64)[0] = threads
        self.address = self._memory.ctypes.data
        _TEAMS.append(self)
        self._code, work = code, code.work()
        # Where the system refuses a thread, those that are there do its part. A thread of `threading` would be waited
        # for when the process ends.
        with contextlib.suppress(RuntimeError):
            for index in range(1, threads):
                _thread.start_new_thread(work, (self.address, index))


class Pool:
    """The teams of a process. Safe under threads: lending and returning are single operations on lists."""

    def __init__(self) -> None:
        self._idle: dict[int, list[Team]] = {}

    def lend(self, threads: int, code: NativeCode) -> Team:
        """A team for a call, a new one if all of its size are at work."""
        try:
            return self._idle[threads].pop()
        except (KeyError, IndexError):
            return Team(threads, code)

    def take_back(self, threads: int, team: Team) -> None:
        """Keeps a team for the next call."""
        self._idle.setdefault(threads, []).append(team)

    def forget(self) -> None:
        """Drops all teams; in a child of `fork`, which has none of its parent's threads."""
        self._idle = {}


POOL = Pool()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.forget)
