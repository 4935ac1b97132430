"""References of the poolings against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.pooling import AveragePoolOp, MaxPoolIndicesOp, MaxPoolOp, SumPoolOp
from stepwell.dialects.types import TensorSpec


@st.composite
def poolings(draw):
    rank = draw(st.integers(1, 3))
    several = lambda low, high: tuple(draw(st.integers(low, high)) for _ in range(rank))  # noqa: E731
    return several(5, 8), {
        "kernel": several(1, 3),
        "strides": several(1, 3),
        "pads": (*several(0, 2), *several(0, 2)),
        "dilations": several(1, 2),
        "ceil_mode": draw(st.booleans()),
    }


def fits(kernel: tuple, pads: tuple, **_: object) -> bool:
    return all(max(pads[axis], pads[axis + len(kernel)]) < size for axis, size in enumerate(kernel))


def to_onnx(window: dict) -> dict:
    return {"kernel_shape" if name == "kernel" else name: value for name, value in window.items()}


@given(case=poolings(), is_last=st.booleans())
@settings(max_examples=80, deadline=None)
def test_max_pool(run_onnx, compute, case, is_last):
    spatial, window = case
    assume(fits(**window))
    x = np.random.default_rng(0).standard_normal((2, 3, *spatial), np.float32)
    (expected,) = run_onnx("MaxPool", x, **to_onnx(window))
    layout = "channels_last" if is_last else "channels_first"
    (result,) = compute(MaxPoolOp, np.moveaxis(x, 1, -1) if is_last else x, layout=layout, **window)
    np.testing.assert_array_equal(np.moveaxis(result, -1, 1) if is_last else result, expected)


@pytest.mark.needs_onnxruntime("1.24")
@given(case=poolings(), is_last=st.booleans(), count_include_pad=st.booleans())
@settings(max_examples=80, deadline=None)
def test_average_pool(run_onnx, compute, case, is_last, count_include_pad):
    spatial, window = case
    assume(fits(**window))
    x = np.random.default_rng(0).standard_normal((2, 3, *spatial), np.float32)
    (expected,) = run_onnx("AveragePool", x, count_include_pad=int(count_include_pad), **to_onnx(window))
    layout = "channels_last" if is_last else "channels_first"
    operand = np.moveaxis(x, 1, -1) if is_last else x
    (result,) = compute(AveragePoolOp, operand, layout=layout, count_include_pad=count_include_pad, **window)
    np.testing.assert_allclose(np.moveaxis(result, -1, 1) if is_last else result, expected, rtol=1e-5, atol=1e-6)


@st.composite
def overhanging(draw):
    """Windows, some of them larger than the padded input."""
    spatial, window = draw(poolings())
    rank = len(spatial)
    window |= {"kernel": tuple(draw(st.integers(1, 14)) for _ in range(rank)), "ceil_mode": True}
    return spatial, window | {"strides": tuple(draw(st.integers(1, 14)) for _ in range(rank))}


@pytest.mark.needs_onnxruntime("1.24")
@given(case=overhanging(), op_type=st.sampled_from(["MaxPool", "AveragePool"]), count_include_pad=st.booleans())
@settings(max_examples=100, deadline=None)
def test_kernels_larger_than_the_input(run_onnx, compute, case, op_type, count_include_pad):
    spatial, window = case
    assume(fits(**window))
    x = np.random.default_rng(0).standard_normal((2, 3, *spatial), np.float32)
    extra = {"count_include_pad": count_include_pad} if op_type == "AveragePool" else {}
    op = AveragePoolOp if extra else MaxPoolOp
    try:
        op.infer(TensorSpec(x.shape, x.dtype), layout="channels_first", **window)
    except OpError:
        # A window that would start at the end has no position: it must not be moved to one inside the padding.
        assume(False)
    numbers = {name: int(value) for name, value in extra.items()}
    (expected,) = run_onnx(op_type, x, **numbers, **to_onnx(window))
    (result,) = compute(op, x, **extra, **window)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_one_window_larger_than_the_input(compute):
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6)
    window = {"kernel": (8, 1280), "strides": (8, 1280), "pads": (0,) * 4, "dilations": (1, 1), "ceil_mode": True}
    assert compute(AveragePoolOp, x, **window)[0].item() == x.mean()
    assert compute(MaxPoolOp, x, **window)[0].item() == 35
    assert compute(MaxPoolIndicesOp, x, **window)[0].item() == 35
    assert compute(SumPoolOp, x, **window)[0].item() == x.sum()


@pytest.mark.parametrize("ceil_mode", [False, True])
def test_windows_without_a_position_are_refused(ceil_mode):
    window = {"kernel": (8,), "strides": (1,), "pads": (0, 0), "dilations": (1,), "ceil_mode": ceil_mode}
    with pytest.raises(OpError, match="a kernel of extent 8 does not fit into 6 padded elements"):
        AveragePoolOp.infer(TensorSpec((1, 1, 6), np.dtype(np.float32)), layout="channels_first", **window)


@given(case=poolings(), is_last=st.booleans())
@settings(max_examples=40, deadline=None)
def test_max_pool_indices(run_onnx, compute, case, is_last):
    spatial, window = case
    assume(fits(**window))
    x = np.random.default_rng(0).standard_normal((1, 1, *spatial), np.float32)
    _, expected = run_onnx("MaxPool", x, outputs=2, **to_onnx(window))
    layout = "channels_last" if is_last else "channels_first"
    (result,) = compute(MaxPoolIndicesOp, np.moveaxis(x, 1, -1) if is_last else x, layout=layout, **window)
    np.testing.assert_array_equal(np.moveaxis(result, -1, 1) if is_last else result, expected)


def test_max_pool_indices_of_equal_elements_and_nan():
    x = np.array([[[-np.inf, -np.inf, 2, 2, np.nan, np.nan, 1]]], np.float32)
    window = {"kernel": (2,), "strides": (2,), "pads": (1, 0), "dilations": (1,), "ceil_mode": False}
    result = MaxPoolIndicesOp.reference(x, layout="channels_first", **window)
    np.testing.assert_array_equal(result, [[[0, 2, 4, 5]]])


@given(case=poolings())
@settings(max_examples=40, deadline=None)
def test_sum_pool(compute, case):
    spatial, window = case
    assume(fits(**window))
    x = np.random.default_rng(0).standard_normal((2, 3, *spatial), np.float32)
    window = {**window, "pads": (0,) * len(window["pads"]), "ceil_mode": False}
    (mean,) = compute(AveragePoolOp, x, **window)
    np.testing.assert_allclose(
        compute(SumPoolOp, x, **window)[0], mean * np.prod(window["kernel"]), rtol=1e-4, atol=1e-5
    )


def test_max_pool_of_integers(compute):
    x = np.arange(-8, 8, dtype=np.int8).reshape(1, 1, 4, 4)
    (result,) = compute(MaxPoolOp, x, kernel=(2, 2), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1))
    np.testing.assert_array_equal(result[0, 0], [[-8, -6, -5], [0, 2, 3], [4, 6, 7]])


def test_pads_as_wide_as_the_window_are_refused():
    window = {"kernel": (2,), "strides": (1,), "pads": (2, 0), "dilations": (1,), "ceil_mode": False}
    with pytest.raises(OpError, match="pads must be less than the window's extent of 2"):
        MaxPoolOp.infer(TensorSpec((1, 1, 8), np.dtype(np.float32)), layout="channels_first", **window)
