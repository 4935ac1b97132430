"""Base of search spaces: axes with values, and the schedule's parameters that a choice of values stands for."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ....machines.machine import Machine
from ....support.errors import StepwellError

if TYPE_CHECKING:
    from typing_extensions import Self

SpaceChoice = Mapping[str, Any]
"""Values by the names of axes. An axis that is missing or has the value None is as in the default schedule."""

Parameters = Mapping[str, Any]
"""Parameters of `stepwell.schedule` that differ from those of the default schedule."""


EFFECT = "is "
"""Beginning of the names of features that stand for one value of one axis."""


class RefusedError(StepwellError):
    """A choice is not a legal schedule; the message gives the reason."""


@dataclass(frozen=True)
class Axis:
    """A part of a schedule that may be chosen.

    Attributes:
        name: its name.
        values: the values, the default one (None) first; neighbours are similar.
    """

    name: str
    values: tuple[Any, ...]

    @staticmethod
    def of(name: str, values: Iterable[Any]) -> Axis:
        """Returns an axis with the default value and the given ones."""
        return Axis(name, (None, *dict.fromkeys(values)))


@dataclass(frozen=True)
class SearchSpace(ABC):
    """The schedules that a kernel may have; it holds no IR.

    Attributes:
        machine: the machine.
        default: all parameters of the default schedule.
        axes: the parts of a schedule that may be chosen.
    """

    machine: Machine
    default: Parameters
    axes: tuple[Axis, ...] = field(default=())

    @property
    def size(self) -> int:
        """Number of choices, legal or not."""
        return math.prod(len(axis.values) for axis in self.axes)

    @abstractmethod
    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        """Returns the parameters of a choice, without those that equal the default.

        Raises:
            RefusedError: the choice is not legal.
        """

    def on(self, machine: Machine) -> Self:
        """Returns the same schedules, whose times are predicted for another description of the machine."""
        return replace(self, machine=machine)

    def complete(self, parameters: Parameters) -> dict[str, Any]:
        """Returns all parameters of a schedule."""
        return {**self.default, **parameters}

    def changed(self, parameters: Parameters) -> dict[str, Any]:
        """Returns the parameters that differ from the default."""
        return {name: value for name, value in parameters.items() if self.default.get(name) != value}

    @abstractmethod
    def features(self, parameters: Parameters) -> dict[str, float]:
        """Returns the features from which a learned model predicts the time of a schedule, by name."""

    @abstractmethod
    def predicted(self, parameters: Parameters) -> float | None:
        """Returns the time of a schedule by the cost function, in any unit; None if the function does not cover it."""


def counts_up_to(most: int) -> list[int]:
    """Returns candidates for the number of parts into which `most` steps are cut."""
    return [count for count in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32) if count <= most]


def divisors_up_to(number: int, most: int) -> list[int]:
    """Returns the divisors of a number up to `most`."""
    return [count for count in range(1, min(number, most) + 1) if number % count == 0]


def log2(value: float) -> float:
    """Returns the logarithm of a positive number, and -1 for zero."""
    return math.log2(value) if value > 0 else -1.0
