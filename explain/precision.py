"""How far a model's outputs are from those of float32 where products are computed in fewer bits."""

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
    """What fewer bits did to one output.

    Attributes:
        name: the output's.
        largest: the largest absolute difference from float32.
        relative: that by the largest absolute value of float32.
        rms: the root of the mean square of all differences, by that of the values.
        lost: how many elements are no longer finite, or not NaN or the infinity that they were.
    """

    name: str
    largest: float
    relative: float
    rms: float
    lost: int

    def record(self) -> dict[str, Any]:
        """The error for JSON."""
        return asdict(self)


def precision_errors(model: Any, inputs: Mapping[str, Any], precision: str) -> tuple[OutputError, ...]:
    """Measures what a precision does to a model's outputs, on a CPU, whose code then rounds as that for GPUs does.

    Args:
        model: as `stepwell.compile` takes it.
        inputs: by name; what a call takes.
        precision: as in `Options.precision`.

    Returns:
        One error for each output of floats.

    Raises:
        InputError: the inputs are not what the model takes.
        Whatever `stepwell.compile` raises.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that code for CPUs is slower this way is no news
        reduced = compile(model, options=Options(winograd=False, precision=precision))
        return errors_of(_arrays(reduced(**inputs)), model, inputs)


def errors_of(outputs: Sequence[Any], model: Any, inputs: Mapping[str, Any]) -> tuple[OutputError, ...]:
    """The same of outputs that are there already, maybe from a GPU."""
    exact = compile(model, options=Options(winograd=False, fallback="quiet"))
    pairs = zip(exact.outputs, outputs, _arrays(exact(**inputs)), strict=True)
    return tuple(
        _error(info.name, got, want)
        for info, got, want in pairs
        if isinstance(want, np.ndarray) and is_float(want.dtype)
    )


def _arrays(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple) else (results,)


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
