"""Models with tables that depend on sizes (indices along a dimension, masks, signal frames) are compiled once.

Small tables are literals at some sizes of a range, and would be parameters at others.
"""

from __future__ import annotations

import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

_NODE = helper.make_node
_BEST = _NODE("ArgMax", ["x"], ["i"], axis=-1)
_MASKED = {"num_heads": 2, "unidirectional": 1, "domain": "com.microsoft"}
_ROWS = [
    _NODE("Shape", ["x"], ["s"], end=1),
    _NODE("Squeeze", ["s"], ["count"]),
    _NODE("Range", ["zero", "count", "one"], ["rows"]),
    _NODE("Cast", ["rows"], ["line"], to=TensorProto.FLOAT),
    _NODE("Unsqueeze", ["line", "last"], ["column"]),
    _NODE("Mul", ["x", "column"], ["y"]),
]

_CASES = {
    "gather elements": ([_BEST, _NODE("GatherElements", ["x", "i"], ["y"], axis=1)], ["n", 5]),
    "gather of batches": ([_BEST, _NODE("GatherND", ["x", "i"], ["y"], batch_dims=1)], ["n", 5]),
    "reversed": ([_NODE("ReverseSequence", ["x", "lengths"], ["y"], time_axis=0, batch_axis=1)], ["n", 2]),
    "greatest": ([_NODE("Hardmax", ["x"], ["y"], axis=-1)], [3, "n"]),
    "greatest row": ([_NODE("Hardmax", ["x"], ["y"], axis=0)], ["n", 3]),
    "causal": ([_NODE("Attention", ["x", "x", "x"], ["y"], is_causal=1)], [1, 2, "n", 8]),
    "projected and causal": ([_NODE("Attention", ["x", "w", "b"], ["y"], **_MASKED)], [1, "n", 16]),
    "diagonal": ([_NODE("Einsum", ["x"], ["y"], equation="ii->i")], ["n", "n"]),
    "frames": ([_NODE("STFT", ["x", "step", "window"], ["y"])], [1, "n", 1]),
    "range": (_ROWS, ["n", 3]),
}

_WEIGHTS = {
    "lengths": np.array([17, 3]),
    "w": np.random.default_rng(0).standard_normal((16, 48)).astype(np.float32),
    "b": np.zeros(48, np.float32),
    "step": np.array(4),
    "window": np.hanning(8).astype(np.float32),
    "zero": np.array(0),
    "one": np.array(1),
    "last": np.array([1]),
}


def _model(name: str) -> onnx.ModelProto:
    nodes, shape = _CASES[name]
    read = {item for node in nodes for item in node.input}
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, key) for key, array in _WEIGHTS.items() if key in read],
    )
    versions = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=versions, ir_version=10)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", _CASES)
def test_sizes_on_both_sides_of_the_largest_literal(name):
    model = _model(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ranged = stepwell.compile(model, threads=1, options=stepwell.Options(dims={"n": (20, 90)}, cache=False))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(1)
    for size in (20, 90, 47, 70):
        x = rng.standard_normal([size if dim == "n" else dim for dim in _CASES[name][1]]).astype(np.float32)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(ranged(x), np.asarray(wanted), rtol=1e-4, atol=1e-5, err_msg=str(size))


def test_long_range():
    x = np.ones((70000, 3), np.float32)
    executable = stepwell.compile(_model("range"), threads=1, options=stepwell.Options(cache=False, fallback="error"))
    np.testing.assert_array_equal(executable(x), np.repeat(np.arange(70000, dtype=np.float32)[:, None], 3, 1))
