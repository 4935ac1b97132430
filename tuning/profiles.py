"""Profiles of real calls, which say where the time of a search is best spent."""

from __future__ import annotations

import json
from pathlib import Path

from .errors import TuningError


def read_profile(path: Path) -> dict[str, float]:
    """Reads the seconds of each kernel from a profile of `stepwell-run --profile`, by the kernel's name.

    Raises:
        TuningError: it is no such file.
    """
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        record = record.get("stepwell", record)
        return {str(row["kernel"]): float(row["seconds"]) for row in record["kernels"]}
    except OSError as error:
        raise TuningError(f"--profile {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise TuningError(f"--profile {path}: not a profile of stepwell-run --profile: {error}") from error
