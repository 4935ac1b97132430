"""Python's collection of cycles, and where it is in the way."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """While it is entered nothing is collected.

    Who makes many objects that stay, as imports and compilers do, has them all looked through time and again otherwise.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
