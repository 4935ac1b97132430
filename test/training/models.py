"""Small models, drawn by seed."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def mlp(sizes: tuple[int, ...] = (6, 16, 4)) -> onnx.ModelProto:
    """Gemm and Relu in turns, from [batch, sizes[0]] to [batch, sizes[-1]]."""
    random = np.random.default_rng(0)
    nodes, weights, value = [], [], "x"
    for index, (rows, columns) in enumerate(itertools.pairwise(sizes)):
        weights.append(numpy_helper.from_array(random.normal(0, 0.5, (columns, rows)).astype(np.float32), f"w{index}"))
        weights.append(numpy_helper.from_array(random.normal(0, 0.5, columns).astype(np.float32), f"b{index}"))
        is_last = index == len(sizes) - 2
        result = "y" if is_last else f"h{index}"
        nodes.append(helper.make_node("Gemm", [value, f"w{index}", f"b{index}"], [result], f"dense{index}", transB=1))
        if not is_last:
            nodes.append(helper.make_node("Relu", [result], [f"r{index}"], f"relu{index}"))
            value = f"r{index}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", sizes[0]])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", sizes[-1]])
    graph = helper.make_graph(nodes, "mlp", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
