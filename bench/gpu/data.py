"""Contents of inputs, reproducible from a seed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def contents(shape: Sequence[int], dtype: np.dtype, seed: int) -> np.ndarray:
    """Returns random contents: normally distributed floats, or 0 and 1 for integers."""
    random = np.random.default_rng(seed)
    if dtype.kind in "iub":
        return random.integers(0, 2, tuple(shape)).astype(dtype)
    return random.standard_normal(tuple(shape), np.float32).astype(dtype)


def worst(results: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> float:
    """Returns the largest difference, relative to the largest expected value of the same result."""
    worst_ = 0.0
    for result, wanted in zip(results, expected, strict=True):
        if result.shape != wanted.shape or not wanted.size:
            raise ValueError(f"a result has the shape {result.shape}, expected {wanted.shape}")
        gap = np.abs(result.astype(np.float64) - wanted.astype(np.float64)).max()
        worst_ = max(worst_, float(gap / max(np.abs(wanted.astype(np.float64)).max(), 1e-30)))
        if not np.isfinite(gap):
            return float("inf")
    return worst_
