"""Locks between processes and threads that share a cache, so that each program and each kernel is compiled once.

A lock is a file in the cache's folder `locks`, which the operating system locks (`flock`), so that the lock of a killed
process is released at once. The locks only save work; results do not depend on them. If a lock cannot be taken, or is
held for longer than `LIMIT_SECONDS`, the code is compiled without it.

There is no deadlock: a holder of kernel locks waits for no lock, and a holder of a program's lock waits for no other
program's lock. Accordingly, a compile that is started by a callback of another compile takes no locks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from ...runtime.cache.cache import Cache

if TYPE_CHECKING:
    from filelock import BaseFileLock

LIMIT_SECONDS = 300.0
"""Longest wait for a lock in seconds: its owner may be stopped."""

_POLL_SECONDS = 0.05
"""Time between looks at a lock in seconds: a choice, short beside a compile and cheap for the processor."""
_MOST_KERNEL_LOCKS = 64
"""Maximum number of kernel locks held at once: each takes a file descriptor."""

_logger = logging.getLogger("stepwell")
# A context variable: it follows the calls of a thread through callbacks of the user, which take no argument of ours, to
# the compiles that these start.
_held: ContextVar[str] = ContextVar("held", default="")
"""The kind of locks that this thread holds: "" for none, "program" or "kernels"."""


@contextmanager
def program_lock(cache: Cache | None, key: str, waits: Callable[[], object]) -> Iterator[None]:
    """Holds the lock of a program while it is looked up once more and compiled.

    Args:
        cache: the cache of the program; None for no lock.
        key: the program's key.
        waits: called once if another process or thread holds the lock.
    """
    if cache is None or _held.get():
        yield
        return
    token = _held.set("program")
    path = cache.lock_path("programs", key)
    try:
        with ExitStack() as stack:
            if not _take(path, stack):
                waits()
                if not _take(path, stack, LIMIT_SECONDS):
                    _logger.warning("%s is locked for more than %g s: compiles without it", path, LIMIT_SECONDS)
            yield
    finally:
        _held.reset(token)


class KernelTurns:
    """Kernels to compile, in turns: those that are free first, then those that others are compiling.

    Attributes:
        left: the names of the kernels that have not been part of a turn.
    """

    def __init__(self, cache: Cache | None, keys: Mapping[str, str], waits: Callable[[], object]) -> None:
        """Starts with all kernels.

        Args:
            cache: the cache of the kernels; None for no locks.
            keys: each kernel's key in the cache, by the kernel's name.
            waits: called once if all kernels left are locked by other processes or threads.
        """
        self.left = list(keys)
        self._cache, self._keys, self._waits, self._has_waited = cache, keys, waits, False

    @contextmanager
    def turn(self) -> Iterator[set[str]]:
        """Holds the locks of some of the kernels left while they are looked up once more and compiled.

        Waits, without holding a lock, until one is free.

        Yields:
            The names of these kernels; all kernels left if there are no locks, or none became free in time.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        with ExitStack() as stack:
            taken = self._free(stack)
            while self.left and not taken:
                taken = self._free_later(stack, deadline)
            self.left = [name for name in self.left if name not in taken]
            stack.callback(_held.reset, _held.set("kernels"))
            yield taken

    def _free(self, stack: ExitStack) -> set[str]:
        """Takes the free locks until `stack` exits; kernels beyond the maximum are returned without a lock."""
        if self._cache is None or _held.get() == "kernels":
            return set(self.left)
        cache, locked = self._cache, self.left[:_MOST_KERNEL_LOCKS]
        return {name for name in locked if _take(cache.lock_path("kernels", self._keys[name]), stack)} | set(
            self.left[_MOST_KERNEL_LOCKS:]
        )

    def _free_later(self, stack: ExitStack, deadline: float) -> set[str]:
        """Takes the locks that are free after a short wait; after the deadline returns all kernels left."""
        if not self._has_waited:
            self._has_waited = True
            self._waits()
        if time.monotonic() > deadline:
            _logger.warning("kernels are locked for more than %g s: compiles without locks", LIMIT_SECONDS)
            return set(self.left)
        time.sleep(_POLL_SECONDS)
        return self._free(stack)


def _take(path: Path, stack: ExitStack, seconds: float = 0.0) -> bool:
    """Takes a lock until `stack` exits, waiting for at most some seconds.

    Returns:
        False if another process or thread holds it. True also if the file cannot be locked, as in a read-only folder.
    """
    import filelock  # a start from the cache does not need it

    # A new instance: threads exclude each other like processes, and a forked child holds no lock.
    lock = filelock.FileLock(path)
    try:
        lock.acquire(timeout=seconds, poll_interval=_POLL_SECONDS)
    except filelock.Timeout:
        return False
    except (OSError, NotImplementedError) as error:
        _logger.debug("%s cannot be locked, so code may be compiled twice: %s", path, error)
        return True
    stack.callback(_release, lock, path)
    return True


def _release(lock: BaseFileLock, path: Path) -> None:
    """Removes the file of a lock, then releases the lock: a waiter that gets the lock of a removed file retries."""
    for action in (lambda: path.unlink(missing_ok=True), lock.release):
        try:
            action()
        except OSError as error:
            _logger.debug("%s cannot be removed or unlocked: %s", path, error)
