"""Scatter, sorting and running totals on the simulator: each thread computes its own element, without serialisation."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(0)
KINDS = {"float32": TensorProto.FLOAT, "int32": TensorProto.INT32, "int64": TensorProto.INT64}


def model(
    node: onnx.NodeProto, inputs: list[np.ndarray], results: list[tuple[tuple[int, ...], str]], **constants: np.ndarray
) -> onnx.ModelProto:
    taken = [
        helper.make_tensor_value_info(n, KINDS[a.dtype.name], a.shape) for n, a in zip(node.input, inputs, strict=False)
    ]
    given = [
        helper.make_tensor_value_info(n, KINDS[kind], shape)
        for n, (shape, kind) in zip(node.output, results, strict=True)
    ]
    held = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    graph = helper.make_graph([node], "one", taken, given, held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def agree(made: onnx.ModelProto, inputs: list[np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks that the GPU's results equal the CPU's bit by bit, without nodes on the host."""
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    there = stepwell.compile(made, "cuda:sm_90a", options=stepwell.Options(cache=False, fallback="error"))
    here = stepwell.compile(made, options=stepwell.Options(cache=False))
    got, wanted = ([item] if isinstance(item, np.ndarray) else item for item in (there(*inputs), here(*inputs)))
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("shape", "axis", "largest", "k", "kind"),
    [((3, 40), 1, 1, 5, "float32"), ((2, 70), 1, 0, 70, "float32"), ((30, 4), 0, 1, 7, "int32")],
)
def test_the_first_of_every_row(shape, axis, largest, k, kind, monkeypatch) -> None:
    """Among equal elements, the first ones are taken."""
    x = RANDOM.integers(-9, 9, shape).astype(kind)
    if kind == "float32":
        x.flat[:3] = np.nan, -0.0, np.inf
    result = tuple(k if place == axis else extent for place, extent in enumerate(shape))
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=axis, largest=largest)
    agree(model(node, [x], [(result, kind), (result, "int64")], k=np.array([k])), [x], monkeypatch)


@pytest.mark.parametrize("reduction", ["none", "add", "max"])
def test_slices_at_places_that_come_twice(reduction, monkeypatch) -> None:
    x, updates = (RANDOM.standard_normal((rows, 8)).astype(np.float32) for rows in (10, 3))
    places = np.array([[3], [-2], [3]])
    node = helper.make_node("ScatterND", ["x", "i", "u"], ["y"], reduction=reduction)
    agree(model(node, [x, places, updates], [(x.shape, "float32")]), [x, places, updates], monkeypatch)


@pytest.mark.parametrize(("axis", "reduction"), [(1, "none"), (0, "add"), (1, "mul")])
def test_elements(axis, reduction, monkeypatch) -> None:
    x = RANDOM.standard_normal((10, 8)).astype(np.float32)
    shape = (4, 8) if axis == 0 else (10, 3)
    places, updates = RANDOM.integers(-8, 8, shape), RANDOM.standard_normal(shape).astype(np.float32)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=axis, reduction=reduction)
    agree(model(node, [x, places, updates], [(x.shape, "float32")]), [x, places, updates], monkeypatch)


@pytest.mark.parametrize("reduction", ["none", "add"])
def test_a_variable_number_of_updates(reduction, monkeypatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    x, updates = (RANDOM.standard_normal((10, 4)).astype(np.float32) for _ in range(2))
    places = np.argsort(RANDOM.random((10, 4)), axis=0)
    node = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], axis=0, reduction=reduction)
    made = model(node, [x, places, updates], [(x.shape, "float32")])
    for tensor in (*made.graph.input, *made.graph.output):
        tensor.type.tensor_type.shape.dim[0].dim_param = "n"
    there = stepwell.compile(made, "cuda:sm_90a", options=stepwell.Options(cache=False, dims={"n": [10]}))
    here = stepwell.compile(made, options=stepwell.Options(cache=False))
    assert len(there.programs) == 1
    for rows in (10, 3):
        inputs = x[:rows], np.argsort(places[:rows], axis=0), updates[:rows]
        np.testing.assert_array_equal(there(*inputs), here(*inputs))


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_of_a_variable_number_of_elements(largest, monkeypatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    x = RANDOM.integers(-9, 9, (3, 40)).astype(np.float32)
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], axis=1, largest=largest)
    made = model(node, [x], [((3, 5), "float32"), ((3, 5), "int64")], k=np.array([5]))
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_param = "n"
    there = stepwell.compile(made, "cuda:sm_90a", options=stepwell.Options(cache=False, dims={"n": (20, 40)}))
    here = stepwell.compile(made, options=stepwell.Options(cache=False))
    assert len(there.programs) == 1
    for count in (40, 20):
        for one, other in zip(there(x[:, :count]), here(x[:, :count]), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("shape", "axis", "reverse", "exclusive"),
    [((3, 36), 1, 0, 0), ((3, 36), 1, 1, 1), ((2, 12, 5), 1, 1, 0), ((7, 33), 0, 0, 1)],
)
def test_sums_of_all_before(shape, axis, reverse, exclusive, monkeypatch) -> None:
    """In two steps if the extent has divisors, and in any number of dimensions."""
    x = RANDOM.integers(-99, 99, shape).astype(np.float32)
    node = helper.make_node("CumSum", ["x", "a"], ["y"], reverse=reverse, exclusive=exclusive)
    agree(model(node, [x], [(shape, "float32")], a=np.array(axis)), [x], monkeypatch)
