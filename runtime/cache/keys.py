"""Keys of cache entries."""

from __future__ import annotations

import hashlib

from ...support.large_file import LargeFile


def key_of(*parts: str | bytes | memoryview | LargeFile) -> str:
    """Returns the key of data made from `parts`; a file counts as its contents."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, LargeFile):
            digest.update(part.size.to_bytes(8, "little"))
            for chunk in part.chunks():
                digest.update(chunk)
            continue
        data = part.encode(errors="surrogatepass") if isinstance(part, str) else part  # file names need not be UTF-8
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()
