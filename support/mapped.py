"""Arrays mapped from files: pages that were read occupy memory until they are released."""

from __future__ import annotations

import mmap

import numpy as np

_MIN_BYTES = 1 << 20
"""Minimum size of files whose pages are released: a choice; less memory is not worth a call of the system."""
_DROP = getattr(mmap, "MADV_DONTNEED", None)


def forget_pages(array: object) -> None:
    """Releases the memory of an array mapped from a file; later reads load it from the file again.

    Does nothing for arrays that are not mapped, for small ones, and on systems without `madvise`.
    """
    while isinstance(array, np.ndarray):
        # numpy stores the map in an attribute of np.memmap only.
        found = getattr(array, "_mmap", None) if isinstance(array, np.memmap) else None
        if isinstance(found, mmap.mmap):
            if _DROP is not None and len(found) >= _MIN_BYTES:
                found.madvise(_DROP)
            return
        array = array.base
