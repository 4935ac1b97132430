"""The fingerprint of the compiler, which is part of every cache key."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from ...support.version import VERSION

ABOVE = frozenset({"bench", "compat", "explain", "lm", "quantization", "serve", "tools", "training", "tuning"})
"""Folders of the package above the driver, which take no part in compiles; a test compares them with the contract."""


@functools.cache
def rooms() -> tuple[str, ...]:
    """Returns the folders of the package that take part in compiles: all that are not above the driver."""
    root = Path(__file__).parents[2]
    return tuple(sorted(init.parent.name for init in root.glob("*/__init__.py") if init.parent.name not in ABOVE))


@functools.cache
def fingerprint() -> str:
    """The version, and a digest of every source and data file of the folders that take part in compiles.

    Cached code is used only by the same state of the compiler that produced it, however the compiler was installed.
    """
    root = Path(__file__).parents[2]
    folders = (found for room in rooms() for found in os.walk(root / room))
    paths = sorted(f"{folder}/{name}" for folder, _, names in folders for name in names if not name.endswith(".pyc"))
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            digest.update(f"{path[len(str(root)) :]}\n".encode() + file.read())
    return f"{VERSION}-{digest.hexdigest()[:16]}"
