"""Compares values: whether they differ by more than rounding, by how much, and at which index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from mlir import ir

from ...dialects.core import Rounding
from ...dialects.interpreter import Around
from ...dialects.registry import OPS
from ...dialects.types import is_float

_RTOL = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}
NOISE_FACTOR = 64
"""Factor up to which a multiple of the change under different rounding still counts as rounding."""

_STRICT_UNITS, _STRICT_FACTOR = 16, 8
"""The same two limits for functions with stated error bounds (docs/numerics.md: at most 4 units in the last place)."""

_DRAWS = 3
"""Number of runs that show the effect of rounding: a choice, as each takes the time of a run."""


def rounding_of(name: str) -> Rounding:
    """Returns the rounding of an op's results; parameters count as rounded, ops of MLIR as exact."""
    kind = OPS.get(name)
    return Rounding.EXACT if kind is None else kind.ROUNDING


@dataclass(frozen=True)
class Difference:
    """The difference between computed and expected values.

    Attributes:
        error: largest absolute error; infinite if only one of the values is a number, or shapes or types differ.
        relative: largest error, relative to the sum of the expected value and the tensor's median.
        place: index of the largest error.
        got: the value there.
        expected: the expected value there.
        wrong: number of wrong values.
        total: number of values.
        reason: a difference other than in values: in shape or element type.
    """

    error: float = 0.0
    relative: float = 0.0
    place: tuple[int, ...] = ()
    got: str = ""
    expected: str = ""
    wrong: int = 0
    total: int = 0
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        """True if the difference is more than rounding."""
        return self.wrong > 0 or bool(self.reason)

    def record(self) -> dict[str, Any]:
        """The fields for JSON, which has no infinities."""
        numbers = {name: value if np.isfinite(value) else None for name, value in self._numbers().items()}
        place = {"place": list(self.place), "got": self.got, "expected": self.expected}
        return {**numbers, **place, "wrong": self.wrong, "total": self.total, "reason": self.reason}

    def _numbers(self) -> dict[str, float]:
        return {"error": self.error, "relative": self.relative}

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        size = f"{self.error:.3g} ({self.relative:.2g} relative)"
        if not self.wrong:
            return f"largest error {size}"
        index = ", ".join(map(str, self.place))
        where = f"at [{index}] {self.got}, expected {self.expected}"
        return f"{self.wrong} of {self.total} values are wrong, by up to {size}: {where}"


@dataclass(frozen=True)
class Tolerance:
    """The difference that counts as rounding.

    Attributes:
        rtol: the relative error that is allowed; None for a default for each element type.
        is_strict: whether only functions with stated error bounds compute the values.
    """

    rtol: float | None = None

    is_strict: bool = False

    @property
    def noise_factor(self) -> int:
        """The allowed multiple of the change under different rounding."""
        return _STRICT_FACTOR if self.is_strict else NOISE_FACTOR

    def of(self, dtype: np.dtype) -> float:
        """Returns the relative error that is allowed for an element type; 0 for exact types."""
        if not is_float(dtype):
            return 0.0
        if self.rtol is not None:
            return self.rtol
        eps = float(ml_dtypes.finfo(dtype).eps)
        usual = _RTOL.get(dtype.name, 4 * eps)
        return min(usual, _STRICT_UNITS * eps) if self.is_strict else usual


def approximation_error(dtype: np.dtype) -> float:
    """Returns the absolute error of other systems' functions near zero, where polynomials are right relative to one."""
    return 8 * float(ml_dtypes.finfo(dtype).eps) if is_float(dtype) else 0.0


