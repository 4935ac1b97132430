"""Arrays that are mapped from files: their pages take up memory once they have been read, until they are let go."""

from __future__ import annotations

import mmap

import numpy as np

_LEAST_BYTES = 1 << 20
_DROP = getattr(mmap, "MADV_DONTNEED", None)


def forget_pages(array: object) -> None:
    """Lets the system have back the memory of an array mapped from a file; what is read again comes from the file.

    Nothing happens to arrays that are in memory only, to small ones, and where the system has no such thing.
    """
    while isinstance(array, np.ndarray):
        # numpy keeps the map where only its own class of arrays sees it.
        found = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else None
        if isinstance(found, mmap.mmap):
            if _DROP is not None and len(found) >= _LEAST_BYTES:
                found.madvise(_DROP)
            return
        array = array.base
