"""Pausing of Python's cyclic garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused_collection() -> Iterator[None]:
    """Disables garbage collection inside the block.

    Imports and compilers create many objects that stay; the collector would traverse all of them again and again.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_collecting:
            gc.enable()
