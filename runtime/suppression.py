"""NonMaxSuppression on the host: which boxes remain where those that overlap a better one go (ONNX, opset 11)."""

from __future__ import annotations

import numpy as np

# Of so many of the best boxes at a time it is found which remain, before the rest is compared with those.
_TOGETHER = 64
# So many comparisons at a time stay in a cache.
_MOST_PAIRS = 1 << 18


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
    areas = (high[..., 0] - low[..., 0]) * (high[..., 1] - low[..., 1])
    # One line per side, so that what is computed of many boxes reads them one after the other.
    lines = np.stack([low[..., 0], low[..., 1], high[..., 0], high[..., 1], areas], axis=1)
    share, kept = lines.dtype.type(overlap), [np.empty((0, 3), np.int64)]
    for batch, kind in np.argwhere((scores > least).any(axis=-1)) if most > 0 else ():
        numbers = _best(lines[batch], scores[batch, kind], most, share, least)
        kept.append(np.stack([np.full_like(numbers, batch), np.full_like(numbers, kind), numbers], axis=-1))
    return np.concatenate(kept)


def _best(lines: np.ndarray, scores: np.ndarray, most: int, overlap: np.floating, least: float) -> np.ndarray:
    """The numbers of the boxes of one class that remain; of equal scores the first is the better."""
    numbers = np.flatnonzero(scores > least)
    numbers = numbers[_from_the_greatest(scores[numbers])]
    kept, better = [np.empty(0, np.int64)], lines[:, :0]
    first, size = 0, 4 * _TOGETHER
    # Often the wanted number is found among the first ones: others are not looked at before it has to be.
    while first < numbers.size and better.shape[1] < most:
        some = numbers[first : first + size]
        own = lines[:, some]
        if better.shape[1]:
            left = ~_overlap(better, own, overlap).any(axis=0)
            some, own = some[left], own[:, left]
        chosen = _among(own, most - better.shape[1], overlap)
        kept.append(some[chosen])
        better = np.concatenate([better, own[:, chosen]], axis=1)
        first, size = first + size, max(_TOGETHER, min(2 * size, _MOST_PAIRS // max(1, better.shape[1])))
    return np.concatenate(kept)


def _from_the_greatest(scores: np.ndarray) -> np.ndarray:
    """Where the scores are from the greatest to the least, equal ones in order.

    Integers of a score and its place are sorted, which takes vectors, where a stable sort of floats takes none.
    """
    if scores.dtype != np.float32:
        return np.argsort(-scores, kind="stable")
    bits = (0 - scores).view(np.int32)
    bits ^= (bits >> 31) & np.iinfo(np.int32).max
    keys = bits.astype(np.int64) << 32 | np.arange(bits.size)
    keys.sort()
    return keys & np.iinfo(np.uint32).max


def _among(rest: np.ndarray, most: int, overlap: np.floating) -> np.ndarray:
    """The places of those of some boxes, given by their lines, that remain, but no more than `most`."""
    places, kept, count = np.arange(rest.shape[1]), [np.empty(0, np.int64)], 0
    while places.size and count < most:
        own = rest[:, :_TOGETHER]
        chosen = _greedy(_overlap(own, own, overlap))
        kept.append(places[chosen])
        count += len(chosen)
        places, rest = places[_TOGETHER:], rest[:, _TOGETHER:]
        if places.size and count < most:
            left = ~_overlap(own[:, chosen], rest, overlap).any(axis=0)
            places, rest = places[left], rest[:, left]
    return np.concatenate(kept)[:most]


def _overlap(better: np.ndarray, others: np.ndarray, overlap: np.floating) -> np.ndarray:
    """Which of `others` go because of which of the better ones: [better, others]."""
    left, top, right, bottom, area = better[:, :, None]
    width = np.minimum(right, others[2])
    width -= np.maximum(left, others[0])
    height = np.minimum(bottom, others[3])
    height -= np.maximum(top, others[1])
    np.maximum(width, 0, out=width)
    shared = np.multiply(width, np.maximum(height, 0, out=height), out=width)
    union = np.subtract(area + others[4], shared, out=height)
    # Empty boxes overlap nothing; the comparison is one without a division.
    return (shared > 0) & (shared > np.multiply(union, overlap, out=union))


def _greedy(pairs: np.ndarray) -> list[int]:
    """Which of some boxes remain, the best first, where `pairs` are those of which the second goes with the first."""
    gone, chosen = 0, []
    for number, row in enumerate(np.packbits(pairs, axis=-1, bitorder="little")):
        if not gone >> number & 1:
            chosen.append(number)
            gone |= int.from_bytes(row.tobytes(), "little")
    return chosen
