"""Scales and zero points: chosen from histograms or weights, and applied as ONNX's QuantizeLinear does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .options import RangeMethod

BINS = 2048
"""Number of bins of a histogram, as in TensorRT's and ONNX Runtime's calibration."""
_SHRINKS = np.linspace(1.0, 0.02, 99)
"""Fractions of the whole range that `entropy` and `mse` try."""
LEAST_SCALE = 1e-30
"""Scale of zeros: positive, and with a float32 as its inverse."""


@dataclass(frozen=True)
class Histogram:
    """Number of values of an activation in each of the equal parts of a range.

    Attributes:
        low: the least value.
        high: the greatest value.
        counts: number of values in each part.
    """

    low: float
    high: float
    counts: np.ndarray

    @property
    def centers(self) -> np.ndarray:
        """The middle of each part."""
        width = (self.high - self.low) / len(self.counts)
        return self.low + width * (np.arange(len(self.counts)) + 0.5)


@dataclass(frozen=True)
class ActivationScale:
    """The scale and the zero point of an activation in unsigned 8 bits.

    Attributes:
        scale: step between neighbouring values.
        zero_point: the number that represents 0.
        clipped: share of the calibration values outside of the range.
    """

    scale: float
    zero_point: int
    clipped: float = 0.0


def activation_scale(histogram: Histogram, method: RangeMethod, percentile: float) -> ActivationScale:
    """Chooses the range of an activation; 0 is always a value that is represented exactly."""
    low, high = _range(histogram, method, percentile)
    scale, zero_point = _affine(low, high)
    centers, counts = histogram.centers, histogram.counts
    least, most = (0 - zero_point) * scale, (255 - zero_point) * scale
    outside = counts[(centers < least - scale / 2) | (centers > most + scale / 2)].sum()
    return ActivationScale(scale, zero_point, float(outside / max(counts.sum(), 1)))


def scale_between(low: float, high: float) -> ActivationScale:
    """Returns the scale of a range; 0 is always a value that is represented exactly."""
    return ActivationScale(*_affine(low, high))


def _affine(low: float, high: float) -> tuple[float, int]:
    low, high = min(low, 0.0), max(high, 0.0)
    scale = float(np.float32(max((high - low) / 255.0, LEAST_SCALE)))
    return scale, int(np.clip(np.rint(-low / scale), 0, 255))


def _range(histogram: Histogram, method: RangeMethod, percentile: float) -> tuple[float, float]:
    if method == "minmax" or histogram.high <= histogram.low:
        return histogram.low, histogram.high
    if method == "percentile":
        shares = np.cumsum(histogram.counts) / max(histogram.counts.sum(), 1)
        edges = np.linspace(histogram.low, histogram.high, len(histogram.counts) + 1)
        rest = 1.0 - percentile
        first, last = np.searchsorted(shares, rest), np.searchsorted(shares, percentile)
        low = histogram.low if histogram.low >= 0.0 else float(edges[first])
        return low, float(edges[min(last + 1, len(edges) - 1)])
    cost = _divergence if method == "entropy" else _square_error
    ranges = [(histogram.low * share, histogram.high * share) for share in _SHRINKS]
    return min(ranges, key=lambda item: cost(histogram, *_affine(*item)))


def _square_error(histogram: Histogram, scale: float, zero_point: int) -> float:
    centers = histogram.centers
    return float((histogram.counts * (fake_quantize(centers, scale, zero_point) - centers) ** 2).sum())


def _divergence(histogram: Histogram, scale: float, zero_point: int) -> float:
    """Kullback-Leibler divergence of the quantised distribution from the histogram."""
    codes = np.clip(np.rint(histogram.centers / scale) + zero_point, 0, 255).astype(np.int64)
    counts = histogram.counts.astype(np.float64)
    total = np.bincount(codes, counts, 256)
    filled = np.bincount(codes, counts > 0, 256)
    inside = (histogram.centers >= -zero_point * scale) & (histogram.centers <= (255 - zero_point) * scale)
    spread = np.where((counts > 0) & inside, total[codes] / np.maximum(filled[codes], 1), 0.0)
    given, approximate = counts / counts.sum(), (spread + 1e-9) / (spread + 1e-9).sum()
    known = given > 0
    return float((given[known] * np.log(given[known] / approximate[known])).sum())


def fake_quantize(values: np.ndarray, scale: float, zero_point: int) -> np.ndarray:
    """Returns values after quantisation to unsigned 8 bits and back."""
    return (np.clip(np.rint(values / scale) + zero_point, 0, 255) - zero_point) * scale


@dataclass(frozen=True)
class ChannelWeights:
    """A matrix [reduction, channels] in signed 8 bits, with a symmetric scale for each channel.

    Attributes:
        codes: the numbers.
        scales: the scale of each channel; its greatest magnitude becomes 127.
    """

    codes: np.ndarray
    scales: np.ndarray

    @staticmethod
    def of(matrix: np.ndarray) -> ChannelWeights:
        """Rounds a float matrix to nearest."""
        scales = np.maximum(np.abs(matrix).max(axis=0) / 127.0, LEAST_SCALE).astype(np.float32)
        return ChannelWeights(np.clip(np.rint(matrix / scales), -127, 127).astype(np.int8), scales)

    @property
    def values(self) -> np.ndarray:
        """The matrix that the numbers stand for."""
        return self.codes.astype(np.float32) * self.scales

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers and the scales."""
        return self.codes.nbytes + self.scales.nbytes
