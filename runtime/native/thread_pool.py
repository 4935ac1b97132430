"""Thread pools for calls: workers wait in native code, and each pool is lent to one call at a time.

A pool is memory, laid out as `lowering/vector_to_llvm/thread_pool.py` defines, and workers: threads that never leave
the native function `stepwell_work`. They spin for some tens of microseconds after the last work, then sleep until there
is more. A call never waits for a worker that has not begun, so pools may have more workers in total than there are
cores.
"""

from __future__ import annotations

import _thread
import contextlib
import os
from typing import TYPE_CHECKING

import numpy as np

from ..memory import aligned_empty

if TYPE_CHECKING:
    from .loader import NativeCode

# The memory layout that native code expects: the number of threads, then zeroed bytes for its own use.
_FIXED_BYTES, _BYTES_PER_THREAD = 512, 128

# Workers never exit, so the memory of a pool must not be freed.
_POOLS: list[ThreadPool] = []


class ThreadPool:
    """The workers for one call at a time, and the code they run; both stay for as long as the process lives.

    Attributes:
        address: address of its memory, for native code.
    """

    def __init__(self, threads: int, code: NativeCode) -> None:
        """Starts the workers.

        Args:
            threads: number of threads, including the caller.
            code: any program that uses thread pools.
        """
        self._memory = aligned_empty(_FIXED_BYTES + _BYTES_PER_THREAD * threads)
        self._memory.fill(0)
        self._memory[:8].view(np.int64)[0] = threads
        self.address = self._memory.ctypes.data
        _POOLS.append(self)
        self._code, work = code, code.work()
        # If the system cannot start a thread, the existing ones do its part. A thread of `threading` would be joined
        # at the end of the process.
        with contextlib.suppress(RuntimeError):
            for index in range(1, threads):
                _thread.start_new_thread(work, (self.address, index))


class ThreadPools:
    """The thread pools of a process. Safe under threads: lending and returning are single list operations."""

    def __init__(self) -> None:
        self._idle: dict[int, list[ThreadPool]] = {}

    def lend(self, threads: int, code: NativeCode) -> ThreadPool:
        """Returns a thread pool for a call, a new one if all of its size are in use."""
        try:
            return self._idle[threads].pop()
        except (KeyError, IndexError):
            return ThreadPool(threads, code)

    def take_back(self, threads: int, pool: ThreadPool) -> None:
        """Keeps a thread pool for the next call."""
        self._idle.setdefault(threads, []).append(pool)

    def forget(self) -> None:
        """Drops all thread pools; in a child of `fork`, which has none of its parent's threads."""
        self._idle = {}


THREAD_POOLS = ThreadPools()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=THREAD_POOLS.forget)
