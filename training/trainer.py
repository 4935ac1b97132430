"""`stepwell.trainer`: compiles the training step of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..driver.options import Options, options_of
from ..runtime.trainer import Trainer
from ..support.errors import OptionError
from .compiled import StepCompiler
from .joint import RATE, Recipe
from .losses import Loss, loss_of
from .optimizers import AdamW, Optimizer
from .trainable import Trainable


def trainer(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | str | None,
    optimizer: Optimizer | None = None,
    clip_norm: float | None = None,
    wrt: Sequence[str] | None = None,
    dynamic_shapes: Any = None,
    target: str = "cpu",
    threads: int | None = None,
    options: Options | Mapping[str, Any] | None = None,
) -> Trainer:
    """Returns a trainer of a model: forward pass, loss, backward pass and optimiser step are one program.

    The program is compiled for the shapes of each batch at its first step, or by `Trainer.prepare`.

    Args:
        model: the model as `stepwell.compile` takes it: an ONNX or MLIR file, a module of torch, an exported program.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        loss: the loss of the first output: "cross_entropy", "mse", or an object such as `CrossEntropy(axis=-1)`; None
            if the model's first output is the loss.
        optimizer: the rule by which parameters change; by default `AdamW()`.
        clip_norm: the greatest Euclidean norm of all gradients together, to which larger ones are scaled.
        wrt: names of parameters to train, or patterns such as "head.*"; by default the parameters of a module that
            require gradients, and all of an ONNX model except numbers and the statistics of batch norms.
        dynamic_shapes: the dimensions of `args` that may vary, as `torch.export.export` takes them.
        target: the target of the code, as for `stepwell.compile`.
        threads: number of threads of a step.
        options: how to compile.

    Raises:
        SourceError: the argument is not a model.
        ModelError: the model cannot be read.
        OptionError: there is no such loss, or `clip_norm` is not positive.
    """
    if clip_norm is not None and not clip_norm > 0:
        raise OptionError(f"clip_norm must be positive, but is {clip_norm}")
    rule = AdamW() if optimizer is None else optimizer
    read = Trainable.read(model, args, kwargs, dynamic_shapes)
    recipe = Recipe(loss_of(loss), wrt, rule, clip_norm)
    compiler = StepCompiler(read, recipe, target, threads, options_of(options, Options))
    step = compiler.step()
    step.held[RATE] = np.array(rule.rate, np.float32)
    return Trainer(step, compiler.trained, read.name)
