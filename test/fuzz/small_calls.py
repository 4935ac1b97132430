"""Calls of what mutants were compiled to."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401  (numpy knows its types by name from here on)
import numpy as np
import stepwell

LARGEST = 1 << 20
"""Inputs of more elements are not made."""


def compile_and_call(model: bytes | Path) -> None:
    """Compiles a model and calls it on small numbers, every dimension that varies being 2.

    Raises:
        Exception: whatever the package raises.
    """
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    arrays = []
    for info in executable.inputs:
        shape = tuple(dim if isinstance(dim, int) else 2 for dim in info.shape)
        if np.prod(shape, dtype=float) > LARGEST:
            return
        arrays.append(np.random.default_rng(0).integers(0, 3, shape).astype(info.dtype))
    executable(*arrays)
