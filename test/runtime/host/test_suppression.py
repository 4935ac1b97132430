"""NonMaxSuppression on the host, compared with ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from stepwell.runtime.host.step import HostNode


def model_of(is_center: bool):
    node = helper.make_node("NonMaxSuppression", ["b", "s", "m", "o", "l"], ["y"], center_point_box=int(is_center))
    shapes = {"b": ["n", "k", 4], "s": ["n", "c", "k"]}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    inputs.append(helper.make_tensor_value_info("m", TensorProto.INT64, [1]))
    inputs += [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("o", "l")]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.INT64, ["r", 3])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8)


@pytest.mark.parametrize("is_center", [False, True])
def test_kept_boxes_are_those_of_onnxruntime(is_center: bool) -> None:
    model, rng = model_of(is_center), np.random.default_rng(0)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    node = HostNode(model.SerializeToString(), "node")
    for number in range(40):
        count, batch, classes = int(rng.integers(1, 60)), int(rng.integers(1, 3)), int(rng.integers(1, 4))
        corner, size = rng.uniform(0, 10, (batch, count, 2)), rng.uniform(0, 4, (batch, count, 2))
        boxes = np.concatenate([corner, size if is_center else corner + size], -1)
        boxes = np.round(boxes) if number % 4 == 0 else boxes
        boxes = boxes[..., [2, 1, 0, 3]] if number % 3 == 0 and not is_center else boxes
        scores = np.round(rng.uniform(0, 1, (batch, classes, count)), 1 if number % 5 == 0 else 6)
        feeds = {
            "b": boxes.astype(np.float32),
            "s": scores.astype(np.float32),
            "m": np.array([rng.integers(0, 30)]),
            "o": rng.uniform(0, 0.8, 1).astype(np.float32),
            "l": rng.uniform(0, 0.6, 1).astype(np.float32),
        }
        (wanted,) = session.run(None, feeds)
        np.testing.assert_array_equal(node.run(feeds)[0], wanted)
