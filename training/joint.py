"""The modules of a training step: forward pass, loss, backward pass, and the step of an optimiser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ..dialects.core import spec_of
from ..dialects.registry import load_dialects
from ..dialects.stepwell.elementwise import AddOp, EqualOp
from ..dialects.types import TensorSpec, is_float
from ..driver.context import compiler_context
from ..passes.differentiation.build import add, cast, compare, full, mul, reshape, select, zeros
from ..passes.differentiation.differentiate import GRADIENT, DifferentiatePass
from ..passes.differentiation.divide_loops import DivideLoopsPass
from ..passes.differentiation.order import move_up
from ..passes.graph.values import constant, scalar_like
from ..passes.infra.pipeline import Pipeline
from ..passes.ir.functions import dictionaries, is_output
from ..passes.ir.values import shape_of
from ..runtime.program import Shape
from ..support.errors import OptionError
from .losses import Computed, of_many
from .mains import Main
from .recipe import COUNT, KEY, LOSS, LOSS_WEIGHT, SCALE, SUM, WEIGHT, Recipe
from .trainable import Prepared, Trainable
from .updates import add_update, scale_state

_F32 = np.dtype(np.float32)


@dataclass(frozen=True)
class Joint:
    """A module of a training step, and the arrays that its calls take beside a batch.

    Attributes:
        text: the module, in MLIR. @main takes a batch and the targets, then the state, then fixed parameters.
        state: first contents of the inputs that outputs of the same names continue, here or in the module of the step.
        fixed: the other parameters.
        trained: names of the trained parameters.
        forward: number of ops of the forward pass, with the loss, at the start of @main; 0 if there is none.
    """

    text: bytes
    state: dict[str, np.ndarray]
    fixed: dict[str, np.ndarray]
    trained: tuple[str, ...]
    forward: int = 0


def make_joint(model: Trainable, recipe: Recipe, shapes: Mapping[str, Shape], target: str) -> Joint:
    """Makes the module of a training step for the shapes of a batch.

    It computes gradients if the recipe has no optimiser; if it is split, sums of gradients, from which the module of
    `make_update` takes the step.

    Raises:
        ModelError: the model cannot be imported.
        OptionError: the loss does not fit the outputs, or a parameter does not exist.
        PassFailure: an op has no derivative.
    """
    with compiler_context() as context, ir.Location.unknown():
        given = {info.name: shapes[info.name] for info in model.inputs}
        prepared = model.prepared(context, given, target)
        if recipe.divide_loops:
            Pipeline((DivideLoopsPass(),)).run(prepared.module)
        inputs = [info.name for info in model.inputs if is_float(info.dtype)] if recipe.optimizer is None else []
        trained = prepared.chosen(recipe.wrt, model.trainable_names(prepared), inputs)
        main = Main(prepared.module)
        carried = {**model.carried, **_continued(main, prepared)}
        goal = _add_loss(main, recipe, shapes, list(carried))
        with ir.InsertionPoint(main.last):
            end = constant(np.zeros((), np.float32)).owner
        _differentiate(prepared.module, main, recipe, trained, goal)
        state = {name: np.array(prepared.parameters[name]) for name in trained if name in prepared.parameters}
        backward = len(main.body.operations) - 1
        if recipe.is_split:
            state |= _add_sums(main, recipe, trained, goal, state)
        elif recipe.optimizer is not None:
            gradients = {name: main.results[f"{name}{GRADIENT}"] for name in trained}
            found, more = add_update(main, recipe, state, gradients)
            main.give(found, without=[f"{name}{GRADIENT}" for name in trained])
            state |= more
        move_up(main.body, backward)
        state |= {name: np.array(array) for name, array in carried.items()}
        if KEY in prepared.parameters:
            with ir.InsertionPoint(main.last), ir.Location.name(KEY):
                key = main.arguments[KEY]
                following = AddOp(key, scalar_like(1, key)).result
            main.give({KEY: following})
            state[KEY] = np.array(prepared.parameters[KEY])
        fixed = {name: array for name, array in prepared.parameters.items() if name not in state}
        forward = [view.operation for view in main.body.operations].index(end.operation)
        end.operation.erase()
        return Joint(_text(prepared.module), state, fixed, tuple(trained), forward)


def _continued(main: Main, prepared: Prepared) -> dict[str, np.ndarray]:
    """Gives outputs that continue parameters the names of these; returns the first contents of these by name."""
    pairs = {output: name for output, name in prepared.continued.items() if name in prepared.parameters}
    main.give({name: main.results[output] for output, name in pairs.items()}, without=list(prepared.continued))
    return {name: prepared.parameters[name] for name in pairs.values()}


def make_update(recipe: Recipe, parameters: Mapping[str, np.ndarray]) -> Joint:
    """Makes the module that takes the step of an optimiser from sums of gradients, and starts new sums.

    Args:
        recipe: how the model is trained.
        parameters: the trained parameters.
    """
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module, main = Main.empty()
        for name, array in parameters.items():
            main.argument(name, _spec(array))
        sums = {name: main.argument(f"{name}{SUM}", _spec(array)) for name, array in parameters.items()}
        weight = main.argument(WEIGHT, TensorSpec((), _F32))
        count = main.argument(COUNT, TensorSpec((), np.dtype(np.int64)))
        parts = None if recipe.loss is not None and of_many(recipe.loss).is_sum else weight
        found, state = add_update(main, recipe, parameters, sums, parts)
        with ir.InsertionPoint(main.last):
            found |= {f"{name}{SUM}": zeros(value) for name, value in sums.items()}
            found |= {WEIGHT: zeros(weight), COUNT: zeros(count)}
        main.give(found)
        return Joint(_text(module), state, {}, tuple(parameters))


@dataclass(frozen=True)
class _Goal:
    """Values that are differentiated.

    Attributes:
        seeds: values by the names of outputs of @main, with their gradients.
        loss: the loss.
    """

    seeds: Mapping[str, ir.Value]
    loss: Computed


def _add_loss(main: Main, recipe: Recipe, shapes: Mapping[str, Shape], carried: Sequence[str]) -> _Goal:
    """Puts the loss before all outputs; the first output is left out if it is the loss itself.

    Outputs that continue inputs, by the names in `carried`, have no loss.

    Raises:
        OptionError: there are too few outputs of floating point, the first one is no single number though it is to be
            the loss, or there is a loss and an output of its name.
    """
    notes = dictionaries(main.function, "res_attrs")
    outputs = [
        (name, value)
        for note, (name, value) in zip(notes, main.results.items(), strict=True)
        if is_output(note) and name not in carried and is_float(spec_of(value).dtype)
    ]
    with ir.InsertionPoint(main.last), ir.Location.name(LOSS):
        if recipe.loss is None:
            if not outputs:
                raise OptionError("the model has no output of floating point, so it has no loss")
            name, value = outputs[0]
            if spec_of(value).shape not in ((), (1,)):
                raise OptionError(
                    f"output '{name}' has the shape {list(shape_of(value))}, so it is no loss: choose a loss"
                )
            goal = _Goal({LOSS: full(1, value)}, Computed(value))
            main.give({}, first={LOSS: value}, without=[name])
            return goal
        loss = of_many(recipe.loss)
        if len(outputs) < loss.outputs:
            few = "no output" if not outputs else f"only {len(outputs)} output" + "s" * (len(outputs) > 1)
            raise OptionError(f"the model has {few} of floating point, and the loss takes {loss.outputs}")
        if LOSS in main.results:
            raise OptionError(f"the model has an output called '{LOSS}', as the loss is: rename it, or use loss=None")
        names, values = zip(*outputs[: loss.outputs], strict=True)
        specs = loss.specs([spec_of(value) for value in values], shapes)
        targets = [main.argument(name, spec) for name, spec in zip(loss.targets, specs, strict=True)]
        computed = loss.compute(values, targets)
        places = [list(main.results).index(name) for name in names]
        seed = full(1, computed.value)
        main.give({}, first={LOSS: computed.value})
        if computed.gradients is None:
            return _Goal({LOSS: seed}, computed)
        # By place: an output without a name is called by its place.
        results = list(main.results)
        return _Goal(dict(zip([results[place + 1] for place in places], computed.gradients, strict=True)), computed)


def _differentiate(module: ir.Module, main: Main, recipe: Recipe, trained: Sequence[str], goal: _Goal) -> None:
    """Returns the gradients of trained parameters, times the scale of the loss if there is one."""
    seeds = dict(goal.seeds)
    if recipe.scaling is not None:
        scale = main.argument(SCALE, TensorSpec((), _F32))
        with ir.InsertionPoint(main.last), ir.Location.name(SCALE):
            for name, value in seeds.items():
                factor = cast(scale, spec_of(value).dtype)
                seeds[name] = mul(value, factor)
    Pipeline((DifferentiatePass(wrt=tuple(trained), outputs=tuple(seeds), seeded=True),)).run(module)
    for name, value in seeds.items():
        main.bind(f"{name}{GRADIENT}", value)


def _add_sums(
    main: Main, recipe: Recipe, trained: Sequence[str], goal: _Goal, parameters: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Adds gradients, times the weight of the batch, to sums; returns the first contents of these."""
    state = {
        **{f"{name}{SUM}": np.zeros_like(parameters[name]) for name in trained},
        WEIGHT: np.zeros((), _F32),
        COUNT: np.zeros((), np.int64),
        **{name: array for name, array in scale_state(recipe).items() if name == SCALE},
    }
    is_sum = recipe.loss is not None and of_many(recipe.loss).is_sum
    with ir.InsertionPoint(main.last), ir.Location.name("gradients"):
        # A weight of 0 says that losses are added.
        weight = constant(np.array(0 if is_sum else 1, np.float32))
        if goal.loss.weight is not None and not is_sum:
            weight = reshape(goal.loss.weight, ())
        found, is_empty = {}, compare(EqualOp, weight, 0)
        for name in trained:
            gradient = main.results[f"{name}{GRADIENT}"]
            before = main.argument(f"{name}{SUM}", spec_of(gradient))
            own = gradient
            if not is_sum:
                # The mean over nothing is NaN, and adds nothing.
                own = select(is_empty, 0, mul(gradient, cast(weight, spec_of(gradient).dtype)))
            found[f"{name}{SUM}"] = add(before, own)
        found[WEIGHT] = add(main.argument(WEIGHT, TensorSpec((), _F32)), weight)
        found[COUNT] = add(main.argument(COUNT, TensorSpec((), np.dtype(np.int64))), 1)
    main.give({**found, LOSS_WEIGHT: weight}, without=[f"{name}{GRADIENT}" for name in trained])
    return state


def _spec(array: np.ndarray) -> TensorSpec:
    return TensorSpec(array.shape, array.dtype)


def _text(module: ir.Module) -> bytes:
    return str(module.operation.get_asm(enable_debug_info=True)).encode()
