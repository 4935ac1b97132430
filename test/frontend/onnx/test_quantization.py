"""Quantised operators, compared with ONNX Runtime, or with ONNX's reference if it has no implementation."""

import ml_dtypes
import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import NodeError
from stepwell.frontend.onnx.importer import import_model

F32, I32, I8, U8 = np.float32, np.int32, np.int8, np.uint8
KINDS = [(U8, U8), (U8, I8), (I8, I8)]


@pytest.fixture
def draw(rng):
    """Returns a function that draws integers of a type and shape from the type's whole range."""

    def make(dtype, *shape):
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)

    return make


def compare(op_type, opset, inputs, **attributes):
    """Compares a node with ONNX's reference; all inputs but the first are stored in the model."""
    names = [f"x{index}" for index in range(len(inputs))]
    kind = helper.np_dtype_to_tensor_dtype(inputs[0].dtype)
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x0", kind, inputs[0].shape)],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(array, name) for name, array in zip(names[1:], inputs[1:], strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    (expected,) = ReferenceEvaluator(model).run(None, {"x0": inputs[0]})
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(expected.dtype)
    imported = import_model(model, ir.Context(), {"x0": inputs[0].shape})
    (got,) = evaluate(imported.module, "main", [inputs[0]], imported.parameters)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got.astype(F32), expected.astype(F32))


@pytest.mark.parametrize(("left", "right"), KINDS)
def test_matmul_integer(check, draw, left, right):
    a, b = draw(left, 2, 3, 7), draw(right, 7, 5)
    check("MatMulInteger", 10, [a, b])
    check("MatMulInteger", 10, [a, b, np.array(3, left), np.array(4, right)])
    check("MatMulInteger", 10, [a], constants={1: b, 2: left(100), 3: draw(right, 5)})


@pytest.mark.parametrize(("left", "right"), KINDS)
def test_qlinear_matmul(check, draw, left, right):
    scales = {1: F32(0.02), 2: left(5), 4: F32(0.03), 5: right(3), 6: F32(0.4), 7: left(60)}
    check("QLinearMatMul", 10, [draw(left, 3, 7)], constants={**scales, 3: draw(right, 7, 5)})
    scales |= {4: np.linspace(0.01, 0.05, 5, dtype=F32), 5: draw(right, 5)}
    check("QLinearMatMul", 10, [draw(left, 3, 7)], constants={**scales, 3: draw(right, 7, 5)})


@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"group": 2}])
def test_conv_integer(check, draw, attributes):
    weight = draw(U8, 4, 4 // attributes.get("group", 1), 3, 3)
    check("ConvInteger", 10, [draw(U8, 1, 4, 6, 5)], constants={1: weight}, **attributes)
    check("ConvInteger", 10, [draw(U8, 1, 4, 6, 5)], constants={1: weight, 2: U8(7), 3: U8(130)}, **attributes)


@pytest.mark.few(4)
@pytest.mark.parametrize(("left", "right"), KINDS)
@pytest.mark.parametrize("attributes", [{}, {"pads": [1, 0, 1, 2], "strides": [2, 1]}, {"dilations": [2, 1]}])
def test_conv_integer_with_zero_points_that_are_computed(check, draw, left, right, attributes):
    """As in models that quantise activations at run time, with weights from -127 to 0."""
    input, weight = draw(left, 2, 4, 7, 6), draw(right, 4, 4, 3, 3)
    for start in (0, 7, 100):
        check(
            "ConvInteger", 10, [input, None, np.array(start, left)], constants={1: weight, 3: right(70)}, **attributes
        )
        check("ConvInteger", 10, [input, None, np.array(start, left)], constants={1: weight}, **attributes)


@pytest.mark.parametrize(("left", "right"), KINDS)
def test_qlinear_conv(check, draw, left, right):
    scales = {1: F32(0.02), 2: left(5), 3: draw(right, 6, 4, 3, 3), 6: F32(0.9), 7: left(40)}
    tensor = {4: F32(0.03), 5: right(3)}
    bias = np.arange(-3, 3, dtype=I32) * 1000
    check("QLinearConv", 10, [draw(left, 1, 4, 6, 5)], constants={**scales, **tensor, 8: bias}, pads=[1, 1, 1, 1])
    channels = {4: np.linspace(0.01, 0.05, 6, dtype=F32), 5: np.full(6, 0 if right == I8 else 128, right)}
    check("QLinearConv", 10, [draw(left, 1, 4, 6, 5)], constants={**scales, **channels}, strides=[2, 2])


def test_dynamic_quantize(check, rng):
    for shift in (0, 9, -9):
        check("DynamicQuantizeLinear", 11, [rng.normal(size=(3, 7)).astype(F32) + F32(shift)], outputs=3)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("block", [2, 3])
def test_blocks(rng, axis, block):
    x = rng.normal(size=(4, 6)).astype(F32)
    shape = [4, 6]
    shape[axis] = -(-shape[axis] // block)
    scale = rng.uniform(0.01, 0.1, shape).astype(F32)
    zero = rng.integers(0, 15, shape).astype(ml_dtypes.uint4)
    compare("QuantizeLinear", 21, [x, scale, zero], axis=axis, block_size=block)
    compare("QuantizeLinear", 21, [x, scale], axis=axis, block_size=block, output_dtype=onnx.TensorProto.INT16)
    numbers = rng.integers(0, 15, (4, 6)).astype(ml_dtypes.uint4)
    compare("DequantizeLinear", 21, [numbers, scale, zero], axis=axis, block_size=block)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "int4", "uint4", "int2", "uint2"])
