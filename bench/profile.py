"""Profiles a model that is compiled and run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..runtime.devices.peaks import Peaks


def profile(path: Path, inputs: Mapping[str, np.ndarray], threads: int, calls: int, limit: Peaks) -> dict[str, Any]:
    """Returns the record of a profile (docs/profile.md), compiled without the cache."""
    executable = compile(str(path), threads=threads, options=Options(cache=False))
    return executable.profile(inputs, calls).beside(limit).record()
