"""Compiles training steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..runtime.program import Shape
from ..runtime.training_step import StepCode, TrainingStep
from .joint import TARGET, Recipe, make_joint
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
        trained: names of the trained parameters, once code was compiled.
    """

    model: Trainable
    recipe: Recipe
    target: str
    threads: int | None
    options: Options
    trained: list[str] = field(default_factory=list)

    def step(self) -> TrainingStep:
        """Returns the step, whose code is compiled at the first batch of each shape."""
        names = [info.name for info in self.model.inputs]
        return TrainingStep(names if self.recipe.loss is None else [*names, TARGET], self._make)

    def _make(self, shapes: Mapping[str, Shape]) -> StepCode:
        given = {name: shape for name, shape in shapes.items() if name != TARGET or self.recipe.loss is None}
        joint = make_joint(self.model, self.recipe, given, self.target)
        self.trained[:] = joint.trained
        executable = compile(joint.text, target=self.target, threads=self.threads, options=self.options)
        executable.name = self.model.name
        contents: dict[str, np.ndarray] = {**joint.fixed, **joint.state}
        return StepCode(executable, contents)
