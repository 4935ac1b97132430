"""JSON objects in files beside a model, such as its settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import ModelError


def read_json(path: Path) -> dict[str, Any]:
    """Reads a JSON object.

    Raises:
        ModelError: the file cannot be read, or holds something else.
    """
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path.name} cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise ModelError(f"{path.name} holds no JSON object")
    return values
