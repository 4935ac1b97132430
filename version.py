"""The compiler's version, and what tells one state of it from another: part of every cache key."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

VERSION = "0.1.0"

_FOLDERS = ("dialects", "frontend", "lowering", "passes")


@functools.cache
def fingerprint() -> str:
    """The version, and name, size and time of change of every source file that takes part in a compile.

    So nothing that another state of the compiler made is taken for its own, however it was installed.
    """
    root = Path(__file__).parent
    files = sorted(path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))
    digest = hashlib.sha256()
    for path in [*files, root / "compilation.py"]:
        status = path.stat()
        digest.update(f"{path.relative_to(root)} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{VERSION}-{digest.hexdigest()[:16]}"
