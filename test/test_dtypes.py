"""Element types that models seldom have: right numbers or one clear error, never a trap."""

import numpy as np
import pytest
import stepwell
from onnx import helper

INTEGERS = (np.int8, np.uint8, np.int32, np.uint32, np.int64)


def compiled(op_type, lhs, rhs):
    """A model of one binary node on arrays like these."""
    kind = helper.np_dtype_to_tensor_dtype(lhs.dtype)
    inputs = [helper.make_tensor_value_info(name, kind, value.shape) for name, value in (("x", lhs), ("z", rhs))]
    node = helper.make_node(op_type, ["x", "z"], ["y"], name="sample")
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    return stepwell.compile(model, threads=1, options=stepwell.Options(cache=False, checked=False))


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_by_0_gives_0(op_type, dtype):
    lhs = np.arange(1, 41).astype(dtype)
    rhs = np.where(lhs % 3, lhs % 5, 0).astype(dtype)
    with np.errstate(divide="ignore"):
        expected = lhs // rhs if op_type == "Div" else lhs % rhs
    np.testing.assert_array_equal(compiled(op_type, lhs, rhs)(lhs, rhs), expected)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_integer_products_wrap_around(dtype):
    x = np.random.default_rng(0).integers(0, 120, (7, 40)).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [helper.make_node("ReduceProd", ["x"], ["y"], axes=[1], keepdims=0)],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    np.testing.assert_array_equal(run(x), np.prod(x, axis=1, dtype=dtype))


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_with_idle_lanes(op_type, dtype):
    lhs = np.arange(5 * 37).reshape(5, 37).astype(dtype) % 100
    rhs = (np.arange(37) % 9 + 1).astype(dtype)
    expected = lhs // rhs if op_type == "Div" else lhs % rhs
    np.testing.assert_array_equal(compiled(op_type, lhs, rhs)(lhs, rhs), expected)


@pytest.mark.parametrize("op_type", ["Div", "Mod"])
def test_integer_division_does_not_trap(op_type):
    least = np.iinfo(np.int32).min
    lhs, rhs = np.array([7, least, -7], np.int32), np.array([0, -1, 2], np.int32)
    result = compiled(op_type, lhs, rhs)(lhs, rhs)
    assert result[1] == (least if op_type == "Div" else 0)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_matrix_products_of_integers_wrap_around(dtype):
    rng, info = np.random.default_rng(1), np.iinfo(dtype)
    lhs, rhs = (rng.integers(info.min, info.max, shape, dtype, endpoint=True) for shape in ((5, 7), (7, 6)))
    np.testing.assert_array_equal(compiled("MatMul", lhs, rhs)(lhs, rhs), lhs @ rhs)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_powers_of_integers_wrap_around(dtype):
    base = np.repeat(np.arange(-6, 7), 40).reshape(13, 40).astype(dtype)
    exponent = np.arange(40).astype(dtype)
    np.testing.assert_array_equal(compiled("Pow", base, exponent)(base, exponent), base**exponent)
