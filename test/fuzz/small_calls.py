"""Compiles and calls mutants."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401  (registers its type names with numpy)
import numpy as np
import stepwell

LARGEST = 1 << 20
"""Maximum number of elements of an input; calls with larger ones are skipped."""


def compile_and_call(model: bytes | Path) -> None:
    """Compiles a model and calls it on small numbers, with size 2 for every dimension that varies.

    Raises:
        Exception: any exception of the package.
    """
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    arrays = []
    for info in executable.inputs:
        shape = tuple(dim if isinstance(dim, int) else 2 for dim in info.shape)
        if np.prod(shape, dtype=float) > LARGEST:
            return
        arrays.append(np.random.default_rng(0).integers(0, 3, shape).astype(info.dtype))
    executable(*arrays)
