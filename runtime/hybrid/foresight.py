"""Types and contents known before a run, used to compile all subgraphs of a model that runs in steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...support.errors import RuntimeFailure
from ..specialization.interfaces import UNKNOWN, Known

if TYPE_CHECKING:
    from .plan import ExecutionPlan, HostStep, PlanStep


ContentsAhead = Callable[[int], np.ndarray | None]
"""The contents of a step's input, by position; None if they are known only at run time."""


class Foresight(Protocol):
    """Facts about a model that only its compiler knows."""

    def outputs_of(
        self, step: HostStep, inputs: Mapping[str, Known], contents: Mapping[str, np.ndarray]
    ) -> list[Known]:
        """Returns the output types of a node on the host for given input types and some inputs' known contents."""
        ...

    def is_decided(self, name: str) -> bool:
        """Returns whether the shapes of the model's inputs determine the contents of a value."""
        ...


class StepRunner(Protocol):
    """A step of a plan, ready to be prepared and run."""

    @property
    def step(self) -> PlanStep:
        """The step."""
        ...

    @property
    def can_run_ahead(self) -> bool:
        """True if a run on inputs of the right types gives correct values for all outputs that shapes determine."""
        ...

    def run(self, values: Sequence[Any], threads: int) -> Sequence[Any]:
        """Runs the step and returns its outputs."""
        ...

    def prepare(self, inputs: Sequence[Known], ahead: Ahead, contents: ContentsAhead) -> list[Known]:
        """Compiles the step for the given input types; returns the types of its outputs."""
        ...


@dataclass
class Ahead:
    """A model in steps, prepared for inputs of given types.

    Attributes:
        plan: the steps.
        runners: the steps, ready to run.
        foresight: facts about the model; None if there are none.
        types: types of values by name, for the steps prepared so far.
        values: contents of values by name. Those of values that shapes do not determine are placeholders.
        missing: the steps without code, each with the reason.
    """

    plan: ExecutionPlan
    runners: Sequence[StepRunner]
    foresight: Foresight | None
    types: dict[str, Known]
    values: dict[str, Any]
    missing: list[tuple[StepRunner, str]] = field(default_factory=list)

    def prepare(self) -> list[Known]:
        """Prepares all steps in order; returns the types of the plan's outputs."""
        for runner in self.runners:
            step = runner.step
            given = [self.types[name] for name in step.inputs]
            results = runner.prepare(given, self, lambda position, step=step: self.contents(step.inputs[position]))
            self.types.update(zip(step.outputs, results, strict=True))
        return [self.types[name] for name in self.plan.outputs]

    def contents(self, name: str) -> np.ndarray | None:
        """Returns the contents of a value; None if shapes do not determine them, or they cannot be computed here."""
        if name in self.plan.inputs:
            return self.values.get(name)
        if self.foresight is None or not self.foresight.is_decided(name):
            return None
        try:
            value = self._value(name)
        except (RuntimeFailure, MemoryError):  # a run will determine it, or fail likewise and report why
            return None
        return value if isinstance(value, np.ndarray) else None

    def _value(self, name: str) -> Any:
        """Returns a value computed from zeros as inputs; None if a step on the way cannot be run."""
        if name not in self.values:
            maker = next((runner for runner in self.runners if name in runner.step.outputs), None)
            if maker is None:
                self.values[name] = _zeros(self.types[name])
                return self.values[name]
            types = [self.types.get(item, UNKNOWN) for item in maker.step.inputs]
            if not maker.can_run_ahead or any(kind.info is None for kind in types):
                return None
            given = [self._value(item) for item in maker.step.inputs]
            if any(value is None for value in given):
                return None
            self.values.update(zip(maker.step.outputs, maker.run(given, 1), strict=True))
        return self.values[name]


def _zeros(known: Known) -> np.ndarray | None:
    info = known.info
    if info is None or info.kind != "tensor" or info.dtype == object:
        return None
    return np.zeros([int(dim) for dim in info.shape], info.dtype)
