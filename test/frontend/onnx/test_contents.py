"""Programs specialised on the contents of inputs: found without lists of operators, and only for small inputs."""

import warnings

import numpy as np
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir
from onnx import TensorProto, helper
from stepwell.frontend.errors import NeedsContents
from stepwell.frontend.onnx.importer import import_model
from stepwell.support.errors import InputError, ShapeError

F32 = np.float32
X = np.arange(24, dtype=F32).reshape(2, 3, 4)


pytestmark = pytest.mark.usefixtures("own_cache")


def info(name, array):
    """Declares an input of an array's type."""
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def model_of(nodes, inputs, opset=21):
    """Makes a model with the output y."""
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [info(*item) for item in inputs.items()], [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(op_type, inputs, outputs, **attributes):
    """A node."""
    return helper.make_node(op_type, inputs, outputs, **attributes)


def ints(*values):
    """A list of integers."""
    return np.array(values, np.int64)


def missing(nodes, inputs, contents=None):
    """Returns the inputs whose contents an import requests."""
    shapes = {name: array.shape for name, array in inputs.items()}
    with pytest.raises(NeedsContents) as caught:
        import_model(model_of(nodes, inputs), ir.Context(), shapes, contents, sized=True)
    return caught.value.inputs


@pytest.mark.parametrize(
    ("nodes", "inputs", "wanted"),
    [
        ([node("Reshape", ["x", "s"], ["y"])], {"x": X, "s": ints(6, 4)}, ("s",)),
        ([node("Expand", ["x", "s"], ["y"])], {"x": X, "s": ints(2, 2, 3, 4)}, ("s",)),
        ([node("Tile", ["x", "s"], ["y"])], {"x": X, "s": ints(1, 2, 1)}, ("s",)),
        (
            [node("Shape", ["x"], ["d"]), node("Mul", ["d", "s"], ["e"]), node("Resize", ["x", "", "", "e"], ["y"])],
            {"x": X, "s": ints(1, 2, 2)},
            ("s",),
        ),
        # Only the inputs that decide on the size are found, although the others are as small.
        ([node("Add", ["x", "z"], ["w"]), node("Reshape", ["w", "s"], ["y"])], {"x": X, "z": X, "s": ints(-1)}, ("s",)),
        (
            [node("Range", ["a", "b", "c"], ["y"])],
            {"a": np.array(0), "b": np.array(9), "c": np.array(2), "x": X},
            ("a", "b", "c"),
        ),
        # The deciding value is computed from an input that is too large for specialisation.
        (
            [node("ReduceMax", ["x"], ["m"], keepdims=0), node("Range", ["zero", "m", "one"], ["y"])],
            {"x": np.zeros(4096, F32), "zero": np.array(0, F32), "one": np.array(1, F32)},
            (),
        ),
    ],
    ids=["reshape", "expand", "tile", "computed", "others", "range", "large"],
)
def test_inputs_that_decide_on_sizes_are_found(nodes, inputs, wanted):
    assert missing(nodes, inputs) == wanted


def test_one_content_can_show_that_another_is_needed():
    inputs = {"x": X, "s": ints(6, 4), "t": ints(4, 6)}
    twice = [node("Reshape", ["x", "s"], ["z"]), node("Reshape", ["z", "t"], ["y"])]
    assert missing(twice, inputs) == ("s",)
    assert missing(twice, inputs, {"s": ints(6, 4)}) == ("t",)


@settings(max_examples=8, deadline=None)
@given(st.permutations([2, 3, 4]), st.integers(0, 2))
def test_reshapes_of_all_kinds(order, wildcard):
    run = stepwell.compile(model_of([node("Reshape", ["x", "s"], ["y"])], {"x": X, "s": ints(*order)}), threads=1)
    shape = [-1 if axis == wildcard else dim for axis, dim in enumerate(order)]
    np.testing.assert_array_equal(run(X, ints(*shape)), X.reshape(shape))


def test_numbers_that_decide_together():
    inputs = {name: np.array(value, F32) for name, value in (("a", 0), ("b", 9), ("c", 2.5))}
    run = stepwell.compile(model_of([node("Range", ["a", "b", "c"], ["y"])], inputs), threads=1)
    np.testing.assert_array_equal(run(**inputs), np.arange(0, 9, 2.5).astype(F32))
    assert set(run.by_contents) == {"a", "b", "c"}


def slicer():
    """x[begin:end] along the last axis."""
    nodes = [node("Slice", ["x", "b", "e", "a"], ["y"])]
    model = model_of(nodes, {"x": X, "b": ints(0), "e": ints(1), "a": ints(-1)})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    return model


def test_each_content_is_compiled_for_once(monkeypatch):
    run = stepwell.compile(slicer(), threads=1)
    for begin, end, rows in ((0, 2, 2), (1, 3, 2), (0, 2, 2), (0, 2, 1), (1, 3, 2)):
        x = X[:rows]
        np.testing.assert_array_equal(run(x, ints(begin), ints(end), ints(-1)), x[..., begin:end])
    assert len(run.programs) == 3
    assert set(run.by_contents) == {"b", "e", "a"}
    assert "Slice_0" in run.by_contents["b"]
    # Another process finds everything in the cache, the names of the required inputs included.
    monkeypatch.setattr("stepwell.driver.compile.compilation.Compilation.program", None)
    again = stepwell.compile(slicer(), threads=1)
    np.testing.assert_array_equal(again(X, ints(1), ints(3), ints(-1)), X[..., 1:3])


def test_artefacts_know_their_contents(tmp_path):
    run = stepwell.compile(slicer(), threads=1)
    for begin, end in ((0, 2), (1, 4)):
        run(X, ints(begin), ints(end), ints(-1))
    run.save(tmp_path / "slices.stw")
    loaded = stepwell.load(tmp_path / "slices.stw", threads=1)
    for begin, end in ((1, 4), (0, 2)):
        np.testing.assert_array_equal(loaded(X, ints(begin), ints(end), ints(-1)), X[..., begin:end])
    with pytest.raises(ShapeError, match=r"no code for .* with b = \[1\] with e = \[3\]"):
        loaded(X, ints(1), ints(3), ints(-1))


def test_prepare_takes_contents():
    run = stepwell.compile(slicer(), threads=1)
    contents = {"b": ints(0), "e": ints(2), "a": ints(-1)}
    program = run.prepare({"x": (2, 3, 4)}, contents)
    assert program.outputs[0].shape == (2, 3, 2)
    assert {name: list(array) for name, array in program.contents.items()} == {"b": [0], "e": [2], "a": [-1]}
    with pytest.raises(InputError, match="input 'b' must be given with its contents, which determine sizes"):
        run.prepare({"x": (2, 3, 4)})


def test_many_contents_are_worth_one_warning(monkeypatch):
    monkeypatch.setattr("stepwell.runtime.specialization.specialization.MANY_CONTENTS", 2)
    run = stepwell.compile(model_of([node("Reshape", ["x", "s"], ["y"])], {"x": X, "s": ints(1)[[0, 0]]}), threads=1)
    run(X, ints(6, 4))
    with pytest.warns(UserWarning, match="compiled 2 times for different contents of 's'"):
        run(X, ints(4, 6))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(X, ints(3, 8))


def test_inputs_of_any_rank():
    model = model_of([node("Neg", ["x"], ["y"])], {"x": X})
    model.graph.input[0].type.tensor_type.ClearField("shape")
    run = stepwell.compile(model, threads=1)
    for x in (X, X[0], X[0, 0, 0]):
        np.testing.assert_array_equal(run(x), -x)
    assert str(run.inputs[0]) == "x: float32[...]"
