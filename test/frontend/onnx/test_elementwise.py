"""Arithmetic, activations, comparisons and casts, compared with ONNX Runtime."""

import numpy as np
import pytest

F32, F64, I32, I64 = np.float32, np.float64, np.int32, np.int64
BOTH_SIGNS = np.array([[-3.5, -1.0, -0.5, 0.0], [0.5, 1.5, 2.5, 3.25]], F32)
POSITIVE = np.abs(BOTH_SIGNS) + np.float32(0.25)

UNARY = ["Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "HardSwish", "Identity", "Mish", "Neg", "Reciprocal", "Relu"]
UNARY += ["Round", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Tan", "Tanh", "Cosh", "Sinh"]
FIRST_OPSET = {"Erf": 9, "HardSwish": 14, "Mish": 18, "Round": 11, "Sign": 9, "Cosh": 9, "Sinh": 9, "Softsign": 7}


@pytest.mark.parametrize("op_type", UNARY)
def test_unary(check, op_type):
    array = POSITIVE if op_type == "Reciprocal" else BOTH_SIGNS
    for opset in {max(FIRST_OPSET.get(op_type, 7), 7), 21}:
        check(op_type, opset, [array])


@pytest.mark.parametrize("op_type", ["Log", "Sqrt"])
def test_unary_positive(check, op_type):
    check(op_type, 7, [POSITIVE])
    check(op_type, 13, [POSITIVE.astype(F64)])


@pytest.mark.parametrize("op_type", ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh"])
def test_inverse_functions(check, op_type):
    for opset in (9, 22):
        check(op_type, opset, [POSITIVE + 1 if op_type == "Acosh" else BOTH_SIGNS / 4])


@pytest.mark.parametrize("op_type", ["Abs", "Neg", "Sign"])
def test_unary_integer(check, op_type):
    check(op_type, 13, [np.array([-7, 0, 5], I64)])


@pytest.mark.parametrize("opset", [7, 13, 14])
@pytest.mark.parametrize("op_type", ["Add", "Sub", "Mul", "Div"])
def test_binary_broadcasts(check, op_type, opset, rng):
    lhs, rhs = rng.normal(size=(2, 1, 4)).astype(F32), rng.normal(size=(3, 1)).astype(F32)
    check(op_type, opset, [lhs, rhs])
    check(op_type, opset, [np.array([7, -7, 9], I64), np.array([2, 2, -4], I64)])


@pytest.mark.parametrize("op_type", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_variadic(check, op_type, count, rng):
    arrays = [rng.normal(size=shape).astype(F32) for shape in ((2, 3), (3,), (2, 1))[:count]]
    check(op_type, 8, arrays)
    check(op_type, 13, arrays)


def test_pow_takes_any_exponent(check):
    check("Pow", 7, [POSITIVE, np.array(2.5, F32)])
    check("Pow", 12, [POSITIVE, np.array(3, I64)])
    check("Pow", 13, [np.array([2, 3], I64), np.array([3, 2], I64)])
    check("Pow", 15, [np.array([4, 9], I32), np.array(0.5, F32)])


def test_powers_of_integers_by_floats_are_whole(check):
    check("Pow", 15, [np.arange(1, 200, dtype=I64), np.array(3, F32)])
    check("Pow", 15, [np.arange(1, 200, dtype=I32) ** 2, np.array(0.5, F64)])


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_bit_shift(check, direction):
    check("BitShift", 11, [np.array([[16], [200]], np.uint8), np.array([1, 3], np.uint8)], direction=direction)


def test_mod_signs(check):
    numbers, divisors = np.array([-7, 7, -7, 7], I64), np.array([3, -3, -3, 3], I64)
    check("Mod", 10, [numbers, divisors])
    check("Mod", 13, [numbers, divisors], fmod=1)
    check("Mod", 13, [numbers.astype(F32) + 0.5, divisors.astype(F32)], fmod=1)


@pytest.mark.parametrize(
    ("op_type", "opset", "attributes"),
    [
        ("HardSigmoid", 7, {}),
        ("HardSigmoid", 22, {"alpha": 0.3, "beta": 0.4}),
        ("LeakyRelu", 7, {"alpha": 0.2}),
        ("LeakyRelu", 16, {}),
        ("Elu", 7, {"alpha": 1.5}),
        ("Selu", 7, {}),
        ("Selu", 22, {"alpha": 1.2, "gamma": 1.1}),
        ("Celu", 12, {"alpha": 2.0}),
        ("ThresholdedRelu", 10, {"alpha": 0.7}),
        ("Shrink", 9, {"bias": 0.5, "lambd": 1.0}),
        ("Gelu", 20, {}),
        ("Gelu", 20, {"approximate": "tanh"}),
    ],
)
def test_activation_attributes(check, op_type, opset, attributes):
    check(op_type, opset, [BOTH_SIGNS], **attributes)


@pytest.mark.parametrize("op_type", ["Gelu", "QuickGelu"])
def test_microsoft_activation(check, op_type):
    check(op_type, 17, [BOTH_SIGNS], domain="com.microsoft")


def test_microsoft_gelu_with_bias(check):
    check("BiasGelu", 17, [BOTH_SIGNS, BOTH_SIGNS[0]], domain="com.microsoft")
    check("FastGelu", 17, [BOTH_SIGNS, BOTH_SIGNS[0]], domain="com.microsoft", rtol=1e-4)


@pytest.mark.parametrize("opset", [7, 9, 16])
def test_prelu(check, opset):
    check("PRelu", opset, [BOTH_SIGNS, np.array([0.1, 0.2, 0.3, 0.4], F32)])


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("opset", [11, 13])
def test_hardmax(check, opset, axis):
    check("Hardmax", opset, [np.array([[1, 3, 3], [2, 0, 5]], F32)], axis=axis, dynamic=False)


@pytest.mark.parametrize("bounds", [{}, {"min": -1.0}, {"max": 1.0}, {"min": -1.0, "max": 1.0}])
def test_clip_by_attributes(check, bounds):
    check("Clip", 7, [BOTH_SIGNS], **bounds)


@pytest.mark.parametrize("opset", [11, 12, 13])
def test_clip_by_inputs(check, opset):
    low, high = np.array(-1, F32), np.array(1, F32)
    check("Clip", opset, [BOTH_SIGNS], constants={1: low, 2: high})
    check("Clip", opset, [BOTH_SIGNS], constants={2: high})
    check("Clip", opset, [BOTH_SIGNS, low, high])
    check("Clip", opset, [BOTH_SIGNS, None, high])


def test_clip_integers_keep_their_bounds(check):
    huge = 2**62 + 1
    check("Clip", 13, [np.array([huge + 5, -5], I64)], constants={1: np.array(0, I64), 2: np.array(huge, I64)})
    check("Clip", 13, [np.array([7, -5], np.int32)], constants={1: np.array(-2, I32), 2: np.array(3, I32)})


@pytest.mark.parametrize("op_type", ["Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"])
def test_comparison(check, op_type):
    for kind in (F32, I64):
        check(op_type, 16, [np.array([[1], [2]], kind), np.array([1, 2, 3], kind)])


@pytest.mark.parametrize("op_type", ["And", "Or", "Xor"])
def test_logic(check, op_type):
    check(op_type, 7, [np.array([[True], [False]]), np.array([True, False, True])])


def test_not_and_where(check):
    check("Not", 7, [np.array([True, False])])
    check("Where", 9, [np.array([[True], [False]]), BOTH_SIGNS, np.array(0, F32)])
    check("Where", 16, [np.array([True, False]), np.array([1, 2], I64), np.array([3], I64)])


def test_nan_and_infinity(check):
    array = np.array([np.nan, np.inf, -np.inf, 1], F32)
    check("IsNaN", 9, [array])
    for positive, negative in ((1, 1), (1, 0), (0, 1), (0, 0)):
        check("IsInf", 10, [array], detect_positive=positive, detect_negative=negative)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (F32, 7),
        (F32, 10),
        (F32, 9),
        (I64, 1),
        (I64, 6),
        (I64, 9),
        (np.bool_, 1),
        (np.bool_, 7),
        (np.float16, 1),
        (F64, 1),
    ],
)
def test_cast(check, source, target):
    array = np.array([[-2.75, 0, 3.5]]).astype(source)
    check("Cast", 9, [array], to=target)
    check("Cast", 19, [array], to=target)


def test_cast_like(check):
    check("CastLike", 15, [BOTH_SIGNS, np.array([1], I64)])
