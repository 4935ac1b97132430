"""References of the elementwise ops against ONNX Runtime, numpy and Python's own math."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from stepwell.dialects.core import OpError
from stepwell.dialects.registry import OPS
from stepwell.dialects.stepwell import elementwise
from stepwell.dialects.stepwell.elementwise import activation, arithmetic, bits, logic
from stepwell.dialects.stepwell.numerics import erf
from stepwell.dialects.types import TensorSpec

X = np.random.default_rng(0).standard_normal((3, 5), np.float32) * 4
POSITIVE = np.abs(X) + 0.1
MODEL_NAMES = {
    "stepwell.equal": "Equal",
    "stepwell.less_equal": "LessOrEqual",
    "stepwell.greater_equal": "GreaterOrEqual",
    "stepwell.minimum": "Min",
    "stepwell.maximum": "Max",
}


def model_name(name: str) -> str:
    return MODEL_NAMES.get(name) or "".join(word.capitalize() for word in name.removeprefix("stepwell.").split("_"))


@pytest.mark.parametrize(
    "name",
    [
        *("abs", "neg", "sign", "exp", "tanh", "erf", "sin", "cos", "floor", "ceil", "round"),
        *("relu", "sigmoid", "softplus", "hard_swish", "leaky_relu", "elu", "gelu"),
    ],
)
def test_unary_is_that_of_onnx(run_onnx, compute, name):
    (expected,) = run_onnx(model_name(name), X)
    (result,) = compute(OPS[f"stepwell.{name}"], X)
    np.testing.assert_allclose(result, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh", "tan"])
def test_inverse_and_hyperbolic_functions_are_those_of_onnx(run_onnx, compute, name):
    x = POSITIVE + 1 if name == "acosh" else X / 20
    (expected,) = run_onnx(model_name(name), x)
    np.testing.assert_allclose(compute(OPS[f"stepwell.{name}"], x)[0], expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["log", "sqrt", "reciprocal"])
def test_unary_on_positive_is_that_of_onnx(run_onnx, compute, name):
    (result,) = compute(OPS[f"stepwell.{name}"], POSITIVE)
    np.testing.assert_allclose(result, run_onnx(model_name(name), POSITIVE)[0], rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        (activation.GeluOp, {"approximate": "tanh"}),
        (activation.HardSigmoidOp, {"alpha": 0.3, "beta": 0.4}),
        (activation.LeakyReluOp, {"alpha": 0.25}),
        (activation.EluOp, {"alpha": 0.5}),
    ],
)
def test_activation_with_attributes_is_that_of_onnx(run_onnx, compute, op, attributes):
    (expected,) = run_onnx(model_name(op.OPERATION_NAME), X, **attributes)
    np.testing.assert_allclose(compute(op, X, **attributes)[0], expected, rtol=2e-6, atol=1e-6)


def test_functions_without_an_onnx_operator(compute):
    np.testing.assert_allclose(compute(activation.SiluOp, X)[0], X / (1 + np.exp(-X)), rtol=2e-6)
    np.testing.assert_allclose(compute(arithmetic.RsqrtOp, POSITIVE)[0], POSITIVE**-0.5, rtol=2e-6)


def test_erf_is_exact_in_float64():
    x = np.concatenate([np.linspace(-6.5, 6.5, 4001), [0.0, -0.0, 1e-300, 30.0, np.inf, -np.inf]])
    np.testing.assert_allclose(erf(x), [math.erf(value) for value in x], rtol=3e-16, atol=0)
    assert np.isnan(erf(np.array([np.nan])))[0]


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_floats_are_rounded_once(compute, dtype):
    x = X.astype(dtype)
    for name in ("exp", "tanh", "erf", "sigmoid", "gelu", "softplus", "silu", "round", "abs", "relu", "clip"):
        op = OPS[f"stepwell.{name}"]
        (result,), (wide,) = compute(op, x), compute(op, x.astype(np.float64))
        np.testing.assert_allclose(result.astype(np.float64), wide, rtol=2**-7, atol=1e-6)


@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4), data=st.data())
@settings(max_examples=60, deadline=None)
def test_binary_broadcasts_as_numpy(compute, shapes, data):
    name = data.draw(st.sampled_from(["add", "sub", "mul", "div", "minimum", "maximum", "less", "equal"]))
    functions = {"sub": np.subtract, "mul": np.multiply, "div": np.divide}
    rng = np.random.default_rng(0)
    lhs, rhs = (rng.standard_normal(shape).astype(np.float32) for shape in shapes.input_shapes)
    expected = functions.get(name, getattr(np, name, None))(lhs, rhs)
    np.testing.assert_array_equal(compute(OPS[f"stepwell.{name}"], lhs, rhs)[0], expected)


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal", "equal"])
def test_comparison_is_that_of_onnx(run_onnx, compute, name):
    lhs, rhs = np.arange(6, dtype=np.int64).reshape(2, 3), np.array([1, 1, 3], np.int64)
    (result,) = compute(OPS[f"stepwell.{name}"], lhs, rhs)
    assert result.dtype == np.bool_
    np.testing.assert_array_equal(result, run_onnx(model_name(f"stepwell.{name}"), lhs, rhs)[0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integer_division_is_that_of_onnx(run_onnx, compute, dtype):
    lhs = np.array([7, -7, 7, -7, 6, -6, 0], dtype)
    rhs = np.array([2, 2, -2, -2, 3, 3, -5], dtype)
    np.testing.assert_array_equal(compute(arithmetic.DivOp, lhs, rhs)[0], run_onnx("Div", lhs, rhs)[0])
    np.testing.assert_array_equal(compute(arithmetic.ModOp, lhs, rhs)[0], run_onnx("Mod", lhs, rhs)[0])


def test_float_remainder_has_the_sign_of_the_dividend(run_onnx, compute):
    lhs, rhs = np.array([5.3, -5.3, 5.3, -5.3], np.float32), np.array([2, 2, -2, -2], np.float32)
    np.testing.assert_allclose(compute(arithmetic.ModOp, lhs, rhs)[0], run_onnx("Mod", lhs, rhs, fmod=1)[0])


def test_extremes_of_nan_are_nan(compute):
    lhs, rhs = np.array([np.nan, 1], np.float32), np.array([1, np.nan], np.float32)
    assert np.isnan(compute(arithmetic.MinimumOp, lhs, rhs)[0]).all()
    assert np.isnan(compute(arithmetic.MaximumOp, lhs, rhs)[0]).all()


def test_logic_on_bools_and_bits(compute):
    lhs, rhs = np.array([True, True, False, False]), np.array([True, False, True, False])
    for op, function in ((logic.AndOp, np.logical_and), (logic.OrOp, np.logical_or), (logic.XorOp, np.logical_xor)):
        np.testing.assert_array_equal(compute(op, lhs, rhs)[0], function(lhs, rhs))
    np.testing.assert_array_equal(compute(logic.NotOp, lhs)[0], ~lhs)
    np.testing.assert_array_equal(compute(logic.XorOp, np.array([6]), np.array([3]))[0], [5])


def test_select_broadcasts_all_three(compute):
    condition, on_true = np.array([[True], [False]]), np.arange(3, dtype=np.float32)
    (result,) = compute(logic.SelectOp, condition, on_true, np.float32(-1).reshape(()))
    np.testing.assert_array_equal(result, [[0, 1, 2], [-1, -1, -1]])


def test_cast_rounds_towards_zero_and_to_even(compute):
    x = np.array([1.9, -1.9, 0.0, 2.5], np.float32)
    np.testing.assert_array_equal(compute(logic.CastOp, x, dtype=np.dtype(np.int64))[0], [1, -1, 0, 2])
    np.testing.assert_array_equal(compute(logic.CastOp, x, dtype=np.dtype(np.bool_))[0], [True, True, False, True])
    halves = compute(logic.CastOp, np.array([2049.0, 2051.0], np.float32), dtype=np.dtype(np.float16))[0]
    np.testing.assert_array_equal(halves, [2048, 2052])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_shifts_are_those_of_onnx(run_onnx, compute, dtype):
    lhs, rhs = np.array([[200], [3]], dtype), np.array([0, 1, 7], dtype)
    for op, direction in ((bits.ShiftLeftOp, "LEFT"), (bits.ShiftRightOp, "RIGHT")):
        np.testing.assert_array_equal(compute(op, lhs, rhs)[0], run_onnx("BitShift", lhs, rhs, direction=direction)[0])


def test_shifts_by_impossible_numbers_leave_the_sign(compute):
    lhs, rhs = np.array([5, -5, 5, -5], np.int8), np.array([8, 8, -1, -1], np.int8)
    np.testing.assert_array_equal(compute(bits.ShiftLeftOp, lhs, rhs)[0], [0, 0, 0, 0])
    np.testing.assert_array_equal(compute(bits.ShiftRightOp, lhs, rhs)[0], [0, -1, 0, -1])


def test_bits_are_kept(compute):
    x = np.array([1.0, -0.0, np.inf], np.float32)
    (result,) = compute(bits.BitcastOp, x, dtype=np.dtype(np.int32))
    np.testing.assert_array_equal(result, [0x3F800000, -(2**31), 0x7F800000])
    np.testing.assert_array_equal(compute(bits.BitcastOp, result, dtype=np.dtype(np.float32))[0], x)


def test_clip_of_integers_takes_bounds_inside(compute):
    x = np.array([-128, -3, 0, 5, 127], np.int8)
    np.testing.assert_array_equal(compute(activation.ClipOp, x, minimum=-2.5, maximum=1e9)[0], [-2, -2, 0, 5, 127])
    np.testing.assert_array_equal(compute(activation.ClipOp, x)[0], x)


F32, I64, BOOL = (np.dtype(kind) for kind in (np.float32, np.int64, np.bool_))


@pytest.mark.parametrize(
    ("op", "specs", "message"),
    [
        (elementwise.TanhOp, [((2,), I64)], "operand 'input' must be floating point, but is 2xi64"),
        (elementwise.AddOp, [((2,), F32), ((3,), F32)], "shapes 2 and 3 cannot be broadcast together"),
        (elementwise.AddOp, [((2,), F32), ((2,), I64)], "one element type, but have f32, i64"),
        (elementwise.AndOp, [((2,), F32), ((2,), F32)], "operand 'lhs' must be bool or integer"),
        (elementwise.SelectOp, [((2,), F32)] * 3, "operand 'condition' must have element type i1, but is 2xf32"),
    ],
)
def test_wrong_operands_are_refused(op, specs, message):
    with pytest.raises(OpError, match=message):
        op.infer(*(TensorSpec(shape, dtype) for shape, dtype in specs))
