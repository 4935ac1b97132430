"""Indices of elements that are those of whole slices."""

import numpy as np
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper
from stepwell.frontend.onnx.importer import import_model

NATIVE = stepwell.Options(fallback="error", cache=False)


def _model(op, repeated, sizes, axis, **attributes):
    """GatherElements or ScatterElements at indices that ONNX's Expand repeats."""
    whole = list(sizes)
    whole[axis] = repeated[axis]
    kinds = {"x": TensorProto.FLOAT, "i": TensorProto.INT64, "u": TensorProto.FLOAT}
    shapes = {"x": sizes, "i": repeated, "u": whole}
    names = ["x", "i"] if op == "GatherElements" else ["x", "i", "u"]
    nodes = [
        helper.make_node("Constant", [], ["whole"], value_ints=whole),
        helper.make_node("Expand", ["i", "whole"], ["all"]),
        helper.make_node(op, ["x", "all", *names[2:]], ["y"], axis=axis, **attributes),
    ]
    inputs = [helper.make_tensor_value_info(name, kinds[name], shapes[name]) for name in names]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "model", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model, {name: shapes[name] for name in names}


def _feeds(shapes, axis):
    generator = np.random.default_rng(0)
    feeds = {name: generator.random(shape, np.float32) for name, shape in shapes.items()}
    count = shapes["x"][axis]
    return {**feeds, "i": generator.integers(-count, count, shapes["i"])}


def _updates(model, shapes):
    """The shape of the updates of the only scatter of an imported model."""
    imported = import_model(model, ir.Context(), shapes)
    (line,) = [line for line in str(imported.module).splitlines() if '"stepwell.scatter"' in line]
    updates = line.split("tensor<")[3].partition("xf32>")[0]
    return tuple(map(int, updates.split("x")))


@pytest.mark.parametrize(
    ("repeated", "sizes", "axis"), [((9, 1), (7, 5), 0), ((3, 9, 1), (3, 7, 5), 1), ((2, 1, 1), (4, 7, 5), 0)]
)
def test_slices(repeated, sizes, axis):
    model, shapes = _model("GatherElements", repeated, sizes, axis)
    feeds = _feeds(shapes, axis)
    whole = np.broadcast_to(feeds["i"], (*repeated[: axis + 1], *sizes[axis + 1 :]))
    expected = np.take_along_axis(feeds["x"], whole, axis)
    np.testing.assert_array_equal(stepwell.compile(model, options=NATIVE)(**feeds), expected)
    model, shapes = _model("ScatterElements", repeated, sizes, axis, reduction="add")
    feeds = _feeds(shapes, axis)
    expected = feeds["x"].copy()
    for place in np.ndindex(*whole.shape):
        target = (*place[:axis], feeds["i"][(*place[: axis + 1], *[0] * (len(sizes) - axis - 1))], *place[axis + 1 :])
        expected[target] += feeds["u"][place]
    np.testing.assert_allclose(stepwell.compile(model, options=NATIVE)(**feeds), expected, rtol=1e-6)
    assert _updates(model, shapes) == whole.shape


@pytest.mark.parametrize("repeated", [(3, 9, 5), (1, 9, 1)])
def test_elements_that_are_no_slices(repeated):
    model, shapes = _model("ScatterElements", repeated, (3, 7, 5), 1)
    assert _updates(model, shapes) == (3 * 9 * 5,)
