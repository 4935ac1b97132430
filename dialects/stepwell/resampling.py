"""The rules of ONNX Resize, one dimension at a time: which input elements make up each result element.

The reference of `resize` applies these tables with numpy; a lowering may emit code from the same tables.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

MODES = ("nearest", "linear", "cubic")
COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")


@dataclass(frozen=True)
class Sampling:
    """The interpolation method of a resize.

    Attributes:
        mode: one of MODES.
        coordinates: one of COORDINATES, the mapping from result elements to input positions.
        nearest: one of NEAREST, the rounding between two neighbours; for mode "nearest" only.
        cubic_coefficient: the `a` of the cubic convolution (Keys 1981); for mode "cubic" only.
        exclude_outside: whether elements outside the input get weight 0, instead of repeating the edge.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False

    def taps(self, extent: int, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """The input elements that make up each element of a dimension resized from `extent` to `size`.

        Returns:
            Indices [taps, size] of the input's elements and their weights [taps, size], which sum to 1 over the taps:
            a single tap for "nearest", two for "linear", four for "cubic".
        """
        return self.taps_at(self._positions(extent, size, np.float32(scale)), extent)

    def taps_at(self, position: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
        """Computes `taps` for given positions in the input."""
        if self.mode == "nearest":
            return np.clip(_round(position, self.nearest), 0, extent - 1)[None], np.ones((1, len(position)), np.float32)
        low = np.floor(position)
        ratio = position - low
        if self.mode == "linear":
            offsets, weights = np.arange(2), np.stack([1 - ratio, ratio])
        else:
            offsets, weights = np.arange(-1, 3), cubic_weights(ratio, self.cubic_coefficient)
        indices = low.astype(np.int64) + offsets[:, None]
        if self.exclude_outside:
            weights = np.where((indices >= 0) & (indices < extent), weights, np.float32(0))
            weights = weights / weights.sum(0)
        return np.clip(indices, 0, extent - 1), weights.astype(np.float32)

    def smoothed_taps(self, extent: int, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Computes `taps` with a kernel as wide as the step in the input, so it skips no element (antialiasing)."""
        position = self._positions(extent, size, np.float32(scale)).astype(np.float64)
        wide = min(scale, 1.0)
        half = int(-np.floor(-(1 if self.mode == "linear" else 2) / wide))
        # The left one of two equally near elements counts as the nearer one.
        low = np.ceil(position) - 1
        offsets = np.arange(1 - half, 1 + half)[:, None]
        distance = np.abs(offsets - (position - low)) * wide
        weights = (
            np.maximum(1 - distance, 0) if self.mode == "linear" else _cubic_kernel(distance, self.cubic_coefficient)
        )
        weights = weights / weights.sum(0)
        indices = low.astype(np.int64) + offsets
        if self.exclude_outside:
            weights = np.where((indices >= 0) & (indices < extent), weights, 0)
            weights = weights / weights.sum(0)
        return np.clip(indices, 0, extent - 1), weights.astype(np.float32)

    def _positions(self, extent: int, size: int, scale: np.float32) -> np.ndarray:
        """Positions in the input, in float32 as in ONNX Runtime: ties would round differently in float64."""
        x = np.arange(size, dtype=np.float32)
        half = np.float32(0.5)
        match self.coordinates:
            case "half_pixel":
                return (x + half) / scale - half
            case "half_pixel_symmetric":
                center = np.float32(extent / 2)
                offset = center * (1 - np.float32(size) / (scale * np.float32(extent)))
                return offset + (x + half) / scale - half
            case "pytorch_half_pixel":
                return (x + half) / scale - half if size > 1 else np.zeros_like(x)
            case "align_corners":
                return x * np.float32(extent - 1) / np.float32(size - 1) if size > 1 else np.zeros_like(x)
            case "asymmetric":
                return x / scale
        raise ValueError(self.coordinates)


def _round(position: np.ndarray, nearest: str) -> np.ndarray:
    half = np.float32(0.5)
    match nearest:
        case "round_prefer_floor":
            rounded = np.ceil(position - half)
        case "round_prefer_ceil":
            rounded = np.floor(position + half)
        case "floor":
            rounded = np.floor(position)
        case "ceil":
            rounded = np.ceil(position)
        case _:
            raise ValueError(nearest)
    return rounded.astype(np.int64)


def cubic_weights(ratio: np.ndarray, a: float) -> np.ndarray:
    """The weights of the elements at -1, 0, 1 and 2 for a position `ratio` after the element at 0."""

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return np.stack([far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)])


def _cubic_kernel(distance: np.ndarray, a: float) -> np.ndarray:
    """The weight of an element at a given distance."""
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def crop_positions(extent: int, size: int, width: float, start: float, stop: float) -> np.ndarray:
    """Positions in the input of elements that span a part of it (ONNX tf_crop_and_resize).

    Args:
        extent: number of elements in the input.
        size: number of elements in the result.
        width: extent of the result before it was rounded to an integer.
        start: start of the part, as a fraction of the input.
        stop: end of the part, as a fraction of the input.
    """
    last = np.float32(extent - 1)
    first, part = np.float32(start) * last, np.float32(stop - start) * last
    if width == 1:
        return np.full(size, first + part / 2, np.float32)
    return np.arange(size, dtype=np.float32) * (part / np.float32(width - 1)) + first


def resample(array: np.ndarray, axis: int, size: int, scale: float, sampling: Sampling) -> np.ndarray:
    """`array` resized along one axis."""
    if size == array.shape[axis] and scale == 1:
        return array
    indices, weights = sampling.taps(array.shape[axis], size, scale)
    if sampling.mode == "nearest":
        return np.take(array, indices[0], axis)
    along = [1] * array.ndim
    along[axis] = size
    taps = (np.take(array, index, axis) * weight.reshape(along) for index, weight in zip(indices, weights, strict=True))
    return functools.reduce(np.add, taps)


def transposed_taps(indices: np.ndarray, weights: np.ndarray, extent: int) -> tuple[np.ndarray, np.ndarray]:
    """The taps of the transposed resampling: for each input element, the results that it is a part of.

    Args:
        indices: [taps, size], the input's elements that make up each result.
        weights: [taps, size], their weights.
        extent: number of elements in the input.

    Returns:
        Indices and weights [most, extent], where `most` results have a part of one element; other weights are 0.
    """
    results = np.broadcast_to(np.arange(indices.shape[1]), indices.shape)
    used = weights != 0
    targets, places, shares = indices[used], results[used], weights[used]
    order = np.argsort(targets, kind="stable")
    targets, places, shares = targets[order], places[order], shares[order]
    counts = np.bincount(targets, minlength=extent)
    ranks = np.arange(len(targets)) - np.repeat(np.cumsum(counts) - counts, counts)
    most = int(counts.max(initial=1))
    positions, parts = np.zeros((most, extent), np.int64), np.zeros((most, extent), weights.dtype)
    positions[ranks, targets], parts[ranks, targets] = places, shares
    return positions, parts
