"""Bytes of values that are quantised before pooling, concatenation or enlargement are those of quantising after it."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model
from stepwell.passes.graph.constants.fold_constants import FoldConstantsPass
from stepwell.passes.graph.products.quantize_early import QuantizeEarlyPass
from stepwell.passes.graph.shapes.infer_shapes import InferShapesPass
from stepwell.passes.graph.simplification.canonicalize import CanonicalizePass
from stepwell.passes.infra.pipeline import Pipeline
from stepwell.passes.infra.state import CompileState

_CHOICES = {
    "pooled": [helper.make_node("MaxPool", ["x"], ["c"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])],
    "joined": [helper.make_node("Concat", ["x", "x", "x"], ["c"], axis=1)],
    "enlarged": [helper.make_node("Resize", ["x", "", "r"], ["c"], mode="nearest")],
    "enlarged, then joined": [
        helper.make_node("Resize", ["x", "", "r"], ["l"], mode="nearest"),
        helper.make_node("Resize", ["x", "", "r"], ["m"], mode="nearest"),
        helper.make_node("Concat", ["l", "m"], ["c"], axis=1),
    ],
}


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("name", _CHOICES)
def test_bytes_stay_the_same(name: str, kind: type) -> None:
    constants = {"r": np.array([1, 1, 2, 3], np.float32), "s": np.float32(0.023), "z": kind(17)}
    nodes = [*_CHOICES[name], helper.make_node("QuantizeLinear", ["c", "s", "z"], ["y"])]
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 7, 9])],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()],
    )
    model: onnx.ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    x = np.random.default_rng(0).standard_normal((1, 4, 7, 9)).astype(np.float32) * 4
    imported = import_model(model, ir.Context(), {"x": x.shape})
    state = CompileState(parameters=dict(imported.parameters))
    Pipeline((InferShapesPass(), FoldConstantsPass(), CanonicalizePass())).run(imported.module, state=state)
    (before,) = evaluate(imported.module, "main", [x], imported.parameters)
    Pipeline((QuantizeEarlyPass(),)).run(imported.module, state=state)
    (after,) = evaluate(imported.module, "main", [x], imported.parameters)
    made = re.findall(r'"stepwell\.([a-z_]+)"', str(imported.module))
    choices = [made.index(choice) for choice in ("max_pool", "concat", "resize") if choice in made]
    assert made.index("cast") < min(choices), "bytes are chosen, not floats"
    np.testing.assert_array_equal(after, before)
