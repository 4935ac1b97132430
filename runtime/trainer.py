"""`Trainer`: a compiled training step with its parameters and the state of its optimiser."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..support.errors import ArtefactError
from . import safetensors
from .artefact import reader
from .compiled_model import CompiledModel
from .executable import Executable
from .program import Program, Shape
from .recomputation import Recomputation
from .replicas import Processes, Replicas
from .training_step import COUNT, StepCode, TrainingStep

LOSS, LOSS_WEIGHT, RATE, STEP = "loss", "loss_weight", "learning_rate", "step"
"""Names of the loss and its weight among the outputs of a step, and of two arrays of its state."""

SCALE, SKIPPED = "loss_scale", "skipped_steps"
"""Names of the state that is the factor of the loss, and the number of steps left out."""


class Trainer:
    """Trains a model: each call of `step` runs forward pass, backward pass and optimiser as one program.

    If gradients are accumulated, or added among processes, the optimiser is a program of its own, which runs after the
    last micro-batch of a step. Calls of one trainer must follow each other. An array of `parameters` is never changed:
    a step makes new ones.

    Attributes:
        name: the model's name.
        outputs: the model's outputs in the last step, by name.
        accumulate: number of micro-batches of a step.
    """

    def __init__(
        self,
        step: TrainingStep,
        trained: Sequence[str],
        name: str = "model",
        *,
        update: TrainingStep | None = None,
        accumulate: int = 1,
        processes: Processes | None = None,
    ) -> None:
        """Makes a training step callable.

        Args:
            step: the step; it holds its learning rate.
            trained: names of the parameters that it changes; a list may be filled when code is compiled.
            name: the model's name.
            update: the step of the optimiser from sums of gradients, if `step` computes these; it shares `step.held`.
            accumulate: number of micro-batches of a step.
            processes: the processes among which gradients are added.
        """
        self.name, self.outputs, self.accumulate = name, dict[str, np.ndarray](), accumulate
        self._step, self._trained, self._update = step, trained, update
        self._pending: dict[str, np.ndarray] = {}
        self._replicas = None if processes is None else Replicas(processes, step.held)

    def step(self, *batch: Any, **named: Any) -> float:
        """Changes the parameters by one step, and returns the loss before it.

        If gradients are accumulated, each call takes one micro-batch, and every `accumulate`-th one changes the
        parameters. Among several processes, the loss is that of the batches of all of them.

        Args:
            batch: the model's inputs, then the targets of the loss, as arrays or anything with `__dlpack__`.
            named: the same by name; the target is called "target".

        Raises:
            InputError: the batch does not fit the model.
        """
        if not self._step.executables or self._pending:
            self._begin(self._step.prepare_for(*batch, **named))
        if self._update is None:
            self.outputs = self._step(*batch, **named)
            return float(self.outputs.pop(LOSS).reshape(()))
        replicas = self._replicas
        self.outputs = self._step(*batch, **named) if replicas is None else replicas.run(self._step, batch, named)
        loss, weight = (self.outputs.pop(name).reshape(()) for name in (LOSS, LOSS_WEIGHT))
        if int(self._step.held[COUNT]) >= self.accumulate:
            self.flush()
        return float(loss) if replicas is None else replicas.mean(float(loss), float(weight))

    def flush(self) -> bool:
        """Changes the parameters by the gradients of the micro-batches since the last step.

        `step` does so after the last micro-batch of a step; at the end of the data there may be fewer.

        Returns:
            Whether there were any micro-batches.
        """
        if self._update is None or not self._step.executables or not int(self._step.held[COUNT]):
            return False
        if self._replicas is not None:
            self._replicas.add_sums(self._trained, self._step)
        self._update()
        return True

    def _begin(self, executable: Executable) -> Executable:
        """Takes over restored arrays once there is code that takes them."""
        if self._update is not None:
            self._update.prepare({})
        if self._pending:
            pending, self._pending = self._pending, {}
            self._step.restore(pending)
        if self._replicas is not None:
            self._replicas.begin()
        return executable

    def prepare(self, shapes: Mapping[str, Shape]) -> Executable:
        """Compiles the step for the shapes of a batch, by name, before its first call.

        Raises:
            InputError: a shape is missing, or there is no compiler.
        """
        return self._begin(self._step.prepare(shapes))

    @property
    def batch(self) -> tuple[str, ...]:
        """The names of the arrays of a batch, in order."""
        return self._step.batch

    @property
    def executables(self) -> list[Executable]:
        """The code of the step, for each set of shapes of a batch, and that of the optimiser if it is apart."""
        return [*self._step.executables, *([] if self._update is None else self._update.executables)]

    @property
    def recomputations(self) -> list[Recomputation]:
        """For each set of shapes of a batch: what `memory_budget` made the step keep, and compute again."""
        return self._step.recomputations

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
        return int(self._step.held.get(STEP, 0))

    @property
    def skipped(self) -> int:
        """The number of steps that were left out because a gradient was not finite, if the loss is scaled."""
        return int(self._step.held.get(SKIPPED, 0))

    @property
    def loss_scale(self) -> float:
        """The factor of the loss in the next backward pass."""
        return float(self._step.held.get(SCALE, 1.0))

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

        Before the first step they are kept, and checked once code is compiled.

        Raises:
            InputError: there is no such array, or it has another shape or element type.
        """
        if self._step.executables:
            self._step.restore(state)
        else:
            self._pending |= {name: np.array(array) for name, array in state.items()}

    def save_weights(self, path: str | os.PathLike[str], *, everything: bool = False) -> None:
        """Writes the parameters as safetensors; with `everything`, all of `state`, from which training continues.

        A file of that name is replaced once the new one is complete.

        Raises:
            ArtefactError: the file cannot be written.
        """
        from .artefact.writer import write_atomically  # not needed by steps

        pieces = safetensors.chunks(self.state if everything else self.parameters, is_padded=False)
        write_atomically(Path(path), lambda file: file.writelines(pieces))

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
        executables, updates = self._step.executables, [] if self._update is None else self._update.executables
        if not executables:
            raise ArtefactError(
                f"{self.name}: there is no code to save: take a step, or `prepare` the shapes of a batch"
            )
        stored = executables[0].stored()
        training = reader.Training(
            self.batch,
            tuple(self._trained),
            self.state,
            tuple(program for item in updates for program in item.stored().programs),
            self.accumulate,
        )
        programs = [program for item in executables for program in item.stored().programs]
        from .artefact.writer import write  # not needed by steps

        write(Path(path), replace(stored, name=self.name, programs=tuple(programs), training=training))

    @staticmethod
    def load(path: reader.ArtefactFile, threads: int | None = None, *, processes: Processes | None = None) -> Trainer:
        """Loads a trainer that `save` wrote, and continues it; needs neither the compiler nor the model.

        Args:
            path: the `.stw` file, its contents, or a file that is open for reading bytes.
            threads: number of threads of a step; by default one for each core.
            processes: the processes among which gradients are added.

        Raises:
            ArtefactError: the file is damaged, is not of a trainer, or was made for another kind of machine; or there
                are several processes, and the file has no code for these.
        """
        stored = reader.read(path)
        training = stored.training
        if training is None:
            raise ArtefactError(f"{stored.name}: the file has no training step; `stepwell.load` reads models")
        if processes is not None and not training.updates:
            raise ArtefactError(f"{stored.name}: the file has no step for several processes: make one with `processes`")
        held: dict[str, np.ndarray] = {}

        def code(program: Program) -> StepCode:
            alone = replace(stored, inputs=program.inputs, outputs=program.outputs, programs=(program,))
            return StepCode(Executable(CompiledModel.of(alone), threads), training.state)

        codes = {}
        for program in stored.programs:
            shapes = {info.name: info.shape for info in program.inputs}
            codes[tuple(_numbers(shapes[name]) for name in training.batch)] = code(program)
        update = None
        if training.updates:
            update = TrainingStep((), None, {(): code(training.updates[0])}, held)
        step = TrainingStep(training.batch, None, codes, held)
        kept = {"update": update, "accumulate": training.accumulate, "processes": processes}
        return Trainer(step, training.trained, stored.name, **kept)

    def __repr__(self) -> str:
        count = len(self._trained)
        return f"<Trainer {self.name}: {count} parameters, batch of {', '.join(self.batch)}>"


def _numbers(shape: Sequence[int | str]) -> Shape:
    return tuple(int(dim) for dim in shape)
