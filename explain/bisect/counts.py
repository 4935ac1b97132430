"""Outputs whose extents are computed during a call: what of them is data, and the guards beside them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.interpreter import EvaluationError
from ...passes.ir.functions import body_of, dictionaries, is_output, main_function
from ...runtime.execution.results import cropped, crops_of
from ...runtime.program import Count


def counted_dims(module: ir.Module | ir.Operation) -> dict[ir.Value, dict[int, ir.Value]]:
    """Returns the dimensions of outputs of @main whose extent is computed: for each output, the number by dimension."""
    main = main_function(module.operation)
    returned = list(list(body_of(main).operations)[-1].operands)
    found: dict[ir.Value, dict[int, ir.Value]] = {}
    for number, attributes in zip(returned, dictionaries(main, "res_attrs"), strict=True):
        for output, axis in Count.of(discardable.COUNT.read(attributes, ())).cropped:
            found.setdefault(returned[output], {})[axis] = number
    return found


def first_slices(shape: Sequence[int], axes: Collection[int]) -> tuple[slice, ...]:
    """Returns the part of a tensor of which only the first slices along some axes, as many as in `shape`, are data."""
    return tuple(slice(size if axis in axes else None) for axis, size in enumerate(shape)) if axes else ()


def outputs_of(main: ir.Operation, results: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Returns the model's outputs for the results of @main: without guards and counts, and cropped to the latter.

    Raises:
        EvaluationError: a guard does not hold; the message is its reason.
    """
    outputs, crops, numbers = [], [], []
    for array, attributes in zip(results, dictionaries(main, "res_attrs"), strict=True):
        pairs = discardable.COUNT.read(attributes)
        if is_output(attributes):
            outputs.append(array)
        elif pairs is not None:
            crops.append(crops_of(Count.of(pairs)))
            numbers.append(array)
        elif not array:
            raise EvaluationError(str(discardable.GUARD.read(attributes)))
    return cropped(outputs, crops, numbers)
