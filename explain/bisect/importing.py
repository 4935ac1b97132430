"""The level `import`: compares every value of the model's graph, as our ops compute it, with a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir

from ...dialects import interpreter
from ...dialects.registry import view_of
from ...dialects.types import is_float
from ...frontend.imported import ImportedModel
from ...frontend.onnx.reading.model import Model
from ...frontend.onnx.reading.names import node_name
from ...frontend.onnx.reading.weights import tensor_array
from ...support.errors import StepwellError
from .comparison import NOISE_FACTOR, Tolerance, approximation_error, compare, noise_of
from .counts import counted_dims, first_slices
from .result import Fault, Level


class _Found(StepwellError):
    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self.fault = fault


def check_import(
    model: Model,
    imported: ImportedModel,
    inputs: Mapping[str, np.ndarray],
    reference: Mapping[str, np.ndarray],
    tolerance: Tolerance,
    level: Level,
    step: Callable[[str], None] = lambda text: None,
) -> Fault | None:
    """Finds the first node whose values differ from the reference's, if one does.

    Every node gets the reference's values as operands, so that errors do not accumulate over nodes.

    Args:
        model: the ONNX model.
        imported: the same model as a module.
        inputs: the model's inputs.
        reference: the expected values, by name.
        tolerance: the error that counts as rounding.
        level: counts the comparisons.
        step: called with the name of each node that is compared.
    """
    counted = counted_dims(imported.module)
    expected: dict[ir.Value, list[tuple[str, np.ndarray]]] = {}
    for name, value in imported.values.items():
        if name in reference:
            want = np.asarray(reference[name])
            expected.setdefault(value, []).append((name, want))
            for axis, number in counted.get(value, {}).items():
                expected.setdefault(number, []).append((name, np.array(want.shape[axis])))
    makers = {
        name: (node_name(node, index), node.op_type)
        for index, node in enumerate(model.proto.graph.node)
        for name in node.output
    }

    def around(operation: ir.Operation, operands: Sequence[Any], compute: Callable[[], Sequence[Any]]) -> Sequence[Any]:
        results = list(compute())
        for index, value in enumerate(operation.results):
            for name, want in expected.get(value, ()):
                node, op_type = makers.get(name, (name, ""))
                step(node)
                data = first_slices(want.shape, counted.get(value, {}))
                difference = compare(results[index][data], want, tolerance)
                if difference.is_wrong:
                    noise = _noise(operation, operands)
                    off = approximation_error(want.dtype) / NOISE_FACTOR
                    more = noise[index][data] + off if noise else off
                    difference = compare(results[index][data], want, tolerance, more)
                level.see(difference, f"{node} ({op_type})")
                if difference.is_wrong:
                    note = f"in the op's reference or its import: '{operation.name}' is the last op of the node"
                    raise _Found(Fault("import", difference, name, (node,), op_type, note=note))
                if data:
                    results[index] = results[index].copy()
                    results[index][data] = want
                else:
                    results[index] = want
        return results

    order = [info.name for info in imported.info.inputs]
    try:
        interpreter.evaluate(
            imported.module, "main", [inputs[name] for name in order], imported.parameters, around=around
        )
    except _Found as found:
        return found.fault
    return None


def _noise(operation: ir.Operation, operands: Sequence[Any]) -> list[np.ndarray]:
    """Returns the change of an op's results with the last digit of its operands; empty for ops of other dialects."""
    view = view_of(operation)
    if view is None or not operands:
        return []

    def evaluate(arrays: Sequence[np.ndarray], around: interpreter.Around | None) -> Sequence[np.ndarray]:
        known = dict(zip(operation.operands, arrays, strict=True))
        return view.evaluate(known.__getitem__)

    return noise_of(evaluate, operands)


def first_not_finite(model: Model, inputs: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray]) -> str:
    """Returns the first node that computes infinities or NaN from finite values; "" if the outputs are finite.

    Args:
        model: the ONNX model.
        inputs: the model's inputs.
        reference: its values, by name.
    """
    graph, known = model.proto.graph, {**inputs, **reference}
    if all(_is_finite(known.get(output.name)) for output in graph.output):
        return ""
    weights = {tensor.name: tensor for tensor in model.initializers}
    for index, node in enumerate(graph.node):
        if not node.input or all(_is_finite(known.get(name)) for name in node.output):
            continue
        held = [tensor_array(weights[name], model.folder) for name in node.input if name in weights]
        if all(map(_is_finite, [*held, *map(known.get, node.input)])):
            return f"{node_name(node, index)} ({node.op_type})"
    return ""


def _is_finite(array: np.ndarray | None) -> bool:
    return array is None or not is_float(array.dtype) or bool(np.isfinite(array).all())
