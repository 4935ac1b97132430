"""What the compiler wrote down of a program, read back; `driver/facts.py` writes it."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ..errors import ArtefactError

_MOST_BYTES = 256 << 20
_NOTHING: dict[str, Any] = {
    "nodes": [],
    "calls": [],
    "operands": {},
    "apart": [],
    "refused": [],
    "vector_bytes": 0,
    "details": {},
}


def read(data: bytes) -> dict[str, Any]:
    """The facts; all empty where a program has none, as those of older artefacts.

    Raises:
        ArtefactError: they are damaged.
    """
    if not data:
        return dict(_NOTHING)
    try:
        text = zlib.decompressobj().decompress(data, _MOST_BYTES)
        record = json.loads(text)
        # A program of MLIR that is past the first phases has no nodes to tell of.
        return {key: type(empty)(record.get(key, empty)) for key, empty in _NOTHING.items()}
    except (zlib.error, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ArtefactError(f"what it says for its report cannot be read: {error!r}") from error
