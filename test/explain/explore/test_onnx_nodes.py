"""The page shows a node as it is in the model's file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from stepwell.explain.explore.onnx_nodes import nodes_of


def test_nodes_are_described(tmp_path: Path) -> None:
    body = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["z"], "inner")], "then", [], [helper.make_tensor_value_info("z", 1, [2])]
    )
    other = helper.make_graph(
        [helper.make_node("Exp", ["x"], ["z"], "else")], "otherwise", [], [helper.make_tensor_value_info("z", 1, [2])]
    )
    small = numpy_helper.from_array(np.array([1.5, 2], np.float32), "small")
    large = numpy_helper.from_array(np.zeros((4, 8), np.float32), "large")
    nodes = [
        helper.make_node("LeakyRelu", ["x"], ["a"], "leaky", alpha=0.1),
        helper.make_node("Constant", [], ["b"], value=small),
        helper.make_node("Constant", [], ["c"], "large", value=large),
        helper.make_node("If", ["k"], ["y"], "choice", then_branch=body, else_branch=other),
        helper.make_node("Own", ["y", "", "a"], ["w"], "own", domain="mine", mode="fast", sizes=list(range(20))),
    ]
    ports = [helper.make_tensor_value_info("x", 1, [2]), helper.make_tensor_value_info("k", TensorProto.BOOL, [])]
    graph = helper.make_graph(nodes, "g", ports, [helper.make_tensor_value_info("w", 1, [2])])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("mine", 3)]
    onnx.save(helper.make_model(graph, opset_imports=imports), tmp_path / "m.onnx")
    found = nodes_of(tmp_path / "m.onnx")
    assert found["leaky"]["attributes"] == {"alpha": "0.1"}
    assert found["Constant_1"]["attributes"] == {"value": "float 2: 1.5, 2"}
    assert found["large"]["attributes"] == {"value": "float 4x8"}
    assert found["choice"]["attributes"]["then_branch"] == "graph 'then' of 1 nodes"
    assert found["inner"]["operator"] == "Neg of opset 17"
    own = found["own"]
    assert (own["operator"], own["inputs"], own["outputs"]) == ("mine.Own of opset 3", ["y", "", "a"], ["w"])
    assert own["attributes"]["mode"] == "fast"
    assert own["attributes"]["sizes"].endswith("14, 15, ... (20 in all)]")
    assert nodes_of(tmp_path / "m.mlir") == {}
