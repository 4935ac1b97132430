"""Products of merged rows, [batch * length, features]: their loops end with the data of each sequence."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects import discardable
from stepwell.passes.ir.functions import kernels_in

_RNG = np.random.default_rng(0)
_W, _BIAS, _V = (_RNG.standard_normal(shape, np.float32) / 8 for shape in ((64, 128), (128,), (128, 64)))


def _model(batch: int | str) -> onnx.ModelProto:
    """Two products of merged rows with elementwise ops between them, as in GPT-2."""
    node = helper.make_node
    nodes = [
        node("Reshape", ["x", "flat"], ["rows"]),
        node("Gemm", ["rows", "w", "bias"], ["hidden"]),
        node("Tanh", ["hidden"], ["active"]),
        node("MatMul", ["active", "v"], ["products"]),
        node("Add", ["products", "rows"], ["sum"]),
        node("Shape", ["x"], ["shape"]),
        node("Reshape", ["sum", "shape"], ["y"]),
    ]
    weights = {"w": _W, "bias": _BIAS, "v": _V, "flat": np.array([-1, 64])}
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, "n", 64]) for name in "xy")
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "rows", [x], [y], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("batch", [4, "b"], ids=str)
def test_products_of_merged_rows_end_where_the_data_does(batch: int | str):
    bounded: dict[str, bool] = {}

    def reached(phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        if phase != "kernels":
            return
        for kernel in kernels_in(module.operation):
            if 'class = "contraction"' in str(kernel.attributes["stepwell.kernel"]):
                entries = discardable.EXTENTS.read(kernel, ())
                bounded[ir.StringAttr(kernel.attributes["sym_name"]).value] = max(entries, default=-1) >= 0

    dims = {"n": [128]} | ({"b": [4]} if isinstance(batch, str) else {})
    options = stepwell.Options(dims=dims, cache=False, fallback="error", reached=reached)
    executable = stepwell.compile(_model(batch), threads=1, options=options)
    assert bounded and all(bounded.values())
    for size in (1, 37, 128, 5):
        for count in (4,) if batch == 4 else (1, 3, 4):
            x = _RNG.standard_normal((count, size, 64), np.float32)
            wanted = np.tanh(x @ _W + _BIAS) @ _V + x
            np.testing.assert_allclose(executable(x), wanted, rtol=1e-4, atol=1e-4)
