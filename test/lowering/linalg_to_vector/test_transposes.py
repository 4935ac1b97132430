"""Transposes of any shape put every element where numpy does."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper


def transposed(x: np.ndarray, permutation: tuple[int, ...]) -> np.ndarray:
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ports = [helper.make_tensor_value_info(name, kind, None) for name in "xy"]
    ports[0] = helper.make_tensor_value_info("x", kind, x.shape)
    graph = helper.make_graph(
        [helper.make_node("Transpose", ["x"], ["y"], perm=permutation)], "g", ports[:1], ports[1:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = stepwell.compile(model, threads=1)(x)
    assert isinstance(result, np.ndarray)
    return result


@pytest.mark.few(8)
# A tile spans the last dimension of the result and several of the one before; blocks cut the long ones.
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
@pytest.mark.parametrize(
    ("shape", "permutation"),
    [
        ((6, 9, 2, 2, 24), (4, 0, 2, 1, 3)),
        ((6, 37, 4, 3), (3, 0, 1, 2)),
        ((3, 17, 2, 20), (3, 0, 1, 2)),
        ((60, 80, 2, 2, 24), (4, 0, 2, 1, 3)),
        ((5, 8, 2, 33), (0, 3, 2, 1)),
        ((5, 3, 2, 33), (3, 0, 1, 2)),
    ],
)
def test_a_short_last_dimension(dtype: type, shape: tuple[int, ...], permutation: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    np.testing.assert_array_equal(transposed(x, permutation), x.transpose(permutation))


@pytest.mark.few(10)
# A few planes become the elements of each pixel, and vice versa, also if they are not contiguous.
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
@pytest.mark.parametrize(
    ("shape", "permutation"),
    [
        ((3, 20, 37), (1, 2, 0)),
        ((2, 3, 20, 37), (0, 2, 3, 1)),
        ((3, 5, 20, 37), (1, 2, 3, 0)),
        ((3, 5, 6, 37), (2, 1, 3, 0)),
        ((20, 37, 3), (2, 0, 1)),
        ((2, 20, 37, 3), (0, 3, 1, 2)),
        ((20, 5, 37, 3), (3, 1, 0, 2)),
        ((20, 5, 37, 4), (1, 3, 0, 2)),
    ],
)
def test_few_planes(dtype: type, shape: tuple[int, ...], permutation: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    np.testing.assert_array_equal(transposed(x, permutation), x.transpose(permutation))


@pytest.mark.parametrize("planes", [1, 2, 3, 4, 5, 8, 9])
def test_planes_of_padded_images(planes: int) -> None:
    """The pixels lie inside a border, so their rows are not contiguous."""
    x = np.random.default_rng(0).standard_normal((2, planes, 13, 21), np.float32)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", x.shape), ("y", (2, 15, 24, planes)))
    ]
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]),
        helper.make_node("Pad", ["t", "pads"], ["y"]),
    ]
    pads = numpy_helper.from_array(np.array([0, 1, 2, 0, 0, 1, 1, 0]), "pads")
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [pads])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    wanted = np.pad(x.transpose(0, 2, 3, 1), [(0, 0), (1, 1), (2, 1), (0, 0)])
    np.testing.assert_array_equal(stepwell.compile(model, threads=1)(x), wanted)


@pytest.mark.few(5)
# Rows whose distance is a multiple of 4096 bytes are transposed one cache line at a time.
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
@pytest.mark.parametrize("shape", [(2, 37, 4096), (9, 1024), (3, 512), (1, 20, 8192)])
def test_rows_that_share_sets_of_the_cache(dtype: type, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).integers(0, 250, shape).astype(dtype)
    permutation = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    np.testing.assert_array_equal(transposed(x, permutation), x.transpose(permutation))


@pytest.mark.parametrize("seed", range(12))
def test_any_shape(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(size) for size in rng.choice([1, 2, 3, 4, 5, 8, 17], rng.integers(2, 6)))
    x = rng.integers(0, 250, shape).astype(rng.choice([np.float32, np.int16, np.int64]))
    permutation = tuple(int(axis) for axis in rng.permutation(len(shape)))
    np.testing.assert_array_equal(transposed(x, permutation), x.transpose(permutation))
