"""The step of an optimiser: the next values of parameters, from their gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ..dialects.core import spec_of
from ..dialects.types import TensorSpec
from ..passes.differentiation.build import add, cast, div, mul, select
from .mains import Main
from .optimizers import Optimizer, StepInfo, clipped, rules_of
from .recipe import GOOD, RATE, SCALE, SKIPPED, STEP, Recipe
from .scaling import all_finite

_F32, _F64, _I64 = (np.dtype(kind) for kind in (np.float32, np.float64, np.int64))


def add_update(
    main: Main,
    recipe: Recipe,
    parameters: Mapping[str, np.ndarray],
    gradients: Mapping[str, ir.Value],
    parts: ir.Value | None = None,
) -> tuple[dict[str, ir.Value], dict[str, np.ndarray]]:
    """Writes ops that compute the next values of all parameters and of the state of the optimiser.

    Args:
        main: the function, which has the parameters as arguments.
        recipe: how the model is trained.
        parameters: the parameters by name.
        gradients: their gradients, times the scale of the loss if there is one.
        parts: the number by which gradients are divided; None for 1.

    Returns:
        The next values by name, and the first contents of the state, without the parameters.
    """
    assert recipe.optimizer is not None
    found: dict[str, ir.Value] = {}
    state: dict[str, np.ndarray] = {STEP: np.zeros((), _F64)}
    with ir.InsertionPoint(main.last), ir.Location.name("optimizer"):
        rate, before = main.argument(RATE, TensorSpec((), _F32)), main.argument(STEP, TensorSpec((), _F64))
        step, values = add(before, 1), [gradients[name] for name in parameters]
        is_finite = None
        if recipe.scaling is not None:
            scale, is_finite = _scaled(main, recipe, values, found, state)
            parts = scale if parts is None else mul(parts, scale)
        if parts is not None:
            values = [div(value, cast(parts, spec_of(value).dtype)) for value in values]
        if recipe.clip_norm is not None:
            values = clipped(values, recipe.clip_norm)
        if recipe.schedule is not None:
            rate = cast(mul(cast(rate, _F64), recipe.schedule.factor(before)), _F32)
        rules = rules_of(parameters, recipe.optimizer, recipe.groups)
        for name, value in zip(parameters, values, strict=True):
            info = StepInfo(_own(rate, rules[name], recipe.optimizer), step)
            changed, slots = _changed(main, name, rules[name], value, info)
            found |= changed
            state |= {slot: np.zeros_like(parameters[name]) for slot in slots}
        found[STEP] = step
        if is_finite is not None:
            before_step = main.arguments
            for name in [*parameters, *state]:
                if name not in (SCALE, GOOD, SKIPPED):
                    found[name] = select(is_finite, found[name], before_step[name])
    return found, state


def _scaled(
    main: Main,
    recipe: Recipe,
    gradients: Sequence[ir.Value],
    found: dict[str, ir.Value],
    state: dict[str, np.ndarray],
) -> tuple[ir.Value, ir.Value]:
    """Returns the scale of the loss and whether all gradients are finite; adds the next scale to `found`."""
    assert recipe.scaling is not None
    state |= scale_state(recipe)
    scale = main.arguments.get(SCALE) or main.argument(SCALE, TensorSpec((), _F32))
    good, skipped = (main.argument(name, TensorSpec((), _I64)) for name in (GOOD, SKIPPED))
    is_finite = all_finite(gradients)
    found[SCALE], found[GOOD] = recipe.scaling.after(scale, good, is_finite)
    found[SKIPPED] = select(is_finite, skipped, add(skipped, 1))
    return scale, is_finite


def scale_state(recipe: Recipe) -> dict[str, np.ndarray]:
    """The first contents of what a step keeps of the scale of its loss."""
    if recipe.scaling is None:
        return {}
    zero = np.zeros((), _I64)
    return {SCALE: np.array(recipe.scaling.initial, _F32), GOOD: zero, SKIPPED: zero}


def _own(rate: ir.Value, rule: Optimizer, base: Optimizer) -> ir.Value:
    """The rate of a group, in proportion to that of the other parameters."""
    return rate if rule.rate == base.rate else mul(rate, rule.rate / base.rate)


def _changed(
    main: Main, name: str, rule: Optimizer, gradient: ir.Value, info: StepInfo
) -> tuple[dict[str, ir.Value], list[str]]:
    """The next values of a parameter and of what is remembered of it, by name, and the names of the latter."""
    with ir.Location.name(f"{name}.step"):
        parameter = main.arguments[name]
        slots = {slot: main.argument(f"{name}.{slot}", spec_of(parameter)) for slot in rule.slots}
        changed, kept = rule.update(parameter, gradient, slots, info)
        return {name: changed, **{f"{name}.{slot}": kept[slot] for slot in slots}}, [f"{name}.{slot}" for slot in slots]
