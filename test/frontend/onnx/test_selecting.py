"""Operators whose number of results depends on data, against numpy and ONNX Runtime; all of them run natively."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.helper import np_dtype_to_tensor_dtype

NATIVE = stepwell.Options(fallback="error", cache=False)
KINDS = [np.bool_, np.float32, np.float64, np.int64, np.int32, np.int8, np.uint8, np.uint64, np.float16]
EXAMPLES = settings(max_examples=settings.default.max_examples // 10, deadline=None)
SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 9, 17, 70]), min_size=1, max_size=3).filter(
    lambda shape: np.prod(shape) < 5000
)


def model_of(op_type: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str], **attributes: Any):
    node = helper.make_node(op_type, list(inputs), list(outputs), **attributes)
    given = [
        helper.make_tensor_value_info(name, np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "g", given, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def compute(op_type: str, *inputs: np.ndarray, outputs: int = 1, **attributes: Any) -> list[np.ndarray]:
    names = {f"x{index}": array for index, array in enumerate(inputs)}
    model = model_of(op_type, names, [f"y{index}" for index in range(outputs)], **attributes)
    found = stepwell.compile(model, threads=1, options=NATIVE)(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


def data(shape: Sequence[int], dtype: Any, density: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    numbers = rng.integers(1, 9, shape) * (rng.random(shape) < density)
    return numbers.astype(dtype)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, wanted)
    if wanted.dtype.kind == "f":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@given(SHAPES, st.sampled_from(KINDS), st.sampled_from([0, 0.02, 0.5, 1]), st.integers(0, 99))
@EXAMPLES
def test_nonzero(shape, dtype, density, seed):
    x = data(shape, dtype, density, seed)
    same(compute("NonZero", x)[0], np.stack(np.nonzero(x)).astype(np.int64))


def test_nonzero_of_nan_zeros_and_a_scalar():
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32)
    same(compute("NonZero", x)[0], np.array([[2, 3, 4]]))
    for flag in (0, 1):
        assert compute("NonZero", np.array(flag, np.float32))[0].shape == (0, flag)


def test_nonzero_of_small_floats():
    x = np.array([0.0, -0.0, 1.5, 0.0, -2], ml_dtypes.bfloat16)
    same(compute("NonZero", x)[0], np.array([[2, 4]]))


@given(SHAPES, st.sampled_from(KINDS), st.sampled_from([0, 0.1, 1]), st.integers(0, 99), st.data())
@EXAMPLES
def test_compress(shape, dtype, density, seed, draw):
    axis = draw.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    extent = int(np.prod(shape)) if axis is None else shape[axis]
    length = draw.draw(st.sampled_from([extent, extent // 2, extent + 3]))
    x, condition = data(shape, dtype, 0.9, seed), np.random.default_rng(seed).random(length) < density
    attributes = {} if axis is None else {"axis": axis}
    same(compute("Compress", x, condition, **attributes)[0], np.compress(condition[:extent], x, axis))


def unique(x: np.ndarray, axis: int | None, is_sorted: bool) -> list[np.ndarray]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not is_sorted:
        order = np.argsort(first)
        inverse, first, counts = np.argsort(order)[inverse], first[order], counts[order]
        values = np.take(x.reshape(-1) if axis is None else x, first, axis=axis or 0)
    return [values, *(item.astype(np.int64) for item in (first, inverse, counts))]


@given(SHAPES, st.sampled_from(KINDS), st.booleans(), st.integers(0, 99), st.data())
@EXAMPLES
def test_unique(shape, dtype, is_sorted, seed, draw):
    axis = draw.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    x = data(shape, dtype, 0.5, seed)
    if axis is not None and not x.size:
        return  # numpy refuses most of these
    attributes = {} if axis is None else {"axis": axis}
    found = compute("Unique", x, outputs=4, sorted=int(is_sorted), **attributes)
    for mine, wanted in zip(found, unique(x, axis, is_sorted), strict=True):
        same(mine, wanted)


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("axis", [None, 0])
def test_unique_of_nan_and_zeros(axis, is_sorted):
    x = np.array([np.nan, 0.0, -0.0, -np.inf, np.nan, 0.0], np.float32).reshape(-1, *([1] if axis == 0 else []))
    attributes = {} if axis is None else {"axis": axis}
    found = compute("Unique", x, outputs=4, sorted=int(is_sorted), **attributes)
    for mine, wanted in zip(found, unique(x, axis, is_sorted), strict=True):
        same(mine, wanted)


def test_unique_of_nothing():
    found = compute("Unique", np.zeros((0, 3), np.float32), outputs=4)
    assert [item.shape for item in found] == [(0,)] * 4


def boxes_of(rng: np.random.Generator, batch: int, count: int, is_center: bool, is_coarse: bool) -> np.ndarray:
    corner, size = rng.uniform(0, 10, (batch, count, 2)), rng.uniform(0, 4, (batch, count, 2))
    boxes = np.concatenate([corner, size if is_center else corner + size], -1)
    boxes = np.round(boxes) if is_coarse else boxes
    if not is_center and rng.random() < 0.5:
        boxes = boxes[..., [2, 1, 0, 3]]
    return boxes.astype(np.float32)


@given(st.integers(0, 999), st.sampled_from([1, 7, 16, 17, 65, 300]), st.booleans(), st.booleans())
@EXAMPLES
def test_boxes_that_remain_are_those_of_onnxruntime(seed, count, is_center, is_coarse):
    rng = np.random.default_rng(seed)
    batch, classes = int(rng.integers(1, 3)), int(rng.integers(1, 4))
    scores = np.round(rng.random((batch, classes, count)), 1 if is_coarse else 6).astype(np.float32)
    inputs = {
        "boxes": boxes_of(rng, batch, count, is_center, is_coarse),
        "scores": scores,
        "most": np.array([rng.choice([-1, 0, 3, count, 1 << 40])]),
        "overlap": rng.choice([0, 0.3, 0.5, 1], 1).astype(np.float32),
        "least": rng.choice([-1, 0, 0.5], 1).astype(np.float32),
    }
    model = model_of("NonMaxSuppression", inputs, ["y"], center_point_box=int(is_center))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, inputs)
    same(stepwell.compile(model, threads=2, options=NATIVE)(**inputs), wanted.reshape(-1, 3))


def test_boxes_with_nan_and_infinities_stay_in_bounds():
    rng = np.random.default_rng(0)
    values = np.array([np.nan, np.inf, -np.inf, 0, 1, -1, 1e38], np.float32)
    for _ in range(5):
        boxes, scores = rng.choice(values, (1, 90, 4)), rng.choice(values, (1, 2, 90))
        (found,) = compute("NonMaxSuppression", boxes, scores, np.array([90]), np.array([0.5], np.float32))
        assert found.shape[1] == 3 and len(np.unique(found, axis=0)) == len(found)
        assert ((found >= 0) & (found < [1, 2, 90])).all()


def test_no_boxes_by_default():
    found = compute("NonMaxSuppression", np.zeros((1, 4, 4), np.float32), np.ones((1, 2, 4), np.float32))
    assert found[0].shape == (0, 3)


def test_equal_scores_in_one_bucket():
    """One bucket holds all boxes, in the worst order for it."""
    count = 1000
    boxes = np.zeros((1, count, 4), np.float32)
    boxes[0, :, 0] = boxes[0, :, 1] = 2 * np.arange(count)
    boxes[..., 2:] = boxes[..., :2] + 1
    scores = np.ones((1, 1, count), np.float32)
    scores[0, 0] += np.arange(count) * np.finfo(np.float32).eps
    scores[0, 0, 0] = -1e30
    (found,) = compute("NonMaxSuppression", boxes, scores, np.array([count]))
    np.testing.assert_array_equal(found[:, 2], [*range(count - 1, 0, -1), 0])


def middle():
    """A model with sizes that depend on data in its middle."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("NonZero", ["r"], ["places"], "found"),
        helper.make_node("Transpose", ["places"], ["rows"], perm=[1, 0]),
        helper.make_node("GatherND", ["r", "rows"], ["values"]),
        helper.make_node("Unique", ["values"], ["u"], "kinds"),
        helper.make_node("Exp", ["u"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [20, 30])]
    outputs = [helper.make_empty_tensor_value_info(name) for name in ("y", "places")]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_model_goes_on_after_such_a_node(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", stepwell.FallbackWarning)
        run = stepwell.compile(middle(), threads=1, options=NATIVE)
    assert not run.fallbacks
    assert any("known only at run time" in reason for reason in run.uncompiled)
    for seed in range(3):
        x = np.round(np.random.default_rng(seed).standard_normal((20, 30)), 1).astype(np.float32)
        y, places = run(x)
        same(places, np.stack(np.nonzero(x > 0)))
        np.testing.assert_allclose(y, np.exp(np.unique(x[x > 0])), rtol=1e-6)
    run.save(tmp_path / "model.stw")
    for mine, wanted in zip(stepwell.load(tmp_path / "model.stw", threads=1)(x), (y, places), strict=True):
        np.testing.assert_array_equal(mine, wanted)


def test_a_result_does_not_change_in_later_calls():
    x = np.ones((8, 40), np.float32)
    run = stepwell.compile(model_of("NonZero", {"x": x}, ["y"]), threads=1, options=NATIVE)
    first = run(x)
    kept = first.copy()
    run(np.zeros_like(x))
    np.testing.assert_array_equal(first, kept)


def test_check_finds_nothing():
    assert stepwell.check(middle()).is_native


def test_a_gpu_leaves_it_to_the_host():
    x = np.eye(4, dtype=np.float32)
    model = model_of("NonZero", {"x": x}, ["y"])
    with pytest.warns(stepwell.FallbackWarning):
        run = stepwell.compile(model, target="cuda:sm_80", options=stepwell.Options(cache=False))
    (found,) = run.fallbacks
    assert "depends on data" in found.reason
