"""Reads the facts that the compiler recorded about a program; `driver/facts.py` writes them."""

from __future__ import annotations

import json
import zlib
from typing import Any

from ...support.errors import ArtefactError

_MAX_BYTES = 256 << 20
_NO_FACTS: dict[str, Any] = {
    "nodes": [],
    "calls": [],
    "operands": {},
    "apart": [],
    "refused": [],
    "vector_bytes": 0,
    "details": {},
}


def read(data: bytes) -> dict[str, Any]:
    """Returns the facts; all are empty if a program has none, as those in older artefacts.

    Raises:
        ArtefactError: they are damaged.
    """
    if not data:
        return dict(_NO_FACTS)
    try:
        text = zlib.decompressobj().decompress(data, _MAX_BYTES)
        record = json.loads(text)
        # A program compiled from MLIR past the first phases has no nodes to report.
        return {key: type(empty)(record.get(key, empty)) for key, empty in _NO_FACTS.items()}
    except (zlib.error, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ArtefactError(f"the facts for its report cannot be read: {error!r}") from error
