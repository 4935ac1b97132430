"""Rows, axes, broadcasts and movement of any shape: compiled models give numpy's results."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from hypothesis import example, given, settings
from hypothesis import strategies as st
from onnx import helper, numpy_helper

EXTENTS = st.one_of(st.integers(1, 9), st.sampled_from([15, 16, 17, 31, 33, 64, 65, 100]))
SHAPES = st.lists(EXTENTS, min_size=1, max_size=4).filter(lambda shape: np.prod(shape) <= 200_000).map(tuple)


def floats(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def computed(
    op_type: str, *arrays: np.ndarray, constants: tuple[np.ndarray, ...] = (), **attributes: Any
) -> np.ndarray:
    """Returns the output of a model of one node, for inputs followed by constants."""
    names = [f"x{number}" for number in range(len(arrays))]
    others = [f"c{number}" for number in range(len(constants))]
    kinds = [helper.np_dtype_to_tensor_dtype(array.dtype) for array in arrays]
    node = helper.make_node(op_type, [*names, *others], ["y"], **attributes)
    inputs = [
        helper.make_tensor_value_info(name, kind, array.shape)
        for name, kind, array in zip(names, kinds, arrays, strict=True)
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in zip(others, constants, strict=True)]
    output = helper.make_tensor_value_info("y", kinds[0], None)
    graph = helper.make_graph([node], "g", inputs, [output], weights)
    model = onnx.shape_inference.infer_shapes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    )
    run = stepwell.compile(model, threads=2, options=stepwell.Options(cache=False))
    result = run(*arrays)
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.sweep
@settings(max_examples=settings.default.max_examples // 12, deadline=None)
@given(SHAPES, st.data())
def test_softmax_and_sums_along_any_axis(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    x = floats(shape)
    powers = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    want = powers / powers.sum(axis, keepdims=True)
    np.testing.assert_allclose(computed("Softmax", x, axis=axis), want, rtol=3e-6, atol=1e-30)
    axes = np.array([axis])
    np.testing.assert_allclose(
        computed("ReduceMean", x, constants=(axes,)), x.mean(axis, np.float64, keepdims=True), atol=1e-5
    )
    np.testing.assert_array_equal(computed("ReduceMax", x, constants=(axes,)), x.max(axis, keepdims=True))


@settings(max_examples=settings.default.max_examples // 12, deadline=None)
@given(SHAPES, st.data())
def test_any_broadcast(shape: tuple[int, ...], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    first = data.draw(st.integers(0, len(shape)))
    other = tuple(extent if keep else 1 for extent, keep in zip(shape, kept, strict=True))[first:]
    x, y = floats(shape), floats(other)
    np.testing.assert_array_equal(computed("Sub", x, y), x - y)
    np.testing.assert_array_equal(computed("Mul", y, x), x * y)


@pytest.mark.sweep
@settings(max_examples=settings.default.max_examples // 8, deadline=None)
@given(SHAPES, st.data())
def test_any_permutation(shape: tuple[int, ...], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(shape))))
    kind = data.draw(st.sampled_from([np.float32, np.float64, np.int8, np.int64]))
    x = (floats(shape) * 100).astype(kind)
    np.testing.assert_array_equal(computed("Transpose", x, perm=order), x.transpose(order))


@settings(max_examples=settings.default.max_examples // 12, deadline=None)
@given(SHAPES, st.data())
def test_any_slice(shape: tuple[int, ...], data: st.DataObject) -> None:
    parts = []
    for extent in shape:
        start = data.draw(st.integers(0, extent - 1))
        parts.append(slice(start, data.draw(st.integers(start + 1, extent)), data.draw(st.integers(1, 5))))
    constants = [
        np.array(values) for values in zip(*((item.start, item.stop, item.step) for item in parts), strict=True)
    ]
    starts, stops, steps = constants
    x = floats(shape)
    got = computed("Slice", x, constants=(starts, stops, np.arange(len(shape)), steps))
    np.testing.assert_array_equal(got, x[tuple(parts)])


@pytest.mark.sweep
@settings(max_examples=settings.default.max_examples // 12, deadline=None)
@given(SHAPES, st.data())
def test_any_concatenation(shape: tuple[int, ...], data: st.DataObject) -> None:
    axis = data.draw(st.integers(0, len(shape) - 1))
    extents = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    parts = [floats(shape), *(floats((*shape[:axis], extent, *shape[axis + 1 :])) for extent in extents)]
    np.testing.assert_array_equal(computed("Concat", *parts, axis=axis), np.concatenate(parts, axis))


@settings(max_examples=settings.default.max_examples // 12, deadline=None)
@given(st.integers(1, 40), st.integers(1, 300), st.booleans(), st.booleans())
def test_cumulative_sums(rows: int, length: int, exclusive: bool, reverse: bool) -> None:
    x = np.random.default_rng(length).integers(-9, 9, (rows, length))
    turned = x[:, ::-1] if reverse else x
    want = np.cumsum(turned, 1) - (turned if exclusive else 0)
    options = {"exclusive": int(exclusive), "reverse": int(reverse)}
    got = computed("CumSum", x, constants=(np.array(1),), **options)
    np.testing.assert_array_equal(got, want[:, ::-1] if reverse else want)


@pytest.mark.sweep
@settings(max_examples=12, deadline=None)
@given(SHAPES, st.data())
@example((20, 1, 4096), None)  # large enough to be cut into blocks
def test_reversed_reads(shape: tuple[int, ...], data: st.DataObject | None) -> None:
    axes = [0] if data is None else data.draw(st.lists(st.integers(0, len(shape) - 1), min_size=1, unique=True))
    x, ends = floats(shape), [np.full(len(axes), number) for number in (-1, np.iinfo(np.int64).min)]
    got = computed("Slice", x, constants=(*ends, np.array(axes), np.full(len(axes), -1)))
    np.testing.assert_array_equal(got, np.flip(x, axes))