def compare(
    got: np.ndarray, want: np.ndarray, tolerance: Tolerance, noise: np.ndarray | float | None = None
) -> Difference:
    """Compares an array with the expected one.

    Errors are relative to the value plus the tensor's median. A sum near zero of large terms has few correct digits,
    and would otherwise count as wrong.

    Args:
        got: the computed values.
        want: the expected values.
        tolerance: the error that counts as rounding.
        noise: the change of the expected values if inputs are rounded differently, or their own error.
    """
    got, want = np.asarray(got), np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        reason = f"{got.dtype.name}{list(got.shape)}, expected {want.dtype.name}{list(want.shape)}"
        return Difference(np.inf, np.inf, reason=reason)
    if not want.size or want.dtype == object:
        return Difference(total=want.size)
    left, right = _numbers(got), _numbers(want)
    with np.errstate(all="ignore"):
        error = np.abs(left - right)
        same = (left == right) | (np.isnan(left) & np.isnan(right))
        error = np.where(same, 0.0, np.where(np.isfinite(left) & np.isfinite(right), error, np.inf))
        size = np.where(np.isfinite(right), np.abs(right), 0.0)
    positive = size[size > 0]
    usual = float(np.median(positive)) if positive.size else 0.0
    floor = np.finfo(np.float64).tiny
    rtol = tolerance.of(want.dtype)
    # Denormal results may be zero (docs/numerics.md).
    least = 4 * float(ml_dtypes.finfo(want.dtype).tiny) if is_float(want.dtype) else 0.0
    allowed = rtol * (size + usual) + (0.0 if noise is None else tolerance.noise_factor * noise) + least
    wrong = error > allowed
    with np.errstate(over="ignore"):
        relative = error / np.maximum(size + usual, floor)
    excess = np.where(wrong, error, -1.0) if wrong.any() else error
    place = tuple(int(index) for index in np.unravel_index(int(np.argmax(excess)), error.shape))
    largest = float(np.max(relative[wrong])) if wrong.any() else float(relative.max())
    values = str(got[place]), str(want[place])
    return Difference(float(error[place]), largest, place, *values, int(wrong.sum()), want.size)


def worst(differences: Sequence[Difference]) -> Difference:
    """Returns the most severe difference; an empty one if there are none."""
    return max(differences, key=lambda item: (item.is_wrong, item.relative), default=Difference())


Evaluate = Callable[[Sequence[np.ndarray], Around | None], Sequence[np.ndarray]]
"""Computes results from inputs; the second argument wraps every operation of the interpreter."""


def noise_of(evaluate: Evaluate, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Measures the change of results when inputs, parameters and rounded results change by their last digit.

    It is large for ill-conditioned values (a difference of large numbers, a softmax of large scores, rounding at a
    tie), which are therefore not reported as faults.

    Args:
        evaluate: computes the results.
        inputs: the inputs.
    """
    random = np.random.default_rng(0)
    base = [_numbers(array) for array in evaluate(inputs, None)]
    noise = [np.zeros(array.shape) for array in base]
    for _ in range(_DRAWS):
        moved = evaluate([_moved(array, random) for array in inputs], _rounded_differently(random))
        for index, (array, first) in enumerate(zip(moved, base, strict=True)):
            if array.shape != first.shape:
                continue
            with np.errstate(all="ignore"):
                change = np.abs(_numbers(array) - first)
            noise[index] = np.maximum(noise[index], np.where(np.isfinite(change), change, 0.0))
    return noise


def _rounded_differently(random: np.random.Generator) -> Around:
    def around(operation: ir.Operation, operands: Sequence[Any], compute: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        results = compute()
        if rounding_of(operation.name) is Rounding.EXACT:
            return results
        return [_moved(item, random) if isinstance(item, np.ndarray) else item for item in results]

    return around


def _moved(array: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if not is_float(array.dtype) or array.dtype.itemsize < 2:
        return array
    steps = random.integers(-1, 2, array.shape) * float(ml_dtypes.finfo(array.dtype).eps)
    with np.errstate(all="ignore"):
        return (array.astype(np.float64) * (1 + steps)).astype(array.dtype)


def _numbers(array: np.ndarray) -> np.ndarray:
    return np.asarray(array).astype(np.float64)
