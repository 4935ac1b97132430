"""Dimensions that are not greatest at the greatest sizes, and blocks of pixels: results against ONNX Runtime's."""

from __future__ import annotations

import warnings

import numpy as np
import onnxruntime
import pytest
import stepwell
from onnx import helper

from .graphs import Graph, _floats, _one

_NODE = helper.make_node
_ONE, _TWO, _ZERO = np.array([1]), np.array([2]), np.array([0])


def _with_width(nodes: list, dims: dict, **weights: np.ndarray) -> Graph:
    """A model of x [2, n], in whose nodes `n` is the width as a list."""
    shape = [_NODE("Shape", ["x"], ["shape"]), _NODE("Slice", ["shape", "one", "two"], ["n"])]
    return _one([*shape, *nodes], [2, "n"], dims, one=_ONE, two=_TWO, zero=_ZERO, **weights)


def padded() -> Graph:
    """Padding up to a fixed width, by Pad."""
    nodes = [
        _NODE("Sub", ["all", "n"], ["rest"]),
        _NODE("Concat", ["zero", "zero", "zero", "rest"], ["pads"], axis=0),
        _NODE("Relu", ["x"], ["a"]),
        _NODE("Pad", ["a", "pads"], ["b"]),
        _NODE("MatMul", ["b", "w"], ["y"]),
    ]
    return _with_width(nodes, {"n": (1, 24)}, all=np.array([24]), w=_floats(24, 3))


def filled() -> Graph:
    """Padding up to a fixed width, by Concat."""
    nodes = [
        _NODE("Sub", ["all", "n"], ["rest"]),
        _NODE("Concat", ["two", "rest"], ["size"], axis=0),
        _NODE("ConstantOfShape", ["size"], ["zeros"]),
        _NODE("Concat", ["x", "zeros"], ["a"], axis=1),
        _NODE("Softmax", ["a"], ["y"], axis=1),
    ]
    return _with_width(nodes, {"n": (3, 21)}, all=np.array([24]))


def last_places() -> Graph:
    """The last rows of a table for the data, and those before for a sum."""
    nodes = [
        _NODE("Sub", ["all", "n"], ["start"]),
        _NODE("Slice", ["table", "start", "all", "one"], ["mine"]),
        _NODE("Slice", ["table", "zero", "start", "one"], ["others"]),
        _NODE("ReduceSum", ["others", "one"], ["sum"]),
        _NODE("Add", ["x", "mine"], ["a"]),
        _NODE("Add", ["a", "sum"], ["y"]),
    ]
    return _with_width(nodes, {"n": (1, 24)}, all=np.array([24]), table=_floats(1, 24))


def remainder() -> Graph:
    """The elements after the last whole group of four, and the groups."""
    nodes = [
        _NODE("Mod", ["n", "four"], ["rest"]),
        _NODE("Sub", ["n", "rest"], ["whole"]),
        _NODE("Slice", ["x", "whole", "n", "one"], ["tail"]),
        _NODE("ReduceSum", ["tail", "one"], ["a"]),
        _NODE("Slice", ["x", "zero", "whole", "one"], ["head"]),
        _NODE("Reshape", ["head", "groups"], ["b"]),
        _NODE("ReduceMean", ["b"], ["c"], axes=[2], keepdims=0),
        _NODE("Concat", ["c", "a"], ["d"], axis=1),
        _NODE("Exp", ["d"], ["e"]),
        _NODE("Concat", ["tail", "e"], ["y"], axis=1),
    ]
    return _with_width(nodes, {"n": (4, 23)}, four=np.array([4]), groups=np.array([2, -1, 4]))


def rounded_up() -> Graph:
    """Padding up to a multiple of four."""
    nodes = [
        _NODE("Mod", ["n", "four"], ["rest"]),
        _NODE("Sub", ["four", "rest"], ["more"]),
        _NODE("Mod", ["more", "four"], ["pad"]),
        _NODE("Concat", ["zero", "zero", "zero", "pad"], ["pads"], axis=0),
        _NODE("Pad", ["x", "pads"], ["a"]),
        _NODE("Reshape", ["a", "groups"], ["b"]),
        _NODE("ReduceMax", ["b"], ["y"], axes=[2], keepdims=0),
    ]
    return _with_width(nodes, {"n": (1, 22)}, four=np.array([4]), groups=np.array([2, -1, 4]))


def other_part() -> Graph:
    """A product of a size and the rest of it, as one dimension."""
    nodes = [
        _NODE("Sub", ["all", "n"], ["rest"]),
        _NODE("Slice", ["table", "zero", "rest", "one"], ["part"]),
        _NODE("Unsqueeze", ["x", "two"], ["a"]),
        _NODE("Mul", ["a", "part"], ["b"]),
        _NODE("Reshape", ["b", "flat"], ["c"]),
        _NODE("Neg", ["c"], ["y"]),
    ]
    return _with_width(nodes, {"n": (1, 15)}, all=np.array([16]), table=_floats(1, 16), flat=np.array([2, -1]))


def shuffled() -> Graph:
    """Blocks of channels as blocks of pixels, in both orders."""
    nodes = [
        _NODE("DepthToSpace", ["x"], ["a"], blocksize=2),
        _NODE("DepthToSpace", ["x"], ["b"], blocksize=2, mode="CRD"),
        _NODE("Concat", ["a", "b"], ["c"], axis=1),
        _NODE("Conv", ["c", "w"], ["y"], pads=[1, 1, 1, 1]),
    ]
    return _one(nodes, ["n", 8, "h", "w"], {"n": (1, 3), "h": (1, 5), "w": (1, 7)}, w=_floats(3, 4, 3, 3))


def unshuffled() -> Graph:
    """Blocks of pixels as channels; heights and widths are even."""
    nodes = [_NODE("SpaceToDepth", ["x"], ["a"], blocksize=2), _NODE("Conv", ["a", "w"], ["y"], pads=[1, 1, 1, 1])]
    return _one(nodes, ["n", 2, "h", "w"], {"n": (1, 2), "h": (2, 8, 2), "w": (2, 12, 2)}, w=_floats(3, 8, 3, 3))


GRAPHS = (padded, filled, last_places, remainder, rounded_up, other_part, shuffled, unshuffled)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_results_are_right_at_every_size(make):
    model, dims = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executable = stepwell.compile(
            model, threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error")
        )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    kind = model.graph.input[0].type.tensor_type
    for _ in range(3):
        for name, (low, high, *step) in dims.items():
            for size in range(low, high + 1, *step):
                sizes = {other: rng.choice(range(at[0], at[1] + 1, *at[2:])) for other, at in dims.items()}
                sizes[name] = size
                shape = [sizes[dim.dim_param] if dim.dim_param else dim.dim_value for dim in kind.shape.dim]
                x = rng.standard_normal(shape, np.float32)
                expected = np.asarray(session.run(None, {"x": x})[0])
                np.testing.assert_allclose(executable(x), expected, rtol=2e-5, atol=5e-5, strict=True)
    assert len(executable.programs) == 1


def test_blocks_that_may_not_fit_are_refused():
    model, dims = unshuffled()
    options = stepwell.Options(dims=dims | {"h": (2, 8)}, cache=False)
    with pytest.warns(stepwell.SlowWarning, match="requires equal dimensions"):
        executable = stepwell.compile(model, threads=1, options=options)
    assert executable.unranged
