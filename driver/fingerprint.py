"""The fingerprint of the compiler, which is part of every cache key."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from ..support.version import VERSION

ROOMS = ("dialects", "driver", "frontend", "lowering", "passes", "runtime", "sizes", "support", "targets")
"""Folders that the driver is in or imports from; a test compares them with the import contract."""


@functools.cache
def fingerprint() -> str:
    """The version, and a digest of every source and data file of the folders in `ROOMS`.

    Cached code is used only by the same state of the compiler that produced it, however the compiler was installed.
    """
    root = Path(__file__).parent.parent
    folders = (found for room in ROOMS for found in os.walk(root / room))
    paths = sorted(f"{folder}/{name}" for folder, _, names in folders for name in names if not name.endswith(".pyc"))
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(f"{path[len(str(root)) :]}\n".encode() + file.read())
    return f"{VERSION}-{digest.hexdigest()[:16]}"
