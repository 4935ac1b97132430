"""Ops that gather or scatter elements do no more work than the sizes of a call need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.elementwise import MaskOp
from stepwell.dialects.stepwell.movement import GatherOp, ScatterOp
from stepwell.dialects.stepwell.sorting import TopKOp
from stepwell.passes.ir.named_ops import ops_named

_NODE = helper.make_node
_RNG = np.random.default_rng(3)


def _model(
    nodes: list, inputs: Mapping[str, Sequence[int | str]], weights: Mapping[str, np.ndarray], kinds: Mapping[str, int]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "places",
        [helper.make_tensor_value_info(name, kinds.get(name, 1), list(shape)) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _compiled(
    model: onnx.ModelProto, dims: dict, phase: str, look: Callable[[ir.Operation], None]
) -> stepwell.Executable:
    def reached(name: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        if name == phase:
            look(module.operation)

    options = stepwell.Options(dims=dims, cache=False, fallback="error", reached=reached)
    return stepwell.compile(model, threads=1, options=options)


def _check(executable: stepwell.Executable, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> None:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, dict(inputs))
    np.testing.assert_allclose(executable(**inputs), np.asarray(wanted), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("axis", [1, 2])
def test_few_elements_are_looked_up_where_they_lie(axis: int, kind: type):
    """GatherElements indexes the padded data directly; the data is not moved together first."""
    model = _model(
        [_NODE("GatherElements", ["x", "i"], ["y"], axis=axis)],
        {"x": ["b", "n", "m"], "i": ["b", 2, 3]},
        {},
        {"i": helper.np_dtype_to_tensor_dtype(np.dtype(kind))},
    )
    made: list[int] = []

    def look(module: ir.Operation) -> None:
        shapes = [ir.RankedTensorType(op.results[0].type).shape for op in ops_named(module, GatherOp.OPERATION_NAME)]
        made.extend(map(math.prod, shapes))

    executable = _compiled(model, {"b": [4], "n": [20], "m": [30]}, "graph", look)
    assert made and max(made) <= 4 * 20
    for b, n, m in ((4, 20, 30), (1, 3, 5), (3, 7, 30), (2, 20, 4)):
        extent = (n, m)[axis - 1]
        x = _RNG.standard_normal((b, n, m), np.float32)
        _check(executable, model, {"x": x, "i": _RNG.integers(-extent, extent, (b, 2, 3)).astype(kind)})


@pytest.mark.parametrize("reduction", ["none", "add"])
@pytest.mark.parametrize("axis", [0, 1])
def test_no_more_updates_are_applied_than_there_are(axis: int, reduction: str):
    """The data is not moved together first, either; updates whose size differs from the data's may be."""
    model = _model(
        [_NODE("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)],
        {"x": ["n", "m"], "i": ["n", "m"], "u": ["n", "m"]},
        {},
        {"i": TensorProto.INT64},
    )
    counted: list[bool] = []
    moved: list[int] = []

    def look(module: ir.Operation) -> None:
        for op in ops_named(module, ScatterOp.OPERATION_NAME):
            view = ScatterOp(op)
            counted.append(view.count is not None and view.extent >= 0)
        for op in ops_named(module, GatherOp.OPERATION_NAME):
            moved.append(math.prod(ir.RankedTensorType(op.results[0].type).shape))

    executable = _compiled(model, {"n": [24], "m": [10]}, "graph", look)
    assert counted == [True]
    assert max(moved, default=0) < 24 * 10
    for n, m in ((24, 10), (1, 1), (7, 10), (24, 3), (5, 6)):
        extent = (n, m)[axis]
        x, u = (_RNG.standard_normal((n, m), np.float32) for _ in range(2))
        places = np.argsort(_RNG.random((n, m)), axis=axis)  # each index once: the order of equal ones is unspecified
        places -= extent * (_RNG.random((n, m)) < 0.5)
        _check(executable, model, {"x": x, "i": places, "u": u})


def test_fewer_updates_than_data():
    model = _model(
        [_NODE("ScatterElements", ["x", "i", "u"], ["y"], axis=1)],
        {"x": [3, "m"], "i": [3, "k"], "u": [3, "k"]},
        {},
        {"i": TensorProto.INT64},
    )
    executable = _compiled(model, {"m": [30], "k": [8]}, "graph", lambda module: None)
    for m, k in ((30, 8), (30, 1), (8, 8), (11, 5)):
        places = np.stack([_RNG.permutation(m)[:k] for _ in range(3)])
        x, u = _RNG.standard_normal((3, m), np.float32), _RNG.standard_normal((3, k), np.float32)
        _check(executable, model, {"x": x, "i": places, "u": u})


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("kind", "bound"), [(np.float32, 40), (np.int64, 300)])
def test_no_more_elements_are_sorted_than_there_are(kind: type, bound: int, largest: int):
    """The other elements are not overwritten first, which takes as long as finding a few."""
    model = _model(
        [
            _NODE("Shape", ["x"], ["k"], start=1, end=2),
            _NODE("TopK", ["x", "k"], ["values", "places"], axis=1, largest=largest),
            _NODE("Cast", ["places"], ["y"], to=TensorProto.FLOAT),
        ],
        {"x": [3, "m"]},
        {},
        {"x": helper.np_dtype_to_tensor_dtype(np.dtype(kind))},
    )
    counted: list[bool] = []
    masks: list[ir.Operation] = []

    def look(module: ir.Operation) -> None:
        counted.extend(
            TopKOp(op).count is not None and TopKOp(op).extent >= 0 for op in ops_named(module, TopKOp.OPERATION_NAME)
        )
        masks.extend(ops_named(module, MaskOp.OPERATION_NAME))

    executable = _compiled(model, {"m": [bound]}, "graph", look)
    assert counted == [True]
    assert not masks
    extremes = [np.iinfo(np.int64).min, np.iinfo(np.int64).max] if kind == np.int64 else [np.inf, -np.inf]
    for size in (bound, 2, 17, bound - 1):
        x = _RNG.permutation(3 * size).reshape(3, size).astype(kind)
        x[0, :2] = extremes
        _check(executable, model, {"x": x})
