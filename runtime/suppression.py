"""NonMaxSuppression on the host: which boxes remain where those that overlap a better one go (ONNX, opset 11)."""

from __future__ import annotations

import numpy as np


def suppress(
    boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float, is_center: bool
) -> np.ndarray:
    """The boxes that remain, class by class, the best first.

    Args:
        boxes: [batch, count, 4], two corners in any order, or (`is_center`) centre x and y, width and height.
        scores: [batch, classes, count].
        most: how many boxes of a class may remain.
        overlap: boxes go whose intersection with a better one is more than this share of their union.
        least: boxes go whose score is not greater.
        is_center: how boxes are given.

    Returns:
        [remaining, 3] int64: batch, class and number of each.
    """
    first, second = boxes[..., :2], boxes[..., 2:]
    low, high = (
        (first - second / 2, first + second / 2)
        if is_center
        else (np.minimum(first, second), np.maximum(first, second))
    )
    kept = [
        (batch, kind, number)
        for batch, kinds in enumerate(scores)
        for kind, line in enumerate(kinds)
        for number in _best(low[batch], high[batch], line, most, overlap, least)
    ]
    return np.array(kept, np.int64).reshape(-1, 3)


def _best(low: np.ndarray, high: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float) -> list[int]:
    """The numbers of the boxes of one class that remain; of equal scores the first is the better."""
    areas = np.prod(high - low, axis=-1)
    order = np.argsort(-scores, kind="stable")
    order = order[scores[order] > least]
    kept: list[int] = []
    while order.size and len(kept) < most:
        best, order = order[0], order[1:]
        kept.append(int(best))
        sides = np.minimum(high[order], high[best]) - np.maximum(low[order], low[best])
        shared = np.prod(np.maximum(sides, 0), axis=-1)
        # Empty boxes overlap nothing; the comparison is one without a division.
        union = areas[order] + areas[best] - shared
        order = order[~((shared > 0) & (shared > np.float32(overlap) * union))]
    return kept
