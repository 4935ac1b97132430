"""References of the reductions against numpy and ONNX Runtime."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell import reduction
from stepwell.dialects.types import TensorSpec

FUNCTIONS = {
    reduction.ReduceSumOp: np.sum,
    reduction.ReduceMeanOp: np.mean,
    reduction.ReduceProdOp: np.prod,
    reduction.ReduceMaxOp: np.max,
    reduction.ReduceMinOp: np.min,
}


@given(op=st.sampled_from(sorted(FUNCTIONS, key=str)), shape=array_shapes(max_dims=4, max_side=4), data=st.data())
@settings(max_examples=80, deadline=None)
def test_reductions_are_those_of_numpy(compute, op, shape, data):
    axes = data.draw(st.sets(st.integers(-len(shape), -1)).map(tuple))
    keepdims = data.draw(st.booleans())
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    expected = FUNCTIONS[op](x.astype(np.float64), axis=axes, keepdims=keepdims)
    np.testing.assert_allclose(compute(op, x, axes=axes, keepdims=keepdims)[0], expected, rtol=1e-5, atol=1e-6)


def test_integers_keep_their_type(run_onnx, compute):
    x = np.array([[7, -8], [2, 1]], np.int32)
    (result,) = compute(reduction.ReduceMeanOp, x, axes=(1,))
    np.testing.assert_array_equal(result, run_onnx("ReduceMean", x, np.array([1]))[0])
    assert compute(reduction.ReduceSumOp, np.ones((2, 300), np.uint8), axes=(1,))[0].tolist() == [[44], [44]]


def test_narrow_floats_accumulate_in_float32(compute):
    x = np.full((1, 4096), 0.5, ml_dtypes.bfloat16)
    assert compute(reduction.ReduceSumOp, x, axes=(1,))[0].astype(np.float32) == 2048


@pytest.mark.parametrize("keepdims", [True, False])
def test_argmax_is_the_first_of_equal_ones(run_onnx, compute, keepdims):
    x = np.array([[1, 3, 3], [2, 2, 0]], np.float32)
    (result,) = compute(reduction.ArgmaxOp, x, axis=-1, keepdims=keepdims)
    np.testing.assert_array_equal(result, run_onnx("ArgMax", x, axis=-1, keepdims=int(keepdims))[0])


@pytest.mark.parametrize(
    ("axes", "message"),
    [((2,), "axis 2 is out of range for rank 2"), ((0, -2), "axes 0, -2 name one axis twice")],
)
def test_wrong_axes_are_refused(axes, message):
    with pytest.raises(OpError, match=message):
        reduction.ReduceSumOp.infer(TensorSpec((2, 3), np.dtype(np.float32)), axes=axes, keepdims=True)


@pytest.mark.parametrize("kind", ["float32", "int8", "uint16", "bool"])
@pytest.mark.parametrize("op", [reduction.ReduceMaxOp, reduction.ReduceMinOp])
def test_the_neutral_element_of_an_extreme_is_that_over_no_elements(compute, op, kind):
    (empty,) = compute(op, np.zeros((0,), kind), axes=(0,), keepdims=False)
    assert empty == op.neutral(np.dtype(kind))


@pytest.mark.parametrize("op", [reduction.ReduceSumOp, reduction.ReduceProdOp])
def test_the_neutral_element_leaves_a_result_as_it_is(compute, op):
    x = np.array([3, 5], np.float32)
    (with_it,) = compute(op, np.append(x, np.float32(op.neutral(x.dtype))), axes=(0,), keepdims=False)
    (without,) = compute(op, x, axes=(0,), keepdims=False)
    assert with_it == without


def test_a_mean_has_no_neutral_element():
    with pytest.raises(ValueError, match="no neutral element"):
        reduction.ReduceMeanOp.neutral(np.dtype(np.float32))
