"""Models on the GPU simulator give the same numbers as on the CPU."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.support.errors import ArtefactError

OPTIONS = stepwell.Options(cache=False, fallback="error")


def _classifier() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    shapes = {"w": (8, 3, 3, 3), "b": (8,), "dense": (8, 10)}
    weights = [numpy_helper.from_array(random.random(shape, np.float32), name) for name, shape in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["m"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("MatMul", ["f", "dense"], ["d"]),
        helper.make_node("Softmax", ["d"], ["y"], axis=-1),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(nodes, "classifier", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90a"])
def test_a_classifier_agrees_with_the_cpu(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    model, x = _classifier(), np.random.default_rng(1).random((1, 3, 16, 16), np.float32)
    gpu = stepwell.compile(model, f"cuda:{architecture}", options=OPTIONS)
    want = stepwell.compile(model, options=OPTIONS)(x)
    np.testing.assert_allclose(gpu(x), want, rtol=1e-4, atol=1e-6)


def test_without_a_device_a_call_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPWELL_CUDA", raising=False)
    program = stepwell.compile(_classifier(), "cuda:sm_90a", options=OPTIONS)
    with pytest.raises(ArtefactError, match=r"sm_90a.*NVIDIA GPU.*STEPWELL_CUDA=simulate"):
        program(np.zeros((1, 3, 16, 16), np.float32))


def test_an_artefact_holds_several_targets(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.tools import compile as command

    onnx.save(_classifier(), tmp_path / "m.onnx")
    path = tmp_path / "m.stw"
    assert command.main([str(tmp_path / "m.onnx"), "--target=cpu,cuda:sm_80,cuda:sm_90a", "-o", str(path)]) == 0
    x = np.random.default_rng(1).random((1, 3, 16, 16), np.float32)
    monkeypatch.delenv("STEPWELL_CUDA", raising=False)
    on_cpu = stepwell.load(path)
    assert [program.target.device for program in on_cpu.programs] == ["cpu"]
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    on_gpu = stepwell.load(path)
    assert [program.target.cpu for program in on_gpu.programs] == ["sm_90a"]
    np.testing.assert_allclose(on_gpu(x), on_cpu(x), rtol=1e-4, atol=1e-6)


def _recurrent() -> onnx.ModelProto:
    random = np.random.default_rng(0)
    shapes = {"w": (1, 16, 3), "r": (1, 16, 4)}
    weights = [numpy_helper.from_array(random.random(shape, np.float32) - 0.5, name) for name, shape in shapes.items()]
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1, 2, 4])
    graph = helper.make_graph([node], "recurrent", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_rounds_of_a_loop_are_steps_of_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    x = np.random.default_rng(1).random((3, 2, 3), np.float32)
    gpu = stepwell.compile(_recurrent(), "cuda:sm_80", options=OPTIONS)
    np.testing.assert_allclose(gpu(x), stepwell.compile(_recurrent(), options=OPTIONS)(x), rtol=1e-4, atol=1e-6)


def test_nodes_without_a_launch_are_named() -> None:
    """The rows are so long that comparing all pairs would take longer than sorting on the host."""
    k = numpy_helper.from_array(np.array([2], np.int64), "k")
    node = helper.make_node("TopK", ["x", "k"], ["values", "places"], name="best")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 140000])
    outs = [helper.make_tensor_value_info("values", TensorProto.FLOAT, [1, 2])]
    outs += [helper.make_tensor_value_info("places", TensorProto.INT64, [1, 2])]
    graph = helper.make_graph([node], "top", [x], outs, [k])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.warns(UserWarning, match="TopK"):
        program = stepwell.compile(model, "cuda:sm_80", options=stepwell.Options(cache=False))
    (found,) = program.fallbacks
    assert "TopK" in str(found) and "stepwell-form-launches" in str(found)
    row = np.zeros((1, 140000), np.float32)
    row[0, [70000, 3]] = 9, 5
    values, places = program(row)
    assert values.tolist() == [[9, 5]] and places.tolist() == [[70000, 3]]


def test_tensors_without_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    nodes = [helper.make_node("Exp", ["x"], ["e"]), helper.make_node("Transpose", ["e"], ["y"])]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [0, 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [5, 0])
    model = helper.make_model(helper.make_graph(nodes, "empty", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    assert stepwell.compile(model, "cuda:sm_80", options=OPTIONS)(np.zeros((0, 5), np.float32)).shape == (5, 0)
