"""Interrupts from the keyboard that wait: native code that calls Python cannot be left in the middle."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def held_interrupts() -> Iterator[None]:
    """While this lasts an interrupt only waits; what it would have done, it does at the end.

    An exception in a callback of ctypes is printed and forgotten, and one in the import of an extension may crash.
    Python handles signals in its main thread alone: in others nothing happens.
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
