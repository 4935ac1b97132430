"""Finite differences of programs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir
from stepwell.dialects.interpreter import evaluate

STEP = 1e-5


def slope(
    program: ir.Module, given: Sequence[np.ndarray], index: int, direction: np.ndarray, seeds: Sequence[np.ndarray]
) -> float:
    """The central difference of the results along a direction of one operand, in the direction of the seeds."""
    ends = []
    for sign in (1, -1):
        moved = list(given)
        moved[index] = moved[index] + sign * STEP * direction
        results = evaluate(program, "main", moved, {})
        ends.append(sum(np.sum(result * seed) for result, seed in zip(results, seeds, strict=True)))
    return float((ends[0] - ends[1]) / (2 * STEP))
