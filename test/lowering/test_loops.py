"""Compiled loops and recurrent layers, compared with ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

F32 = np.float32


def compare(
    nodes: Sequence[onnx.NodeProto],
    feeds: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray],
    **others: np.ndarray,
) -> None:
    """Compiles a model and runs it on `feeds`, then on `feeds` updated with `others`."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    run = stepwell.compile(model, threads=2)
    for given in (dict(feeds), {**feeds, **others}):
        results = run(**given)
        for got, wanted in zip(
            results if isinstance(results, tuple) else (results,), session.run(None, given), strict=True
        ):
            assert got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


@pytest.fixture
def normal():
    rng = np.random.default_rng(0)
    return lambda *shape: rng.normal(size=shape).astype(F32)


@pytest.mark.parametrize(
    ("op_type", "gates", "attributes"),
    [("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("GRU", 3, {}), ("RNN", 1, {"clip": 0.7})],
)
def test_recurrent_layers(normal, op_type, gates, attributes):
    weights = {"w": normal(2, gates * 5, 3), "r": normal(2, gates * 5, 5), "b": normal(2, gates * 10)}
    feeds = {"x": normal(7, 2, 3), "l": np.array([7, 4], np.int32), "h": normal(2, 2, 5)}
    node = helper.make_node(
        op_type, ["x", "w", "r", "b", "l", "h"], ["y", "yh"], hidden_size=5, direction="bidirectional", **attributes
    )
    compare([node], feeds, ["y", "yh"], weights, l=np.array([2, 7], np.int32))


def graph(name, nodes, inputs, outputs):
    """A graph of floats, integers `i` and bools `c` and `d`."""
    kinds = {"i": TensorProto.INT64, **dict.fromkeys("cd", TensorProto.BOOL)}
    values = [
        [
            helper.make_tensor_value_info(item, kinds.get(item, TensorProto.FLOAT), [] if item in kinds else None)
            for item in names.split()
        ]
        for names in (inputs, outputs)
    ]
    return helper.make_graph(
        [helper.make_node(op, a.split(), b.split(), **rest) for op, a, b, rest in nodes], name, *values
    )


def test_loop_in_a_branch_swaps_and_adds_rows(normal):
    nodes = [("Identity", "c", "d", {}), ("Gather", "x i", "r", {}), ("Add", "g r", "n", {}), ("Tanh", "n", "s", {})]
    loop = helper.make_node(
        "Loop",
        ["m", "", "h0", "g0"],
        ["a", "b", "rows"],
        body=graph("body", nodes, "i c h g", "d n h s"),
    )
    then = helper.make_graph([loop], "then", [], [helper.make_tensor_value_info("rows", TensorProto.FLOAT, [4, 3])])
    other = graph("else", [("Exp", "x", "e", {})], "", "e")
    branch = helper.make_node("If", ["q"], ["y"], then_branch=then, else_branch=other)
    feeds = {"q": np.array(True), "x": normal(4, 3), "h0": normal(3), "g0": normal(3)}
    compare([branch], feeds, ["y"], {"m": np.array(4)}, q=np.array(False))


def test_condition_of_the_run(normal):
    nodes = [("ReduceMax", "h", "r", {"keepdims": 0}), ("Less", "r fifty", "d", {}), ("Add", "h h", "n", {})]
    loop = helper.make_node("Loop", ["m", "c0", "h0"], ["y"], body=graph("body", nodes, "i c h", "d n"))
    feeds = {"m": np.array(30), "c0": np.array(True), "h0": np.abs(normal(2, 3)) + 1}
    compare([loop], feeds, ["y"], {"fifty": np.array(50, F32)}, m=np.array(2))


def test_scan_of_bools_and_constants(normal):
    nodes = [("Add", "h x", "n", {}), ("Mul", "n t", "a", {})]
    scan = helper.make_node(
        "Scan",
        ["h0", "x", "table"],
        ["y", "rows"],
        body=graph("body", nodes, "h x t", "n a"),
        num_scan_inputs=2,
        scan_input_directions=[1, 0],
        scan_output_directions=[1],
    )
    compare([scan], {"h0": normal(3), "x": normal(6, 3)}, ["y", "rows"], {"table": normal(6, 3)})
