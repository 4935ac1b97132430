"""Compiles a random ONNX model with symbolic dimensions, and compares its results at several sizes with ONNX Runtime.

A third of the models are compiled without declared ranges, which the compiler then infers from the sizes of calls.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import stepwell
from graph_target import ERRORS, Difference
from onnx_computing import COMPUTING
from onnx_moving import CHOSEN, MOVING
from random_onnx import Grower, Model, Value
from ranges_target import Refused

_ROUNDING = 2e-4


def run(data: bytes) -> None:
    """Checks the model of a seed.

    Raises:
        Difference: a result differs, or the model does not compile.
        Refused: it has no program for ranges.
    """
    seed = int(data)
    grower = Grower(seed)
    model = grower.grow({**COMPUTING, **MOVING, **(CHOSEN if seed % 4 == 0 else {})})
    if not model.inputs or not model.outputs:
        return
    try:
        refused = check(grower, model, declared=seed % 3 > 0)
    except Refused:
        raise
    except (*ERRORS, stepwell.InputError) as error:
        raise Difference(f"{type(error).__name__}: {error}\n{_text(model)}") from error
    if refused:
        raise Refused(refused)


def check(grower: Grower, model: Model, declared: bool) -> str:
    """Compares the results of a model with the expected ones; returns the reason if it has no program for ranges.

    Raises:
        Difference: a result differs.
    """
    names = {dim.dim_param for item in model.proto.graph.input for dim in item.type.tensor_type.shape.dim}
    given = {name: grower.ranges[name] for name in names if name}
    options = stepwell.Options(dims=given if declared else {}, cache=False, codegen_threads=1, fallback="quiet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        executable = stepwell.compile(model.proto, threads=1, options=options)
    unranged = executable.unranged if declared else ""
    if "the compiler failed" in unranged:
        raise Difference(f"{unranged}\n{_text(model)}")
    # A model without ranges is compiled for each size.
    for place in range(2 if unranged else len(grower.sizes)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = executable(*(value.at[place] for value in model.inputs))
        arrays = list(outputs) if isinstance(outputs, tuple) else [outputs]
        for value, array in zip(model.outputs, arrays, strict=True):
            problem = difference(value, value.at[place], np.asarray(array))
            if problem:
                raise Difference(f"{value.name} {problem} at {grower.sizes[place]} of {given}\n{_text(model)}")
    return unranged or ""


def difference(value: Value, wanted: np.ndarray, array: np.ndarray) -> str:
    """Returns how an output differs from the expected one; "" if it does not."""
    if array.shape != wanted.shape or array.dtype != wanted.dtype:
        return f"is {array.dtype}{array.shape}, not {wanted.dtype}{wanted.shape}"
    if value.is_exact or not value.is_float:
        wrong = int((array != wanted).sum())
        return f"differs in {wrong} elements, though nothing in it is rounded" if wrong else ""
    if not array.size:
        return ""
    error, allowed = np.abs(array - wanted).max(), _ROUNDING * max(1.0, np.abs(wanted).max())
    return "" if error <= allowed else f"is off by {error:.3g}; {allowed:.3g} is allowed"


def _text(model: Model) -> str:
    return onnx.printer.to_text(model.proto)
