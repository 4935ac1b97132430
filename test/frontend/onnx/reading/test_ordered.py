"""Nodes that come before the nodes whose outputs they read, which ONNX Runtime accepts."""

import numpy as np
import stepwell
from onnx import TensorProto, helper
from stepwell.frontend.onnx.reading.model import read_model


def test_nodes_in_any_order():
    inner = [helper.make_node("Add", ["b", "x"], ["c"]), helper.make_node("Neg", ["a"], ["b"])]
    branch = helper.make_graph(inner, "then", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, None)])
    other = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["d"])],
        "else",
        [],
        [helper.make_tensor_value_info("d", TensorProto.FLOAT, None)],
    )
    nodes = [
        helper.make_node("Exp", ["chosen"], ["y"]),
        helper.make_node("If", ["which"], ["chosen"], then_branch=branch, else_branch=other),
        helper.make_node("Abs", ["x"], ["a"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])]
    inputs.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    graph = helper.make_graph(nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    read = read_model(model)
    assert [node.op_type for node in read.proto.graph.node] == ["Abs", "If", "Exp"]
    assert [node.op_type for node in model.graph.node] == ["Exp", "If", "Abs"]  # the user's model is unchanged
    x = np.array([-1, 0.5, 2], np.float32)
    run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    np.testing.assert_allclose(run(x, np.array(True)), np.exp(x - np.abs(x)), rtol=1e-6)
    np.testing.assert_allclose(run(x, np.array(False)), np.exp(x), rtol=1e-6)
