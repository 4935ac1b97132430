"""Losses and gradients of training steps on the interpreter, which needs no compile."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.passes.ir.functions import main_function, value_names
from stepwell.training.joint import make_joint
from stepwell.training.recipe import Recipe
from stepwell.training.trainable import Trainable


def results_of(module: Any, args: tuple[Any, ...], recipe: Recipe, batch: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """The results of a step of a module of torch, by name.

    Args:
        module: the module.
        args: example arguments.
        recipe: how it is trained.
        batch: the targets of the loss.
    """
    model = Trainable.read(module, args, None, None)
    arrays = {info.name: arg.numpy() for info, arg in zip(model.inputs, args, strict=True)} | dict(batch)
    joint = make_joint(model, recipe, {name: array.shape for name, array in arrays.items()}, "cpu")
    context = ir.Context()
    load_dialects(context)
    program = ir.Module.parse(joint.text, context)
    main = main_function(program.operation)
    given = {**joint.state, **joint.fixed, **arrays}
    results = evaluate(program, "main", [given[name] for name in value_names(main, "arg_attrs", "input")], {})
    return dict(zip(value_names(main, "res_attrs", "output"), results, strict=True))
