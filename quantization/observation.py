"""Statistics of activations over calibration samples: ranges, histograms, channels, and x^T x."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from ..driver.api import compile
from ..driver.options import Options
from .float_model import FloatModel, QuantizationError
from .scales import BINS, Histogram
from .subgraphs import InnerValues

Sample = Mapping[str, Any]
"""The inputs of a call, by name."""

LEAST_EXPONENT = -148
"""Exponent of the least float32 above 0, as `numpy.frexp` gives it."""
_EXPONENTS = 128 - LEAST_EXPONENT + 1


@dataclass
class Activation:
    """The statistics of one activation.

    Attributes:
        low: least value.
        high: greatest value.
        counts: histogram between `low` and `high`; zeros unless requested.
        largest: greatest magnitude of each channel.
        means: mean magnitude of each channel.
        exponents: number of values other than 0 whose magnitude is in [2^(i - 1), 2^i), at `i - LEAST_EXPONENT`.
        gram: x^T x over all rows; None unless requested.
        rows: number of rows.
    """

    low: float = np.inf
    high: float = -np.inf
    counts: np.ndarray = field(default_factory=lambda: np.zeros(BINS))
    largest: np.ndarray | None = None
    means: np.ndarray | None = None
    exponents: np.ndarray = field(default_factory=lambda: np.zeros(_EXPONENTS, np.int64))
    gram: np.ndarray | None = None
    rows: int = 0

    @property
    def histogram(self) -> Histogram:
        """The histogram."""
        return Histogram(self.low, self.high, self.counts)

    def share_below(self, magnitude: float) -> float:
        """Returns about which share of the values other than 0 is below a magnitude."""
        below = max(0, int(np.floor(np.log2(magnitude))) - LEAST_EXPONENT + 1)
        return float(self.exponents[:below].sum() / max(self.exponents.sum(), 1))


class CalibrationModel:
    """Runs a float model with activations as further outputs."""

    def __init__(self, model: FloatModel, names: Sequence[str]) -> None:
        """Compiles the model.

        Args:
            model: the model.
            names: the activations.
        """
        self._inputs = [name for name in names if name in {item.name for item in model.graph.input}]
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        self._inner = InnerValues(proto, [name for name in names if name not in self._inputs])
        self._names = [name for name in names if name not in {*self._inputs, *self._inner}]
        declared = {item.name for item in proto.graph.output}
        for name in self._names:
            if name not in declared:
                proto.graph.output.add().name = name
        self._order = [item.name for item in proto.graph.output]
        self._executable = compiled(proto)

    def values(self, sample: Sample) -> dict[str, np.ndarray]:
        """Returns the activations of a sample, without those of branches that it does not take.

        Raises:
            QuantizationError: the sample does not fit the model, or an activation is not finite.
        """
        results = outputs_of(self._executable, sample)
        found = dict(zip(self._order, results, strict=True))
        values = {name: np.asarray(found[name]) for name in self._names}
        values |= {name: np.asarray(sample[name]) for name in self._inputs}
        inner = {name: self._inner.value(name, found) for name in self._inner}
        values |= {name: value for name, value in inner.items() if value is not None}
        for name, value in values.items():
            if not np.isfinite(value).all():
                raise QuantizationError(f"calibration: '{name}' has values that are not finite")
        return values


def observe(
    model: FloatModel,
    samples: Sequence[Sample],
    channels: Mapping[str, int],
    wants_histogram: bool,
    wants_gram: bool,
) -> dict[str, Activation]:
    """Observes activations: a first run finds ranges; a second one fills histograms and x^T x, if these are wanted.

    Args:
        model: the model.
        samples: the calibration samples.
        channels: the axis of the channels of each activation.
        wants_histogram: whether to fill histograms.
        wants_gram: whether to sum up x^T x.
    """
    observer = CalibrationModel(model, list(channels))
    found = {name: Activation() for name in channels}
    for sample in samples:
        for name, value in observer.values(sample).items():
            _add_range(found[name], value, channels[name])
    for sample in samples if wants_histogram or wants_gram else ():
        for name, value in observer.values(sample).items():
            item = found[name]
            if wants_histogram and item.high > item.low:
                item.counts += np.histogram(value, BINS, (item.low, item.high))[0]
            if wants_gram and channels[name] == -1:
                rows = value.reshape(-1, value.shape[-1]).astype(np.float64)
                gram = rows.T @ rows
                item.gram = gram if item.gram is None else item.gram + gram
    return found


def _add_range(item: Activation, value: np.ndarray, axis: int) -> None:
    item.low, item.high = min(item.low, float(value.min())), max(item.high, float(value.max()))
    rows = np.abs(np.moveaxis(value, axis, -1)).reshape(-1, value.shape[axis]) if value.ndim else np.abs(value)[None]
    largest, mean = rows.max(axis=0), rows.mean(axis=0, dtype=np.float64)
    count = item.rows + len(rows)
    item.means = mean if item.means is None else item.means + (mean - item.means) * len(rows) / count
    item.largest = largest if item.largest is None else np.maximum(item.largest, largest)
    item.rows = count
    exponents = np.frexp(rows[rows > 0])[1] - LEAST_EXPONENT
    item.exponents += np.bincount(np.clip(exponents, 0, _EXPONENTS - 1), minlength=_EXPONENTS)


def compiled(proto: onnx.ModelProto) -> Any:
    """Compiles a model for the measurements of the quantiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the speed of the code does not matter here
        return compile(proto, options=Options(fallback="quiet"))


def outputs_of(executable: Any, sample: Sample) -> Sequence[np.ndarray]:
    """Returns the outputs for a sample.

    Raises:
        InputError: it does not fit the model.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return executable.outputs_for(sample)
