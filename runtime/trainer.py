"""`Trainer`: a compiled training step with its parameters and the state of its optimiser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import ArtefactError, InputError
from . import safetensors
from .artefact import reader
from .compiled_model import CompiledModel
from .executable import Executable
from .program import Shape
from .training_step import StepCode, TrainingStep

LOSS, RATE, STEP = "loss", "learning_rate", "step"
"""Names of the loss among the outputs of a step, and of the learning rate and the number of steps in its state."""


class Trainer:
    """Trains a model: each call of `step` runs forward pass, backward pass and optimiser as one program.

    Calls of one trainer must follow each other. An array of `parameters` is never changed: a step makes new ones.

    Attributes:
        name: the model's name.
        outputs: the model's outputs in the last step, by name.
    """

    def __init__(self, step: TrainingStep, trained: Sequence[str], name: str = "model") -> None:
        """Makes a training step callable.

        Args:
            step: the step; it holds its learning rate.
            trained: names of the parameters that it changes; a list may be filled when code is compiled.
            name: the model's name.
        """
        self.name, self.outputs = name, dict[str, np.ndarray]()
        self._step, self._trained = step, trained

    def step(self, *batch: Any, **named: Any) -> float:
        """Changes the parameters by one step, and returns the loss before it.

        Args:
            batch: the model's inputs, then the target of the loss, as arrays or anything with `__dlpack__`.
            named: the same by name; the target is called "target".

        Raises:
            InputError: the batch does not fit the model.
        """
        self.outputs = self._step(*batch, **named)
        return float(self.outputs.pop(LOSS).reshape(()))

    def prepare(self, shapes: Mapping[str, Shape]) -> Executable:
        """Compiles the step for the shapes of a batch, by name, before its first call.

        Raises:
            InputError: a shape is missing, or there is no compiler.
        """
        return self._step.prepare(shapes)

    @property
    def batch(self) -> tuple[str, ...]:
        """The names of the arrays of a batch, in order."""
        return self._step.batch

    @property
    def executables(self) -> list[Executable]:
        """The code of the step, for each set of shapes of a batch."""
        return self._step.executables

    @property
    def learning_rate(self) -> float:
        """The learning rate of the next step; it can be set between steps."""
        return float(self._step.held[RATE])

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        self._step.held[RATE] = np.array(rate, np.float32)

    @property
    def steps(self) -> int:
        """The number of steps so far."""
        return int(self._step.held[STEP])

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """The contents of the trained parameters by name."""
        return {name: self._step.held[name] for name in self._trained}

    @property
    def state(self) -> dict[str, np.ndarray]:
        """All arrays that a step takes besides a batch: parameters, the state of the optimiser, the learning rate."""
        return dict(self._step.held)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continues from arrays that `state` returned, or from some of them, such as parameters.

        Raises:
            InputError: there is no such array, or it has another shape or element type.
        """
        for name, array in state.items():
            known = self._step.held.get(name)
            if known is None:
                raise InputError(f"the trainer has no state '{name}'; it has {', '.join(self._step.held)}")
            if known.shape != array.shape or known.dtype != array.dtype:
                raise InputError(
                    f"state '{name}' is {known.dtype.name}{list(known.shape)}, but {array.dtype.name}"
                    f"{list(array.shape)} was given"
                )
        self._step.held |= {name: np.array(array) for name, array in state.items()}

    def save_weights(self, path: str | os.PathLike[str], *, everything: bool = False) -> None:
        """Writes the parameters as safetensors; with `everything`, the state of the optimiser too.

        Raises:
            ArtefactError: the file cannot be written.
        """
        arrays = self.state if everything else self.parameters
        try:
            with open(path, "wb") as file:
                for chunk in safetensors.chunks(arrays):
                    file.write(chunk)
        except OSError as error:
            raise ArtefactError(f"{path}: cannot be written: {error.strerror or error}") from error

    def load_weights(self, path: str | os.PathLike[str]) -> None:
        """Reads arrays that `save_weights` wrote, by their names.

        Raises:
            ArtefactError: the file cannot be read.
            InputError: it has arrays that the trainer does not have.
        """
        try:
            data = np.fromfile(path, np.uint8)
        except OSError as error:
            raise ArtefactError(f"{path}: {error.strerror or error}") from error
        self.restore(safetensors.view(data))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes code, parameters and the state of the optimiser as an artefact, which `Trainer.load` reads.

        Raises:
            ArtefactError: the file cannot be written, or nothing is compiled yet.
        """
        executables = self.executables
        if not executables:
            raise ArtefactError(
                f"{self.name}: there is no code to save: take a step, or `prepare` the shapes of a batch"
            )
        stored = executables[0].stored()
        training = reader.Training(self.batch, tuple(self._trained), self.state)
        programs = [program for item in executables for program in item.stored().programs]
        from .artefact.writer import write  # not needed by steps

        write(Path(path), replace(stored, name=self.name, programs=tuple(programs), training=training))

    @staticmethod
    def load(path: reader.Given, threads: int | None = None) -> Trainer:
        """Loads a trainer that `save` wrote, and continues it; needs neither the compiler nor the model.

        Args:
            path: the `.stw` file, its contents, or a file that is open for reading bytes.
            threads: number of threads of a step; by default one for each core.

        Raises:
            ArtefactError: the file is damaged, is not of a trainer, or was made for another kind of machine.
        """
        stored = reader.read(path)
        training = stored.training
        if training is None:
            raise ArtefactError(f"{stored.name}: the file has no training step; `stepwell.load` reads models")
        codes = {}
        for program in stored.programs:
            shapes = {info.name: info.shape for info in program.inputs}
            alone = replace(stored, inputs=program.inputs, outputs=program.outputs, programs=(program,))
            executable = Executable(CompiledModel.of(alone), threads)
            batch = tuple(_numbers(shapes[name]) for name in training.batch)
            codes[batch] = StepCode(executable, training.state)
        return Trainer(TrainingStep(training.batch, None, codes), training.trained, stored.name)

    def __repr__(self) -> str:
        count = len(self._trained)
        return f"<Trainer {self.name}: {count} parameters, batch of {', '.join(self.batch)}>"


def _numbers(shape: Sequence[int | str]) -> Shape:
    return tuple(int(dim) for dim in shape)
