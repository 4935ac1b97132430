"""The compiler's version, and what tells one state of it from another: part of every cache key."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

VERSION = "0.1.0"

_FOLDERS = ("dialects", "frontend", "lowering", "passes")
_FILES = ("bounded.py", "compilation.py", "sampling.py", "source.py", "specializer.py")


@functools.cache
def fingerprint() -> str:
    """The version, and a digest of every source file that takes part in a compile.

    So nothing that another state of the compiler made is taken for its own, however it was installed.
    """
    root = Path(__file__).parent
    files = sorted(path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for path in [*files, *(root / name for name in _FILES)]:
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return f"{VERSION}-{digest.hexdigest()[:16]}"