def test_small_types(rng, name):
    x, kind = (rng.normal(size=(3, 4)) * 30).astype(F32), np.dtype(getattr(ml_dtypes, name))
    zero = np.zeros((), kind)
    compare("QuantizeLinear", 25, [x, F32(0.7), zero])
    compare("DequantizeLinear", 25, [(np.abs(x) % 2).astype(kind), F32(0.7), zero])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_scales(rng, dtype):
    x, scale = rng.normal(size=(3, 4)).astype(dtype), np.array(0.0625, dtype)
    compare("QuantizeLinear", 19, [x, scale, I8(3)])
    compare("DequantizeLinear", 19, [np.arange(12, dtype=U8), scale, U8(3)])


def test_precision_and_types_of_opset_23(rng):
    x = (rng.normal(size=(3, 4)) * 10).astype(np.float16)
    kinds = {"precision": onnx.TensorProto.FLOAT, "output_dtype": onnx.TensorProto.INT8}
    compare("QuantizeLinear", 23, [x, np.array(0.3, np.float16)], **kinds)
    compare("DequantizeLinear", 23, [np.arange(12, dtype=U8), F32(0.3)], output_dtype=onnx.TensorProto.FLOAT16)


@pytest.mark.parametrize("op_type", ["QLinearAdd", "QLinearMul"])
def test_microsoft_binary(check, draw, op_type):
    right = {1: F32(0.02), 2: U8(5), 4: F32(0.03), 5: U8(130), 6: F32(0.05), 7: U8(100)}
    check(op_type, 17, [draw(U8, 2, 3, 4), None, None, draw(U8, 3, 1)], constants=right, domain="com.microsoft")


@pytest.mark.parametrize(("op_type", "attributes"), [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.2})])
def test_microsoft_unary(check, draw, op_type, attributes):
    constants = {1: F32(0.02), 2: I8(5), 3: F32(0.01), 4: I8(-100)}
    check(op_type, 17, [draw(I8, 2, 30)], constants=constants, domain="com.microsoft", **attributes)


@pytest.mark.parametrize("channels_last", [0, 1])
def test_microsoft_pooling(check, draw, channels_last):
    constants = {1: F32(0.02), 2: U8(5), 3: F32(0.01), 4: U8(20)}
    attributes = {"channels_last": channels_last, "domain": "com.microsoft"}
    check("QLinearGlobalAveragePool", 17, [draw(U8, 1, 3, 4, 5)], constants=constants, dynamic=False, **attributes)


def test_microsoft_concat(check, draw):
    constants = {0: F32(0.03), 1: U8(7), 3: F32(0.02), 4: U8(5), 6: F32(0.04), 7: U8(9)}
    inputs = [None, None, draw(U8, 2, 3), None, None, draw(U8, 2, 4)]
    check("QLinearConcat", 17, inputs, constants=constants, domain="com.microsoft", axis=1)


@pytest.mark.parametrize("is_quantized", [True, False])
def test_microsoft_gemm(check, draw, is_quantized):
    constants = {1: F32(0.02), 2: U8(5), 3: draw(I8, 6, 9), 4: F32(0.03), 5: I8(0), 6: np.arange(6, dtype=I32) * 50}
    constants |= {7: F32(0.1), 8: U8(90)} if is_quantized else {}
    check("QGemm", 17, [draw(U8, 4, 9)], constants=constants, domain="com.microsoft", transB=1, alpha=1.0)


def test_types_that_disagree_are_refused(rng):
    with pytest.raises((NodeError, ValueError), match="output_dtype"):
        compare("QuantizeLinear", 21, [np.ones(3, F32), F32(1), I8(0)], output_dtype=onnx.TensorProto.UINT8)
