"""References of the contractions against ONNX Runtime."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from stepwell.dialects.types import TensorSpec

F32 = np.dtype(np.float32)


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + math.prod(shape)).standard_normal(shape, np.float32)


@given(
    batches=st.sampled_from([((), ()), ((2,), (2,)), ((3, 1), (2,)), ((), (4,)), ((1,), (5,))]),
    sizes=st.tuples(*[st.integers(1, 6)] * 3),
    transposed=st.tuples(st.booleans(), st.booleans()),
)
@settings(max_examples=40, deadline=None)
def test_matmul(compute, batches, sizes, transposed):
    m, n, k = sizes
    lhs, rhs = random(*batches[0], m, k), random(*batches[1], k, n)
    stored = [array.swapaxes(-1, -2) if flag else array for array, flag in zip((lhs, rhs), transposed, strict=True)]
    (result,) = compute(MatmulOp, *stored, transpose_lhs=transposed[0], transpose_rhs=transposed[1])
    np.testing.assert_allclose(result, np.matmul(lhs, rhs), rtol=1e-5, atol=1e-5)


def test_matmul_of_halves_accumulates_in_float32(compute):
    (result,) = compute(MatmulOp, np.full((1, 4096), 0.1, np.float16), np.ones((4096, 1), np.float16))
    assert result.dtype == np.float16
    np.testing.assert_allclose(result, 409.5, rtol=1e-3)


@st.composite
def convolutions(draw):
    rank = draw(st.integers(1, 3))
    several = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    return {
        "group": draw(st.sampled_from([1, 2, 4])),
        "per_group": draw(st.tuples(st.integers(1, 2), st.integers(1, 3))),
        "kernel": several(1, 3),
        "strides": several(1, 3),
        "dilations": several(1, 2),
        "pads": (*several(0, 2), *several(0, 2)),
        "spatial": several(5, 8),
        "has_bias": draw(st.booleans()),
        "layout": draw(st.sampled_from(["channels_first", "channels_last"])),
    }


@given(case=convolutions())
@settings(max_examples=60, deadline=None)
def test_conv(run_onnx, compute, case):
    inputs, outputs = (count * case["group"] for count in case["per_group"])
    x, weight = random(2, inputs, *case["spatial"]), random(outputs, case["per_group"][0], *case["kernel"])
    bias = random(outputs) if case["has_bias"] else None
    window = {name: case[name] for name in ("strides", "pads", "dilations", "group")}
    (expected,) = run_onnx("Conv", *(array for array in (x, weight, bias) if array is not None), **window)
    is_last = case["layout"] == "channels_last"
    (result,) = compute(ConvOp, np.moveaxis(x, 1, -1) if is_last else x, weight, bias, layout=case["layout"], **window)
    np.testing.assert_allclose(np.moveaxis(result, -1, 1) if is_last else result, expected, rtol=1e-4, atol=1e-4)


@given(case=convolutions(), extra=st.booleans())
@settings(max_examples=60, deadline=None)
def test_conv_transpose(run_onnx, compute, case, extra):
    inputs, outputs = (count * case["group"] for count in case["per_group"])
    x, weight = random(2, inputs, *case["spatial"]), random(inputs, case["per_group"][1], *case["kernel"])
    bias = random(outputs) if case["has_bias"] else None
    # ONNX Runtime requires output padding to be less than the stride.
    padding = tuple(int(extra and stride > 1) for stride in case["strides"])
    window = {name: case[name] for name in ("strides", "pads", "dilations", "group")} | {"output_padding": padding}
    (expected,) = run_onnx("ConvTranspose", *(array for array in (x, weight, bias) if array is not None), **window)
    is_last = case["layout"] == "channels_last"
    operand = np.moveaxis(x, 1, -1) if is_last else x
    (result,) = compute(ConvTransposeOp, operand, weight, bias, layout=case["layout"], **window)
    np.testing.assert_allclose(np.moveaxis(result, -1, 1) if is_last else result, expected, rtol=1e-4, atol=1e-4)


WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": 1, "layout": "channels_first"}


@pytest.mark.parametrize(
    ("shapes", "changes", "message"),
    [
        (((1, 3, 8, 8), (4, 2, 3, 3)), {}, "takes 2 channels, but input has 3"),
        (((1, 3, 8, 8), (4, 3, 3)), {}, "operand 'weight' must have rank 4"),
        (((1, 3, 2, 8), (4, 3, 3, 3)), {}, "extent 3 does not fit into 2 padded elements"),
        (((1, 3, 8, 8), (4, 3, 3, 3)), {"strides": (1,)}, "'strides' must have 2 entries, but has 1"),
        (((1, 3, 8, 8), (4, 3, 3, 3)), {"strides": (0, 1)}, "strides must be positive"),
        (((1, 3, 8, 8), (4, 3, 3, 3)), {"pads": (0, 0, -1, 0)}, "pads must not be negative"),
        (((1, 4, 8, 8), (3, 2, 3, 3)), {"group": 2}, "3 output channels cannot be split into 2 groups"),
        (((1, 3, 8, 8), (4, 3, 3, 3), (3,)), {}, "operand 'bias' must have shape 4, but is 3xf32"),
    ],
)
def test_conv_refuses(shapes, changes, message):
    specs = [TensorSpec(shape, F32) for shape in shapes]
    with pytest.raises(OpError, match=message):
        ConvOp.infer(*specs, *[None] * (3 - len(specs)), **WINDOW | changes)
