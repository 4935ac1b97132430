"""Detected reasons for which the quantisation of a product adds a large error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from .blocks import BlockWeights
from .observation import Activation
from .plan import Plan, ProductPlan
from .scales import LEAST_SCALE, ActivationScale, ChannelWeights

_OUTLIER = 20.0
"""Minimum ratio of an outlier to the median magnitude.

The SmoothQuant paper reports 20 to 100; the greatest magnitude of a normal distribution has about 6.
"""
_CLIPPED = 0.001
"""Share of clipped values of an activation from which a report names it: a choice."""
_LOST = 0.1
"""Share of the values of an activation that become 0 from which a report names it: a choice.

It is 0.01 if a normal distribution is cut into 255 steps between four times its standard deviation.
"""
_BLOCK_DB = 15.0
"""Signal-to-noise ratio in dB of weights in blocks below which a report names the block; 20 is usual in 4 bits."""
_NAMED = 3
"""Number of channels that a reason lists."""


class FaultKind(Enum):
    """The kinds of faults that are detected."""

    ACTIVATION_OUTLIERS = "outliers of the activation"
    WEIGHT_OUTLIERS = "outliers of the weights"
    LARGE_BLOCK = "block too large"
    CLIPPED = "clipped activation"
    WIDE_RANGE = "range too wide"
    UNDERFLOW = "underflow of a scale"


@dataclass(frozen=True)
class QuantizationFault:
    """A detected reason for which a product adds a large error.

    Attributes:
        kind: its kind.
        text: what was found, with the numbers of channels.
        channels: the input channels that cause it, those that differ most first; empty if none do.
    """

    kind: FaultKind
    text: str
    channels: tuple[int, ...] = ()


def faults(plan: Plan, item: ProductPlan, seen: Mapping[str, Activation]) -> list[QuantizationFault]:
    """Returns what the product's weights and its activation show in the narrowest form."""
    found, narrow = list(_of_weights(item)), item.widths[-1]
    if narrow.activation is None:
        return found
    scale = narrow.activation.scale
    found += _of_activation(seen.get(item.product.data), scale)
    if scale is not None and isinstance(narrow.stored, ChannelWeights):
        # A runtime multiplies sums with the product of both scales, in float32.
        least = float(narrow.stored.scales.astype(np.float64).min()) * scale.scale
        if least < np.finfo(np.float32).tiny:
            text = f"the product of the scales underflows in float32: {least:.2g}"
            found.append(QuantizationFault(FaultKind.UNDERFLOW, text))
    return found


def decibels(wide: np.ndarray, narrow: np.ndarray) -> float:
    """Returns the signal to noise of rounded weights."""
    given = wide.astype(np.float64)
    noise, signal = float(((given - narrow) ** 2).sum()), float((given**2).sum())
    return 10.0 * float(np.log10(signal / noise)) if noise and signal else float("inf")


def _of_weights(item: ProductPlan) -> Iterator[QuantizationFault]:
    product, narrow = item.product, item.widths[-1]
    magnitudes = np.abs(product.matrix)
    by_channel = magnitudes.reshape(product.channels, -1, magnitudes.shape[1]).max(axis=1)
    if isinstance(narrow.stored, BlockWeights):
        if most := _outliers(by_channel.max(axis=1)):
            text = f"input channels of the weights with outliers: {_listed(most)}"
            yield QuantizationFault(FaultKind.WEIGHT_OUTLIERS, text, tuple(most))
        if decibels(product.weight, narrow.weight) < _BLOCK_DB:
            text = f"blocks of {narrow.stored.block} are too large for the spread of the weights"
            yield QuantizationFault(FaultKind.LARGE_BLOCK, text)
        tiny = np.finfo(np.float32).tiny * (1 << narrow.stored.bits)
    elif isinstance(narrow.stored, ChannelWeights):
        if most := _with_a_large_weight(magnitudes):
            text = f"output channels of the weights with outliers: {_listed(most)}"
            rows = dict.fromkeys(int(row) for row in by_channel[:, most].argmax(axis=0))
            yield QuantizationFault(FaultKind.WEIGHT_OUTLIERS, text, tuple(rows))
        tiny = 127 * LEAST_SCALE
    else:
        return
    largest = magnitudes.max(axis=0)
    if len(low := np.flatnonzero((largest > 0) & (largest < tiny))):
        text = f"output channels of the weights whose scale underflows: {_listed(low.tolist())}"
        yield QuantizationFault(FaultKind.UNDERFLOW, text)


def _of_activation(activation: Activation | None, scale: ActivationScale | None) -> Iterator[QuantizationFault]:
    if activation is None:
        return
    if activation.largest is not None and (most := _outliers(activation.largest)):
        text = f"channels of the activation with outliers: {_listed(most)}"
        yield QuantizationFault(FaultKind.ACTIVATION_OUTLIERS, text, tuple(most))
    if scale is None:
        return
    if scale.clipped > _CLIPPED:
        yield QuantizationFault(FaultKind.CLIPPED, f"{100 * scale.clipped:.2g} % of the activation are clipped")
    lost = activation.share_below(scale.scale / 2)
    if 0 < max(activation.high, 0.0) - min(activation.low, 0.0) < 255 * LEAST_SCALE:
        yield QuantizationFault(FaultKind.UNDERFLOW, "the scale of the activation underflows")
    elif lost > _LOST:
        text = f"{100 * lost:.0f} % of the activation's values other than 0 become 0: its range is too wide for them"
        yield QuantizationFault(FaultKind.WIDE_RANGE, text)


def _with_a_large_weight(magnitudes: np.ndarray) -> list[int]:
    """Returns the output channels in which one weight is so large that the others get few numbers."""
    usual = np.median(magnitudes, axis=0)
    spread = np.divide(magnitudes.max(axis=0), usual, out=np.zeros(len(usual)), where=usual > 0)
    return [int(place) for place in np.argsort(-spread) if spread[place] > _OUTLIER]


def _outliers(largest: np.ndarray) -> list[int]:
    usual = float(np.median(largest))
    return [int(place) for place in np.argsort(-largest) if usual and largest[place] > _OUTLIER * usual]


def _listed(channels: Sequence[int]) -> str:
    rest = f" and {len(channels) - _NAMED} more" if len(channels) > _NAMED else ""
    return ", ".join(map(str, channels[:_NAMED])) + rest
