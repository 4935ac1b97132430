"""Programs for ranges are as precise as programs for one size: norms of data far from 0."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

# The programs that are the reference are compiled size by size.
pytestmark = pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")

_NODE = helper.make_node
_SIZES = {"n": (1, 3), "h": (1, 20), "w": (1, 37), "l": (1, 90)}


def _model(nodes: list, shape: list, opset: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "norm",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def _normal(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    x = x.astype(np.float64)
    around = x - x.mean(axes, keepdims=True)
    return around / np.sqrt(np.square(around).mean(axes, keepdims=True) + epsilon)


def _groups(x: np.ndarray, epsilon: float) -> np.ndarray:
    return _normal(x.reshape(x.shape[0], 4, -1), (2,), epsilon).reshape(x.shape)


def _instance():
    node = _NODE("InstanceNormalization", ["x", "s", "b"], ["y"])
    return _model([node], ["n", 16, "h", "w"], s=_ones(16), b=0 * _ones(16)), lambda x: _normal(x, (2, 3), 1e-5)


def _group():
    node = _NODE("GroupNormalization", ["x", "s", "b"], ["y"], num_groups=4)
    return _model([node], ["n", 16, "h", "w"], 21, s=_ones(16), b=0 * _ones(16)), lambda x: _groups(x, 1e-5)


def _group_by_reshape():
    nodes = [
        _NODE("Reshape", ["x", "groups"], ["a"]),
        _NODE("InstanceNormalization", ["a", "s", "b"], ["c"], epsilon=1e-6),
        _NODE("Shape", ["x"], ["shape"]),
        _NODE("Reshape", ["c", "shape"], ["d"]),
        _NODE("Mul", ["d", "gain"], ["e"]),
        _NODE("Add", ["e", "offset"], ["y"]),
    ]
    channels = {"gain": _ones(16, 1, 1), "offset": 0 * _ones(16, 1, 1)}
    weights = {"groups": np.array([0, 4, -1]), "s": _ones(4), "b": 0 * _ones(4), **channels}
    return _model(nodes, ["n", 16, "h", "w"], **weights), lambda x: _groups(x, 1e-6)


def _layer():
    node = _NODE("LayerNormalization", ["x", "s"], ["y"], axis=1)
    return _model([node], ["n", "l", 8], s=_ones(1)), lambda x: _normal(x, (1, 2), 1e-5)


def _mean_variance():
    node = _NODE("MeanVarianceNormalization", ["x"], ["y"], axes=[0, 2, 3])
    return _model([node], ["n", 16, "h", "w"]), lambda x: _normal(x, (0, 2, 3), 0)


@pytest.mark.few(5)
@pytest.mark.parametrize("mean", [0, 1e3, 1e4])
@pytest.mark.parametrize(
    "make", [_instance, _group, _group_by_reshape, _layer, _mean_variance], ids=lambda f: f.__name__
)
def test_norms_of_data_far_from_zero(make, mean):
    model, reference = make()
    names = [dim.dim_param for dim in model.graph.input[0].type.tensor_type.shape.dim]
    dims = {name: _SIZES[name] for name in names if name}
    ranged = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache=False))
    alone = stepwell.compile(model, threads=1, options=stepwell.Options(ranges=False))
    rng = np.random.default_rng(11)
    for _ in range(4):
        sizes = {name: int(rng.integers(low + 1, high + 1)) for name, (low, high) in dims.items()}
        shape = [
            sizes[dim.dim_param] if dim.dim_param else dim.dim_value
            for dim in model.graph.input[0].type.tensor_type.shape.dim
        ]
        x = (mean + rng.standard_normal(shape)).astype(np.float32)
        wrong = [np.abs(executable(x) - reference(x)).max() for executable in (ranged, alone)]
        # Another order of summation changes results by as much as the rounding of the mean does.
        assert wrong[0] <= 2 * wrong[1] + 2e-6 + mean * np.finfo(np.float32).eps, sizes
    assert len(ranged.programs) >= 1


@pytest.mark.parametrize("make", [_instance, _group_by_reshape], ids=lambda f: f.__name__)
def test_a_norm_of_equal_numbers_is_zero(make):
    model, _ = make()
    dims = {name: _SIZES[name] for name in ("n", "h", "w")}
    ranged = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache=False))
    for shape in ((1, 16, 1, 1), (2, 16, 7, 13), (3, 16, 20, 37)):
        np.testing.assert_array_equal(ranged(np.full(shape, 1000.1, np.float32)), 0)
