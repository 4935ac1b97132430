"""Memory that a process has freed, but its C library keeps."""

from __future__ import annotations

import ctypes
import sys


def release_free_memory() -> bool:
    """Returns freed memory to the system; returns whether the C library can (glibc keeps it otherwise)."""
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:  # musl
        return False
    trim(ctypes.c_size_t(0))
    return True
