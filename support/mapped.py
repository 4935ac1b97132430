"""Files that are mapped, such as arrays and libraries: pages that were read occupy memory until they are released."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

_MIN_BYTES = 1 << 20
"""Minimum size of files whose pages are released: a choice; less memory is not worth a call of the system."""
_DROP = getattr(mmap, "MADV_DONTNEED", None)
_MAPPINGS = Path("/proc/self/smaps")
_MAPPING = re.compile(r"(?P<start>[0-9a-f]+)-(?P<end>[0-9a-f]+) (?P<rights>\S+) \S+ \S+ \d+ *(?P<path>.*)")


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


def forget_library(path: Path) -> int:
    """Releases the memory of a loaded library's code and constants; they are read from the file again when needed.

    Pages with contents that the file does not have, such as relocated addresses, stay. Does nothing on systems without
    `/proc/self/smaps`.

    Returns:
        The number of bytes released.
    """
    if _DROP is None or not _MAPPINGS.is_file():
        return 0
    system = ctypes.CDLL(None, use_errno=True)
    dropped = 0
    for start, end, resident in _unchanged(os.path.realpath(path)):
        if system.madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), _DROP) == 0:
            dropped += resident
    return dropped


def _unchanged(path: str) -> Iterator[tuple[int, int, int]]:
    """The bounds and the resident bytes of a file's mappings that cannot be written and have no page of their own."""
    mapping: re.Match[str] | None = None
    resident = 0
    for line in _MAPPINGS.read_text(errors="replace").splitlines():
        found = _MAPPING.match(line)
        if found is not None:
            mapping = found if found["path"] == path and "w" not in found["rights"] else None
        elif mapping is not None and line.startswith("Rss:"):
            resident = int(line.split()[1]) << 10
        elif mapping is not None and line.startswith("Anonymous:") and line.split()[1] == "0":
            yield int(mapping["start"], 16), int(mapping["end"], 16), resident
