"""If only the batch size varies, kernels compute no more examples than a call has."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
import stepwell
from onnx import NodeProto, TensorProto, helper, numpy_helper

from .graphs import batches_of_tiles

_RANDOM = np.random.default_rng(5)
_CONSTANTS = {
    "axis": np.array(1),
    "k": np.array([3]),
    "roi": np.array([], np.float32),
    "scales": np.array([1, 1, 1.5, 2], np.float32),
    "filters": _RANDOM.standard_normal((4, 1, 3, 3)).astype(np.float32),
    "ones": np.ones(4, np.float32),
    "zeros": np.zeros(4, np.float32),
}
_CASES = {
    "mean": [helper.make_node("ReduceMean", ["a"], ["y"], axes=[1])],
    "global_mean": [helper.make_node("GlobalAveragePool", ["a"], ["y"])],
    "argmax": [helper.make_node("ArgMax", ["a"], ["y"], axis=-1, keepdims=0)],
    "log_softmax": [helper.make_node("LogSoftmax", ["a"], ["y"], axis=1)],
    "cumulative": [helper.make_node("CumSum", ["a", "axis"], ["y"], reverse=1)],
    "top_k": [helper.make_node("TopK", ["a", "k"], ["y", "places"])],
    "response_norm": [helper.make_node("LRN", ["a"], ["y"], size=3)],
    "instance_norm": [helper.make_node("InstanceNormalization", ["a", "ones", "zeros"], ["y"])],
    "planes": [helper.make_node("Conv", ["a", "filters"], ["y"], group=4, pads=[1, 1, 1, 1])],
    "max_pool": [helper.make_node("MaxPool", ["a"], ["y"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])],
    "average_pool": [helper.make_node("AveragePool", ["a"], ["y"], kernel_shape=[3, 3], strides=[2, 2])],
    "linear_resize": [helper.make_node("Resize", ["a", "roi", "scales"], ["y"], mode="linear")],
}


@pytest.mark.parametrize("nodes", _CASES.values(), ids=_CASES)
def test_kernels_stop_with_the_batch(nodes: list[NodeProto]):
    before = helper.make_node("Exp", ["x"], ["a"], name="first")
    after = helper.make_node("Cast", ["y"], ["z"], to=TensorProto.DOUBLE)
    used = {name for node in nodes for name in node.input}
    model = helper.make_model(
        helper.make_graph(
            [before, *nodes, after],
            "small",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4, 7, 9])],
            [helper.make_tensor_value_info("z", TensorProto.DOUBLE, None)],
            [numpy_helper.from_array(value, name) for name, value in _CONSTANTS.items() if name in used],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    executable = stepwell.compile(model, options=stepwell.Options(dims={"batch": (1, 9)}, cache=False))
    assert len(executable.programs) == 1
    assert "(first" not in executable.explain()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (9, 1, 4, 9):
        x = np.random.default_rng(batch).standard_normal((batch, 4, 7, 9), np.float32)
        np.testing.assert_allclose(executable(x), np.asarray(session.run(None, {"x": x})[0]), rtol=1e-4, atol=1e-5)


def test_tiles_take_no_further_images():
    model, dims = batches_of_tiles()
    executable = stepwell.compile(model, options=stepwell.Options(dims=dims, cache=False))
    assert "winograd" in {kernel.kind for kernel in executable.programs[0].kernels}
    bounds = executable.programs[0].bounds
    assert bounds is not None and set(bounds.table) == {"n"}
