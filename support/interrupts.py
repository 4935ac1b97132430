"""Deferred keyboard interrupts: native code that calls Python must not be left half-way."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts() -> Iterator[None]:
    """Defers interrupts until the end of the block, and then calls their handler.

    An exception in a callback of ctypes is printed and lost; one during the import of an extension may crash. Python
    handles signals in its main thread only, so in other threads this does nothing.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _, frame: came.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if came:
            handler(signal.SIGINT, came[0])
