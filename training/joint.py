"""The module of a training step: forward pass, loss, backward pass, and the step of an optimiser."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ..dialects import discardable
from ..dialects.core import spec_of
from ..dialects.stepwell.elementwise import AddOp
from ..dialects.types import TensorSpec, is_float, tensor_type
from ..driver.context import compiler_context
from ..frontend.randomness import KEY
from ..passes.differentiation.differentiate import GRADIENT, DifferentiatePass
from ..passes.graph.values import scalar_like
from ..passes.infra.pipeline import Pipeline
from ..passes.ir.functions import body_of, dictionaries, is_output, main_function, update_type, value_names
from ..passes.ir.values import shape_of
from ..runtime.program import Shape
from ..support.errors import OptionError
from .losses import Loss
from .optimizers import Optimizer, StepInfo, clipped
from .trainable import Trainable

LOSS, TARGET, RATE, STEP = "loss", "target", "learning_rate", "step"
"""Names of the loss, and of inputs of a step: the target of the loss, the learning rate, and the number of the step."""


@dataclass(frozen=True)
class Recipe:
    """Choices that define a training.

    Attributes:
        loss: the loss of the first output; None if the first output is the loss.
        wrt: names, or patterns of names, of the parameters to train; None for all that the model trains by default.
        optimizer: the rule by which parameters change; None to return gradients.
        clip_norm: the greatest norm of all gradients together; None for any.
    """

    loss: Loss | None
    wrt: Sequence[str] | None = None
    optimizer: Optimizer | None = None
    clip_norm: float | None = None


@dataclass(frozen=True)
class Joint:
    """A module of a training step, and the arrays that its calls take beside a batch.

    Attributes:
        text: the module, in MLIR. @main takes a batch and the target, then the state, then fixed parameters.
        state: first contents of the inputs that outputs of the same names continue.
        fixed: the other parameters.
        trained: names of the trained parameters.
    """

    text: bytes
    state: dict[str, np.ndarray]
    fixed: dict[str, np.ndarray]
    trained: tuple[str, ...]


def make_joint(model: Trainable, recipe: Recipe, shapes: Mapping[str, Shape], target: str) -> Joint:
    """Makes the module of a training step for the shapes of a batch.

    Raises:
        ModelError: the model cannot be imported.
        OptionError: the loss does not fit the output, or a parameter does not exist.
        PassFailure: an op has no derivative.
    """
    with compiler_context() as context, ir.Location.unknown():
        prepared = model.prepared(context, shapes, target)
        trained = prepared.chosen(recipe.wrt, model.trainable_names(prepared))
        _add_loss(prepared.module, recipe.loss, model.carried)
        Pipeline((DifferentiatePass(wrt=tuple(trained), outputs=(LOSS,)),)).run(prepared.module)
        state = {name: np.array(prepared.parameters[name]) for name in trained}
        if recipe.optimizer is not None:
            state |= _add_optimizer(prepared.module, recipe.optimizer, recipe.clip_norm, state)
        state |= {name: np.array(array) for name, array in model.carried.items()}
        if KEY in prepared.parameters:
            _add_key(prepared.module)
            state[KEY] = np.array(prepared.parameters[KEY])
        fixed = {name: array for name, array in prepared.parameters.items() if name not in state}
        text = str(prepared.module.operation.get_asm(enable_debug_info=True)).encode()
        return Joint(text, state, fixed, tuple(trained))


def _add_loss(module: ir.Module, loss: Loss | None, carried: Collection[str]) -> None:
    """Puts the loss of the first output before all outputs; that output is left out if it is the loss itself.

    Outputs that continue inputs, by the names in `carried`, have no loss.

    Raises:
        OptionError: no output is floating point, the first one is no single number though it is to be the loss, or
            there is a loss and an output of its name.
    """
    main = main_function(module.operation)
    last = list(body_of(main).operations)[-1]
    notes, names = dictionaries(main, "res_attrs"), value_names(main, "res_attrs", "output")
    places = [place for place, item in enumerate(notes) if is_output(item) and names[place] not in carried]
    place = next((place for place in places if is_float(spec_of(last.operands[place]).dtype)), None)
    if place is None:
        raise OptionError("the model has no output of floating point, so it has no loss")
    output = last.operands[place]
    with ir.InsertionPoint(last), ir.Location.name(LOSS):
        if loss is None:
            if spec_of(output).shape not in ((), (1,)):
                raise OptionError(
                    f"output '{names[place]}' has the shape {list(shape_of(output))}, so it is no loss: choose a loss"
                )
            value, kept = output, [other for other in range(len(notes)) if other != place]
        else:
            if LOSS in names:
                raise OptionError(
                    f"the model has an output called '{LOSS}', as the loss is: rename it, or use loss=None"
                )
            spec = loss.target(spec_of(output))
            value = loss.build(output, _argument(main, TARGET, spec))
            kept = list(range(len(notes)))
    _return(main, [(LOSS, value)], [(notes[other], last.operands[other]) for other in kept])


def _add_optimizer(
    module: ir.Module, optimizer: Optimizer, clip_norm: float | None, parameters: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Replaces the gradients that @main returns by the next values of all parameters, and returns the other state."""
    main = main_function(module.operation)
    last = list(body_of(main).operations)[-1]
    notes, names = dictionaries(main, "res_attrs"), value_names(main, "res_attrs", "output")
    returned = dict(zip(names, last.operands, strict=True))
    inputs = dict(zip(value_names(main, "arg_attrs", "input"), body_of(main).arguments, strict=True))
    gradients = [returned[f"{name}{GRADIENT}"] for name in parameters]
    is_gradient = {f"{name}{GRADIENT}" for name in parameters}
    others = [(note, returned[name]) for note, name in zip(notes, names, strict=True) if name not in is_gradient]
    state: dict[str, np.ndarray] = {STEP: np.zeros((), np.float64)}
    found: list[tuple[str, ir.Value]] = []
    with ir.InsertionPoint(last), ir.Location.name("optimizer"):
        rate = _argument(main, RATE, TensorSpec((), np.dtype(np.float32)))
        before = _argument(main, STEP, TensorSpec((), np.dtype(np.float64)))
        step = AddOp(before, scalar_like(1, before)).result
        info = StepInfo(rate, step)
        if clip_norm is not None:
            gradients = clipped(gradients, clip_norm)
        for (name, array), gradient in zip(parameters.items(), gradients, strict=True):
            with ir.Location.name(f"{name}.step"):
                zeros = {f"{name}.{slot}": np.zeros_like(array) for slot in optimizer.slots}
                state |= zeros
                slots = {slot: _argument(main, f"{name}.{slot}", spec_of(inputs[name])) for slot in optimizer.slots}
                changed, kept = optimizer.update(inputs[name], gradient, slots, info)
                found += [(name, changed), *((f"{name}.{slot}", kept[slot]) for slot in optimizer.slots)]
    _return(main, [], others, [*found, (STEP, step)])
    return state


