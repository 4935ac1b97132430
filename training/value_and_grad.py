"""`stepwell.value_and_grad`: a loss and its gradients, compiled ahead of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..driver.options import Options, options_of
from ..passes.differentiation.differentiate import GRADIENT
from ..runtime.recomputation import Recomputation
from .compiled import StepCompiler
from .losses import Loss, LossOfMany, loss_of
from .recipe import LOSS, Recipe
from .trainable import Trainable


class ValueAndGrad:
    """A loss and its gradients with respect to parameters or inputs of a model, as a callable on batches.

    Attributes:
        outputs: the model's outputs in the last call, by name.
    """

    def __init__(self, compiler: StepCompiler) -> None:
        """Starts with the model's parameters; code is compiled at the first batch of each shape."""
        self._compiler, self._step = compiler, compiler.step()
        self.outputs: dict[str, np.ndarray] = {}

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Contents of the parameters by name, once a batch was seen; a caller may replace them."""
        return self._step.held

    @property
    def recomputations(self) -> list[Recomputation]:
        """For each set of shapes of a batch: what `memory_budget` made the code keep, and compute again."""
        return self._step.recomputations

    def __call__(self, *batch: Any, **named: Any) -> tuple[float, dict[str, np.ndarray]]:
        """Returns the loss and the gradients by the names of the parameters and inputs.

        Args:
            batch: the model's inputs, then the target of the loss, as arrays or anything with `__dlpack__`.
            named: the same by name; the target is called "target".

        Raises:
            InputError: the batch does not fit the model.
            OptionError: the loss does not fit the output.
            PassFailure: an op has no derivative.
        """
        self.outputs = self._step(*batch, **named)
        gradients = {name: self.outputs.pop(f"{name}{GRADIENT}") for name in self._compiler.trained}
        return float(self.outputs.pop(LOSS).reshape(())), gradients


def value_and_grad(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | LossOfMany | str | None,
    wrt: Sequence[str] | None = None,
    memory_budget: int | float | None = None,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> ValueAndGrad:
    """Returns a callable that computes a loss and its gradients with respect to the model's parameters.

    Forward and backward pass are one program, compiled for the shapes of each batch at its first call.

    Args:
        model: the model as `stepwell.compile` takes it: an ONNX or MLIR file, a module of torch, an exported program.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        loss: the loss of the first output: "cross_entropy", "mse", or an object such as `CrossEntropy(axis=-1)`; None
            if the model's first output is the loss.
        wrt: names of parameters, or patterns such as "head.*", and names of inputs; by default the parameters of a
            module that require gradients, and all of an ONNX model except numbers and the statistics of batch norms.
        memory_budget: the most bytes of values between forward and backward pass and of all others in a step, without
            parameters, the state of the optimiser and outputs; or, up to 1, a fraction of what they take otherwise.
            Values of the forward pass are computed again for it; see `ValueAndGrad.recomputations`.
        dynamic_shapes: the dimensions of `args` that may vary, as `torch.export.export` takes them.
        target: the target of the code, as for `stepwell.compile`.
        threads: number of threads of a call.
        options: how to compile.

    Raises:
        SourceError: the argument is not a model.
        OptionError: there is no such loss.
    """
    read = Trainable.read(model, args, kwargs, dynamic_shapes)
    recipe = Recipe(loss_of(loss), wrt)
    chosen = options_of(options, Options)
    return ValueAndGrad(StepCompiler(read, recipe, target, threads, chosen, memory_budget=memory_budget))
