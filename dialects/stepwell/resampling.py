"""Where each element of a resized dimension comes from: the rules of ONNX Resize, one dimension at a time.

The reference of `resize` applies these tables with numpy; a lowering may emit code from the very same tables.
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
    """How a resize interpolates.

    Attributes:
        mode: one of MODES.
        coordinates: one of COORDINATES, the meaning of a position between elements.
        nearest: one of NEAREST, which element of two is near; mode "nearest" only.
        cubic_coefficient: the `a` of the cubic convolution (Keys 1981); mode "cubic" only.
        exclude_outside: whether elements outside the input weigh nothing, instead of repeating the edge.
    """

    mode: str
    coordinates: str
    nearest: str
    cubic_coefficient: float = -0.75
    exclude_outside: bool = False

    def taps(self, extent: int, size: int, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """The elements that make up each element of a dimension resized from `extent` to `size`.

        Returns:
            Indices [taps, size] of the input's elements and their weights [taps, size], which sum to 1 over the taps;
            a single tap for "nearest", two for "linear", four for "cubic".
        """
        position = self._positions(extent, size, np.float32(scale))
        if self.mode == "nearest":
            return np.clip(_round(position, self.nearest), 0, extent - 1)[None], np.ones((1, size), np.float32)
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

    def _positions(self, extent: int, size: int, scale: np.float32) -> np.ndarray:
        """Positions in the input, in float32 as ONNX Runtime has them: ties would fall otherwise in float64."""
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
    """The weights of the elements at -1, 0, 1 and 2, `ratio` after the one at 0."""

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return np.stack([far(1 + ratio), near(ratio), near(1 - ratio), far(2 - ratio)])


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
