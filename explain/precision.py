"""Measures how far a model's outputs are from float32 if products are computed in fewer bits."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..dialects.types import is_float
from ..driver.api import compile
from ..driver.options import Options


@dataclass(frozen=True)
class OutputError:
    """The error of one output due to fewer bits.

    Attributes:
        name: the output's name.
        largest: largest absolute difference from float32.
        relative: the largest difference, relative to the largest absolute value in float32.
        rms: root mean square of all differences, relative to that of the values.
        lost: number of elements that are no longer finite, or no longer NaN or the same infinity.
    """

    name: str
    largest: float
    relative: float
    rms: float
    lost: int

    def record(self) -> dict[str, Any]:
        """The error as a record for JSON."""
        return asdict(self)


def precision_errors(model: Any, inputs: Mapping[str, Any], precision: str) -> tuple[OutputError, ...]:
    """Measures the effect of a precision on a model's outputs on a CPU, whose code then rounds like code for GPUs.

    Args:
        model: as `stepwell.compile` takes it.
        inputs: the inputs of a call, by name.
        precision: as in `Options.precision`.

    Returns:
        One error for each float output.

    Raises:
        InputError: the inputs do not fit the model.
        Any error of `stepwell.compile`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the warning that code for CPUs is slower this way is expected
        reduced = compile(model, options=Options(winograd=False, precision=precision))
        return errors_of(reduced.outputs_for(inputs), model, inputs)


def errors_of(outputs: Sequence[Any], model: Any, inputs: Mapping[str, Any]) -> tuple[OutputError, ...]:
    """Measures the error of given outputs, which may come from a GPU."""
    exact = compile(model, options=Options(winograd=False, fallback="quiet"))
    pairs = zip(exact.outputs, outputs, exact.outputs_for(inputs), strict=True)
    return tuple(
        _error(info.name, got, want)
        for info, got, want in pairs
        if isinstance(want, np.ndarray) and is_float(want.dtype)
    )


def _error(name: str, got: np.ndarray, want: np.ndarray) -> OutputError:
    got, want = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(got) & np.isfinite(want)
    same = finite | (got == want) | (np.isnan(got) & np.isnan(want))
    difference, values = np.abs(got - want)[finite], np.abs(want[finite])
    if not values.size:
        return OutputError(name, 0.0, 0.0, 0.0, int((~same).sum()))
    largest, most = float(difference.max()), float(values.max())
    total = float(np.sqrt((values**2).mean()))
    return OutputError(
        name,
        largest,
        largest / most if most else 0.0,
        float(np.sqrt((difference**2).mean())) / total if total else 0.0,
        int((~same).sum()),
    )
