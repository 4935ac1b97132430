"""Compiles training steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..driver.setup import Setup
from ..runtime.executable import Executable
from ..runtime.program import Shape
from ..runtime.training_step import StepCode, TrainingStep
from .joint import Joint, make_joint, make_update
from .losses import of_many
from .memory import check_budget, within
from .recipe import KEY, Recipe
from .trainable import Trainable


@dataclass
class StepCompiler:
    """Compiles the training step of a model.

    Attributes:
        model: the model.
        recipe: how it is trained.
        target: the target of the code.
        threads: number of threads of a call; None for one for each core.
        options: how to compile.
        seed: which random choices a training makes.
        memory_budget: bytes of the values of a step, or a fraction of what they take if none is computed again; None
            for any.
        trained: names of the trained parameters, once code was compiled.
        held: the arrays that are kept between calls.
    """

    model: Trainable
    recipe: Recipe
    target: str
    threads: int | None
    options: Options
    seed: int = 0
    memory_budget: int | float | None = None
    trained: list[str] = field(default_factory=list)
    held: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_budget(self.memory_budget)

    def step(self) -> TrainingStep:
        """Returns the step, whose code is compiled at the first batch of each shape."""
        targets = () if self.recipe.loss is None else of_many(self.recipe.loss).targets
        names = [info.name for info in self.model.inputs]
        return TrainingStep([*names, *targets], self._make, held=self.held)

    def update(self) -> TrainingStep | None:
        """Returns the step of the optimiser from sums of gradients; None if `step` takes it."""
        return TrainingStep((), self._make_update, held=self.held) if self.recipe.is_split else None

    def _make(self, shapes: Mapping[str, Shape]) -> StepCode:
        joint = make_joint(self.model, self.recipe, shapes, self.target)
        self.trained[:] = joint.trained
        if KEY in joint.state:
            joint.state[KEY] = first_key(self.seed)
        return self._compiled(joint)

    def _make_update(self, shapes: Mapping[str, Shape]) -> StepCode:
        return self._compiled(make_update(self.recipe, {name: self.held[name] for name in self.trained}))

    def module(self, shapes: Mapping[str, Shape]) -> bytes:
        """Returns the module of the step for the shapes of a batch, by name, in MLIR.

        Within a budget of memory, it is the module of which some values are computed again.
        """
        joint = make_joint(self.model, self.recipe, shapes, self.target)
        return self._within_budget(joint)[0]

    def _compiled(self, joint: Joint) -> StepCode:
        return StepCode(self._within_budget(joint)[1], {**joint.fixed, **joint.state})

    def _within_budget(self, joint: Joint) -> tuple[bytes, Executable]:
        """The module of a step, changed so that it takes no more memory than the budget, and its code."""
        if self.memory_budget is None or not joint.forward:
            return joint.text, self._executable(joint.text)
        setup, budget = Setup.of(self.target, self.options), self.memory_budget
        planned = within(joint.text, joint.forward, budget, setup)
        executable = self._executable(planned.text)
        workspace = executable.peak_bytes - planned.report.peak
        allowed = planned.report.budget
        if workspace > 0 and executable.peak_bytes > allowed > workspace:
            # Temporaries of kernels, which are known once these have code.
            planned = within(joint.text, joint.forward, allowed - workspace, setup, stated=allowed)
            executable = self._executable(planned.text)
        return planned.text, executable

    def _executable(self, text: bytes) -> Executable:
        executable = compile(text, target=self.target, threads=self.threads, options=self.options)
        executable.name = self.model.name
        return executable


def first_key(seed: int) -> np.ndarray:
    """The first key of random choices.

    Keys grow by 1 in each step, so those of two seeds are far apart: 2**32 divided by the golden ratio spreads them.
    """
    return np.array(seed * 0x9E3779B9 % (1 << 32), np.int64)
