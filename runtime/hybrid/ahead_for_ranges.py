"""Compiles the subgraphs of a model that runs in steps for ranges of sizes, before the first call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ...sizes.deduced import DeducedSizes
from ...sizes.expressions import Expression, substitute
from ..program import Program, TensorInfo

if TYPE_CHECKING:
    from .plan import ExecutionPlan, PlanStep

Types = Sequence[TensorInfo | None]
"""Types of values, with the names of their sizes; None for a type that is known only at run time."""


class RangedRunner(Protocol):
    """A step of a plan that can be compiled for ranges of sizes."""

    @property
    def step(self) -> PlanStep:
        """The step."""
        ...

    def prepare_ranges(self, inputs: Types, ahead: AheadForRanges) -> Types:
        """Compiles the step for inputs with the given types; returns the types of its outputs."""
        ...


@dataclass
class AheadForRanges:
    """A model that is being prepared for ranges of sizes.

    Attributes:
        sizes: the sizes known so far.
        reasons: why there is no code for all sizes of a step, for each such step.
    """

    sizes: DeducedSizes
    reasons: list[str] = field(default_factory=list)

    def prepare(self, plan: ExecutionPlan, runners: Iterable[RangedRunner], inputs: Types) -> Types:
        """Prepares all steps in order; returns the types of the plan's outputs."""
        types = dict(zip(plan.inputs, inputs, strict=True))
        for runner in runners:
            step = runner.step
            results = runner.prepare_ranges([types[name] for name in step.inputs], self)
            types.update(zip(step.outputs, results, strict=True))
        return [types[name] for name in plan.outputs]

    def results_of(self, program: Program, names: Sequence[str]) -> Types:
        """Returns the types of a program's outputs, which have these names in the plan.

        Extents that depend on data become new sizes.
        """
        found: list[TensorInfo | None] = []
        cropped = {place for count in program.counts for place in count.cropped}
        shared: dict[int, str] = {}
        for index, (info, name) in enumerate(zip(program.outputs, names, strict=True)):
            bounds = program.bounds
            extents: Sequence[Expression] = bounds.outputs[index] if bounds is not None else list(map(int, info.shape))
            shape = [
                self._counted(program, (index, axis), f"{name}.{axis}", int(info.shape[axis]), shared)
                if (index, axis) in cropped
                else self.sizes.named(substitute(item, self.sizes.derived), f"{name}.{axis}")
                for axis, item in enumerate(extents)
            ]
            found.append(TensorInfo(name, info.dtype, tuple(shape)))
        return found

    def _counted(self, program: Program, place: tuple[int, int], name: str, most: int, shared: dict[int, str]) -> str:
        """Returns the name of an extent that a count of the program gives; extents of one count have one name."""
        number = next(number for number, count in enumerate(program.counts) if place in count.cropped)
        if number not in shared:
            shared[number] = self.sizes.add(name, most)
        return shared[number]
