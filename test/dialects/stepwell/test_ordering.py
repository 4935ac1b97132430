"""References of sorting, running totals and scattering against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.cumulative import CumulativeOp
from stepwell.dialects.stepwell.movement import GatherOp, ScatterOp
from stepwell.dialects.stepwell.sorting import TopKOp
from stepwell.dialects.types import TensorSpec

F32 = np.dtype(np.float32)


@given(extent=st.integers(1, 12), largest=st.booleans(), data=st.data())
@settings(max_examples=40, deadline=None)
def test_top_k(run_onnx, compute, extent, largest, data):
    k = data.draw(st.integers(0, extent))
    x = np.random.default_rng(0).integers(-4, 4, (2, extent)).astype(np.float32)
    _, expected = run_onnx("TopK", x, np.array([k]), outputs=2, largest=int(largest))
    np.testing.assert_array_equal(compute(TopKOp, x, k=k, largest=largest)[0], expected)


def test_top_k_puts_nan_above_all():
    x = np.array([1, np.nan, np.inf, -np.nan, -np.inf], np.float32)
    np.testing.assert_array_equal(TopKOp.reference(x, k=3, largest=True), [1, 3, 2])
    np.testing.assert_array_equal(TopKOp.reference(x, k=3, largest=False), [4, 0, 2])


@given(reduction=st.sampled_from(["none", "add", "mul", "max", "min"]), data=st.data())
@settings(max_examples=40, deadline=None)
def test_scatter(run_onnx, compute, reduction, data):
    rows, count = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 8))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    x, updates = (rng.integers(-5, 5, (size, 3)).astype(np.float32) for size in (rows, count))
    indices = rng.integers(-rows, rows, (count, 1))
    (expected,) = run_onnx("ScatterND", x, indices, updates, reduction=reduction)
    result = compute(ScatterOp, x, indices[:, 0], updates, axis=0, reduction=reduction)[0]
    np.testing.assert_array_equal(result, expected)


def test_indices_outside():
    x = np.arange(3.0)
    np.testing.assert_array_equal(GatherOp.reference(x, np.array([-4, 3, -1]), axis=0), [0, 2, 2])
    dropped = ScatterOp.reference(x, np.array([-4, 3, -1]), -np.ones(3), axis=0, reduction="none")
    np.testing.assert_array_equal(dropped, [0, 1, -1])


@pytest.mark.parametrize(("k", "shape"), [(4, (2, 3)), (-1, (2, 3)), (0, ())])
def test_top_k_refuses(k, shape):
    with pytest.raises(OpError):
        TopKOp.infer(TensorSpec(shape, F32), k=k, largest=True)


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, -1])
def test_cumulative_sums(run_onnx, compute, axis, reverse, exclusive):
    x = np.random.default_rng(0).integers(-9, 9, (3, 4)).astype(np.float32)
    expected = run_onnx("CumSum", x, np.array(axis), reverse=int(reverse), exclusive=int(exclusive))[0]
    options = {"axis": axis, "reverse": reverse, "exclusive": exclusive}
    np.testing.assert_array_equal(compute(CumulativeOp, x, **options)[0], expected)