def _add_key(module: ir.Module) -> None:
    """Returns the next key of random choices."""
    main = main_function(module.operation)
    last = list(body_of(main).operations)[-1]
    inputs = dict(zip(value_names(main, "arg_attrs", "input"), body_of(main).arguments, strict=True))
    with ir.InsertionPoint(last), ir.Location.name(KEY):
        following = AddOp(inputs[KEY], scalar_like(1, inputs[KEY])).result
    returned = list(zip(dictionaries(main, "res_attrs"), last.operands, strict=True))
    _return(main, [], returned, [(KEY, following)])


def _argument(main: ir.Operation, name: str, spec: TensorSpec) -> ir.Value:
    """Adds an input to @main.

    Raises:
        OptionError: the model has one of this name.
    """
    notes = dictionaries(main, "arg_attrs")
    if name in value_names(main, "arg_attrs", "input"):
        raise OptionError(
            f"the model has an input or a parameter called '{name}', which is the name of one of the step"
        )
    value = body_of(main).add_argument(tensor_type(spec), ir.Location.name(name))
    notes.append(_notes(name, value))
    update_type(main)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(notes)
    return value


def _return(
    main: ir.Operation,
    first: Sequence[tuple[str, ir.Value]],
    kept: Sequence[tuple[ir.DictAttr, ir.Value]],
    more: Sequence[tuple[str, ir.Value]] = (),
) -> None:
    """Returns new outputs, those that @main returned, more new ones, and at last guards."""
    body = body_of(main)
    last = list(body.operations)[-1]
    outputs = [item for item in kept if is_output(item[0])]
    guards = [item for item in kept if not is_output(item[0])]
    everything = [*_named(first), *outputs, *_named(more), *guards]
    with ir.InsertionPoint(last), last.location:
        ir.Operation.create(last.operation.name, operands=[value for _, value in everything])
    last.operation.erase()
    update_type(main)
    main.attributes["res_attrs"] = ir.ArrayAttr.get([note for note, _ in everything])


def _named(items: Sequence[tuple[str, ir.Value]]) -> list[tuple[ir.DictAttr, ir.Value]]:
    return [(_notes(name, value), value) for name, value in items]


def _notes(name: str, value: ir.Value) -> ir.DictAttr:
    return ir.DictAttr.get(discardable.NAME.entry(name) | discardable.DIMS.entry(shape_of(value)))
