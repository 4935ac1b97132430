"""Training steps that tools compile: `--loss` makes the step of a model, `--memory-budget` bounds its memory."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..runtime.program import Shape
from ..support.wording import duration
from . import arguments, model_options
from .console import progress
from .flags import UsageError
from .model_options import Given
from .outputs import ARTEFACT, REPORT, Outputs, default_name

if TYPE_CHECKING:
    from ..training.compiled import StepCompiler
    from ..training.optimizers import Optimizer
    from ..training.trainable import Trainable

_OPTIMIZERS = ("adamw", "adam", "sgd")


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that make the training step of a model."""
    group = parser.add_argument_group("training")
    group.add_argument(
        "--loss",
        metavar="NAME",
        help="compile the model's training step with this loss, such as cross_entropy or mse, for Trainer.load; "
        "--shape target=64 is the shape of the loss's target",
    )
    group.add_argument("--optimizer", choices=_OPTIMIZERS, help=f"the rule of the step (default: {_OPTIMIZERS[0]})")
    group.add_argument("--learning-rate", type=arguments.amount, metavar="RATE", help="default: 0.001")
    group.add_argument(
        "--memory-budget",
        type=arguments.amount,
        metavar="BYTES",
        help="the most bytes of the values of a step; up to 1, a fraction of those that it takes otherwise",
    )


def is_training(options: argparse.Namespace, *without: str) -> bool:
    """Returns whether a training step is to be compiled.

    Args:
        options: the options of the tool.
        without: names of options that do not apply to training steps.

    Raises:
        UsageError: options do not go together.
    """
    if options.loss is None:
        given = [name for name in ("optimizer", "learning_rate", "memory_budget") if getattr(options, name) is not None]
        if given:
            raise UsageError(f"{_flag(given[0])} needs --loss")
        return False
    found = [name for name in (*without, "dims", "input") if getattr(options, name)]
    if found:
        raise UsageError(f"--loss cannot be combined with {_flag(found[0])}")
    return True


def step_module(options: argparse.Namespace, chosen: Mapping[str, Any]) -> bytes:
    """Returns the module of the training step that is to be compiled, in MLIR."""
    from ..driver.options import Options
    from ..training.compiled import StepCompiler
    from ..training.losses import loss_of
    from ..training.recipe import Recipe

    recipe = Recipe(loss_of(options.loss), optimizer=_optimizer(options))
    budget = _budget(options.memory_budget)
    model = _trainable(options.model)
    compiler: StepCompiler = StepCompiler(model, recipe, options.target, None, Options(**chosen), 0, budget)
    (shapes,) = _shape_sets(model, Given.read(options), at_most=1)
    return compiler.module(shapes)


def compile_step(options: argparse.Namespace) -> int:
    """Compiles a training step to an artefact, and reports what was written."""
    from ..training.trainer import trainer

    outputs = Outputs(options.model)
    output = outputs.claim("-o", options.output or default_name(options.model, ".stw"), ARTEFACT)
    if options.json and output.is_stdout:
        raise UsageError("--json and -o - both write to the standard output")
    report = None
    if options.opt_report not in (None, "text", "json"):
        report = outputs.claim("--opt-report", options.opt_report, REPORT)
    start = time.perf_counter()
    with outputs.messages():
        with progress(options, f"compiling the training step of {options.model}"):
            chosen = model_options.compile_options(options, cache=not options.no_cache)
            kinds = {"loss": options.loss, "optimizer": _optimizer(options), "target": options.target}
            budget = _budget(options.memory_budget)
            made = trainer(options.model, options=chosen, memory_budget=budget, **kinds)
            for shapes in _shape_sets(_trainable(options.model), Given.read(options)):
                made.prepare(shapes)
            with output.writing() as path:
                made.save(path)
                size = path.stat().st_size
        text = f"{output.path}: {size / 1e6:.1f} MB, made in {duration(time.perf_counter() - start)}"
        if options.json:
            print(json.dumps({"schema": 1, "output": str(output.path), "bytes": size, "batch": list(made.batch)}))
            return 0
        reports = [executable.report() for executable in made.executables]
        if options.opt_report == "json":  # nothing else on stdout
            print(json.dumps(reports[0].record(), indent=1))
            print(text, file=sys.stderr)
            return 0
        if report is not None:
            report.write_text(json.dumps(reports[0].record(), indent=1))
        elif options.opt_report is not None:
            print(*reports, sep="\n")
        print(text)
    return 0


def _trainable(model: str) -> Trainable:
    from ..training.trainable import Trainable

    return Trainable.read(model, None, None, None)


def _shape_sets(model: Trainable, given: Given, at_most: int | None = None) -> list[dict[str, Shape]]:
    """Returns the shapes of batches: given ones, and those of the model's inputs that are fixed."""
    fixed = {info.name: tuple(map(int, info.shape)) for info in model.inputs if info.is_static}
    found = [{**fixed, **shapes} for shapes in given.sets]
    if at_most is not None and len(found) > at_most:
        raise UsageError("several sets of --shape are given; give one for each input")
    for shapes in found:
        arguments.check_shapes(shapes, model.inputs, "--shape")
    return found


def _optimizer(options: argparse.Namespace) -> Optimizer:
    from ..training import optimizers

    kinds = {"adamw": optimizers.AdamW, "adam": optimizers.Adam, "sgd": optimizers.SGD}
    kind = kinds[options.optimizer or _OPTIMIZERS[0]]
    return kind() if options.learning_rate is None else kind(options.learning_rate)


def _budget(given: float | None) -> int | float | None:
    """Returns a number of bytes as a whole number; one up to 1 is a fraction."""
    return int(given) if given is not None and given > 1 else given


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
