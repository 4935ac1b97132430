"""NonMaxSuppression on the host: selects boxes that do not overlap better ones (ONNX, opset 11)."""

from __future__ import annotations

import numpy as np

# Number of boxes per block; boxes are suppressed block by block, the best first.
_BLOCK_SIZE = 64
# Maximum number of comparisons at a time, so that their data stays in a cache.
_MAX_PAIRS = 1 << 18


def suppress(
    boxes: np.ndarray, scores: np.ndarray, most: int, overlap: float, least: float, is_center: bool
) -> np.ndarray:
    """Returns the remaining boxes, class by class, best first.

    Args:
        boxes: [batch, count, 4], two corners in any order, or (`is_center`) centre x and y, width and height.
        scores: [batch, classes, count].
        most: maximum number of boxes of a class.
        overlap: a box is removed if its intersection with a better one exceeds this share of their union.
        least: a box is removed if its score does not exceed this.
        is_center: whether boxes are given by centre and size.

    Returns:
        [remaining, 3] int64: batch, class and index of each box.
    """
    first, second = boxes[..., :2], boxes[..., 2:]
    low, high = (
        (first - second / 2, first + second / 2)
        if is_center
        else (np.minimum(first, second), np.maximum(first, second))
    )
    areas = (high[..., 0] - low[..., 0]) * (high[..., 1] - low[..., 1])
    # One row per side, so that operations on many boxes read contiguous memory.
    lines = np.stack([low[..., 0], low[..., 1], high[..., 0], high[..., 1], areas], axis=1)
    share, kept = lines.dtype.type(overlap), [np.empty((0, 3), np.int64)]
    for batch, kind in np.argwhere((scores > least).any(axis=-1)) if most > 0 else ():
        numbers = _best(lines[batch], scores[batch, kind], most, share, least)
        kept.append(np.stack([np.full_like(numbers, batch), np.full_like(numbers, kind), numbers], axis=-1))
    return np.concatenate(kept)


def _best(lines: np.ndarray, scores: np.ndarray, most: int, overlap: np.floating, least: float) -> np.ndarray:
    """Returns the indices of the remaining boxes of one class; of boxes with equal scores the first is better."""
    numbers = np.flatnonzero(scores > least)
    numbers = numbers[_descending_order(scores[numbers])]
    kept, better = [np.empty(0, np.int64)], lines[:, :0]
    first, size = 0, 4 * _BLOCK_SIZE
    # The first boxes often suffice: further ones are examined only if necessary.
    while first < numbers.size and better.shape[1] < most:
        some = numbers[first : first + size]
        own = lines[:, some]
        if better.shape[1]:
            left = ~_overlap(better, own, overlap).any(axis=0)
            some, own = some[left], own[:, left]
        chosen = _remaining(own, most - better.shape[1], overlap)
        kept.append(some[chosen])
        better = np.concatenate([better, own[:, chosen]], axis=1)
        first, size = first + size, max(_BLOCK_SIZE, min(2 * size, _MAX_PAIRS // max(1, better.shape[1])))
    return np.concatenate(kept)


def _descending_order(scores: np.ndarray) -> np.ndarray:
    """Returns the indices that sort the scores in descending order, with equal ones in their original order.

    Sorts integers that combine a score and its index: numpy vectorises that, but not a stable sort of floats.
    """
    if scores.dtype != np.float32:
        return np.argsort(-scores, kind="stable")
    bits = (0 - scores).view(np.int32)
    bits ^= (bits >> 31) & np.iinfo(np.int32).max
    keys = bits.astype(np.int64) << 32 | np.arange(bits.size)
    keys.sort()
    return keys & np.iinfo(np.uint32).max


def _remaining(rest: np.ndarray, most: int, overlap: np.floating) -> np.ndarray:
    """Returns the indices of the boxes that remain among those given by their rows, at most `most`."""
    places, kept, count = np.arange(rest.shape[1]), [np.empty(0, np.int64)], 0
    while places.size and count < most:
        own = rest[:, :_BLOCK_SIZE]
        chosen = _greedy(_overlap(own, own, overlap))
        kept.append(places[chosen])
        count += len(chosen)
        places, rest = places[_BLOCK_SIZE:], rest[:, _BLOCK_SIZE:]
        if places.size and count < most:
            left = ~_overlap(own[:, chosen], rest, overlap).any(axis=0)
            places, rest = places[left], rest[:, left]
    return np.concatenate(kept)[:most]


def _overlap(better: np.ndarray, others: np.ndarray, overlap: np.floating) -> np.ndarray:
    """Returns which of `others` each of the better boxes removes: [better, others]."""
    left, top, right, bottom, area = better[:, :, None]
    width = np.minimum(right, others[2])
    width -= np.maximum(left, others[0])
    height = np.minimum(bottom, others[3])
    height -= np.maximum(top, others[1])
    np.maximum(width, 0, out=width)
    shared = np.multiply(width, np.maximum(height, 0, out=height), out=width)
    union = np.subtract(area + others[4], shared, out=height)
    # Empty boxes overlap nothing; the comparison avoids a division.
    return (shared > 0) & (shared > np.multiply(union, overlap, out=union))


def _greedy(pairs: np.ndarray) -> list[int]:
    """Returns the boxes that remain, best first; `pairs[i, j]` means that box i removes box j."""
    gone, chosen = 0, []
    for number, row in enumerate(np.packbits(pairs, axis=-1, bitorder="little")):
        if not gone >> number & 1:
            chosen.append(number)
            gone |= int.from_bytes(row.tobytes(), "little")
    return chosen
