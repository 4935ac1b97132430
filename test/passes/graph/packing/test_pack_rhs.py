"""Products of bfloat16 whose right-hand side is an input."""

import ml_dtypes
import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper


@pytest.mark.parametrize(
    ("left", "right"),
    [((64, 96), (96, 128)), ((3, 20, 64), (3, 64, 48)), ((6, 31), (31, 40)), ((5, 32), (32, 33)), ((7, 2), (2, 16))],
)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_bfloat16(left, right, is_transposed):
    stored = (*right[:-2], right[-1], right[-2]) if is_transposed else right
    axes = [*range(len(right) - 2), len(right) - 1, len(right) - 2]
    turned = [helper.make_node("Transpose", ["y"], ["t"], perm=axes)] if is_transposed else []
    nodes = [*turned, helper.make_node("MatMul", ["x", "t" if is_transposed else "y"], ["z"])]
    shapes = {"x": left, "y": stored}
    inputs = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, shape) for name, shape in shapes.items()]
    output = helper.make_tensor_value_info("z", TensorProto.BFLOAT16, None)
    opset = helper.make_opsetid("", 18)
    model = helper.make_model(helper.make_graph(nodes, "model", inputs, [output]), opset_imports=[opset], ir_version=9)
    generator = np.random.default_rng(0)
    x, y = (generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes.values())
    made = stepwell.compile(model, options=stepwell.Options(fallback="error", cache=False))(x, y)
    matrix = y.astype(np.float32)
    expected = x.astype(np.float32) @ (matrix.swapaxes(-1, -2) if is_transposed else matrix)
    np.testing.assert_allclose(made.astype(np.float32), expected, rtol=8e-3, atol=1e-3)
