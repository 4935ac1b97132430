"""`stepwell.trainer`: compiles the training step of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..driver.options import Options, options_of
from ..runtime.replicas import Processes
from ..runtime.trainer import Trainer
from ..support.errors import OptionError
from .compiled import StepCompiler
from .losses import Loss, LossOfMany, loss_of
from .optimizers import AdamW, Group, Optimizer
from .recipe import RATE, Recipe
from .scaling import LossScale
from .schedules import RateSchedule
from .trainable import Trainable


def trainer(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    loss: Loss | LossOfMany | str | None,
    optimizer: Optimizer | None = None,
    groups: Sequence[Group] = (),
    schedule: RateSchedule | None = None,
    clip_norm: float | None = None,
    accumulate: int = 1,
    precision: str | None = None,
    loss_scale: LossScale | None = None,
    wrt: Sequence[str] | None = None,
    seed: int = 0,
    divide_loops: bool = False,
    memory_budget: int | float | None = None,
    processes: Processes | None = None,
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
        groups: parameters that other rules change, such as `Group(AdamW(weight_decay=0), max_rank=1)`; a parameter
            belongs to the first group that includes it.
        schedule: the factor of the learning rate in each step, such as `Cosine(steps=1000, warmup=50)`.
        clip_norm: the greatest Euclidean norm of all gradients together, to which larger ones are scaled.
        accumulate: number of micro-batches of a step. Each call of `Trainer.step` takes one; their gradients are added
            in proportion to the weights of their losses, so that they equal those of one batch.
        precision: type of the operands of products in forward and backward pass, instead of `options.precision`:
            "bf16" or "f16". Parameters, sums, and the state of the optimiser stay float32.
        loss_scale: the factor of the loss in the backward pass; by default `LossScale()` if the precision is "f16", and
            none otherwise.
        wrt: names of parameters to train, or patterns such as "head.*"; by default the parameters of a module that
            require gradients, and all of an ONNX model except numbers and the statistics of batch norms.
        seed: number that determines random choices, such as those of dropout.
        divide_loops: whether the backward pass of a loop of n iterations, such as a recurrent layer or a scan, saves
            about 2 * sqrt(n) of its states in place of n, and computes each iteration once more.
        memory_budget: the most bytes of values between forward and backward pass and of all others in a step, without
            parameters, the state of the optimiser and outputs; or, up to 1, a fraction of what they take otherwise.
            Values of the forward pass are computed again for it; see `Trainer.recomputations`.
        processes: the processes that train together, each on batches of its own: `MpiGroup`, or
            `stepwell.compat.torch.TorchGroup`.
        dynamic_shapes: the dimensions of `args` that may vary, as `torch.export.export` takes them.
        target: the target of the code, as for `stepwell.compile`.
        threads: number of threads of a step.
        options: how to compile.

    Raises:
        SourceError: the argument is not a model.
        ModelError: the model cannot be read.
        OptionError: there is no such loss or precision, or a number is out of range.
    """
    if clip_norm is not None and not clip_norm > 0:
        raise OptionError(f"clip_norm must be positive, but is {clip_norm}")
    if isinstance(accumulate, bool) or not isinstance(accumulate, int) or accumulate < 1:
        raise OptionError(f"accumulate must be a number of 1 or more, but is {accumulate!r}")
    if optimizer is not None and not hasattr(optimizer, "update"):
        raise OptionError(f"optimizer must be SGD, Adam or AdamW of stepwell.training, but is {optimizer!r}")
    rule, chosen = AdamW() if optimizer is None else optimizer, options_of(options, Options)
    if precision is not None:
        if chosen.precision not in ("f32", precision):
            raise OptionError(f"precision is {precision!r}, but options.precision is {chosen.precision!r}")
        chosen = replace(chosen, precision=precision)
    scaling = LossScale() if loss_scale is None and chosen.precision == "f16" else loss_scale
    read = Trainable.read(model, args, kwargs, dynamic_shapes)
    is_shared = processes is not None
    choices = (schedule, clip_norm, scaling, accumulate, is_shared, divide_loops)
    recipe = Recipe(loss_of(loss), wrt, rule, tuple(groups), *choices)
    compiler = StepCompiler(read, recipe, target, threads, chosen, seed, memory_budget)
    step = compiler.step()
    step.held[RATE] = np.array(rule.rate, np.float32)
    more = {"update": compiler.update(), "accumulate": accumulate, "processes": processes}
    return Trainer(step, compiler.trained, read.name, **more)
