"""Derived dimensions: how they are reported, and which sizes a call may have."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime.program import TensorInfo
from stepwell.sizes.dims_option import resolve_dims
from stepwell.sizes.expressions import evaluate, parse_expression, text_of
from stepwell.sizes.ranges import Range
from stepwell.support.errors import InputError

INPUTS = (TensorInfo("x", np.dtype(np.float32), ("n", 3, "m")),)

TWO_BATCHES = """
func.func @main(%x: tensor<?x4xf32> {stepwell.name = "x", stepwell.dims = ["x.0", 4]},
                %y: tensor<?x2xf32> {stepwell.name = "y", stepwell.dims = ["y.0", 2]})
    -> (tensor<?x6xf32> {stepwell.name = "z"}) {
  %0 = "stepwell.concat"(%x, %y) {axis = 1 : i64} : (tensor<?x4xf32>, tensor<?x2xf32>) -> tensor<?x6xf32>
  return %0 : tensor<?x6xf32>
}
"""


def test_dimensions_that_are_always_alike_are_one():
    options = stepwell.Options(dims={"x.0": (1, 8), "y.0": "x.0"}, cache=False)
    executable = stepwell.compile(TWO_BATCHES.encode(), threads=1, options=options)
    x, y = np.ones((5, 4), np.float32), np.zeros((5, 2), np.float32)
    np.testing.assert_array_equal(executable(x, y), np.concatenate([x, y], 1))
    assert len(executable.programs) == 1 and executable.ranges == {"x.0": Range(1, 8)}
    with pytest.raises(InputError, match="input 'y' must have 5 as in input 'x' in dimension 0"):
        executable(x, y[:4])


def test_a_warning_advises_which_dimensions_may_be_alike():
    options = stepwell.Options(dims={"x.0": (1, 8), "y.0": (1, 8)}, cache=False)
    with pytest.warns(UserWarning, match=r"'y\.0' is 'x\.0'; if that always holds, declare it in `dims` \(y\.0=x\.0\)"):
        stepwell.compile(TWO_BATCHES.encode(), threads=1, options=options)


def test_dimensions_go_by_the_name_of_the_one_that_has_sizes():
    inputs = [TensorInfo(name, np.dtype(np.float32), (name, 3)) for name in "abc"]
    found = resolve_dims({"a": "b", "b": "c", "c": (1, 8)}, inputs)
    assert found.dims == {"c": (1, 8)} and [info.shape for info in found.inputs] == [("c", 3)] * 3
    assert resolve_dims({"a": 1, "b": 2, "c": 3}, inputs).inputs == tuple(inputs)


def test_names_that_are_sums_of_others_follow_from_them():
    inputs = [TensorInfo("x", np.dtype(np.float32), ("past", "past + length", "length", "length - other"))]
    found = resolve_dims({"past": (0, 8), "length": 2, "length - other": 1}, inputs)
    assert found.derived == {"past + length": ["+", "past", "length"]}
    assert found.dims == {"past": (0, 8), "length": 2, "length - other": 1}
    assert resolve_dims({}, inputs).derived == {}  # expressions in a file are only used if sizes are named
    wide = {"past": (0, 8), "length": (1, 2), "length - other": 1}
    assert resolve_dims({**wide, "past + length": (1, 10)}, inputs).dims == wide
    with pytest.raises(InputError, match=r"goes from 1 to 10, which \(1, 9\) does not contain: leave it out"):
        resolve_dims({**wide, "past + length": (1, 9)}, inputs)


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ({"n": "k", "m": 1}, "no dimension is called 'k'; the dynamic dimensions are 'n', 'm'"),
        ({"k": "n", "n": 1, "m": 1}, "no dimension is called 'k'"),
        ({"n": "m", "m": "n"}, "dimension 'n' follows from itself"),
        ({"n": "n", "m": 1}, "dimension 'n' follows from itself"),
        ({"n": "m + n", "m": 1}, "dimension 'n' follows from itself"),
        ({"n": "m + k", "m": 1}, "no dimension is called 'k'"),
        ({"n": "m +", "m": 1}, r"dimension 'n': 'm \+' is not an expression over dimensions"),
        ({"n": "m ** 2", "m": 1}, "is not an expression"),
        ({"n": "m) + 1", "m": 1}, "is not an expression"),
        ({"n": "(m" * 600, "m": 1}, "at most 1000 characters, but this one has 1200"),
    ],
)
def test_dimensions_like_none_are_refused(dims, message):
    with pytest.raises(InputError, match=message):
        resolve_dims(dims, INPUTS)


@pytest.mark.parametrize(
    ("text", "value"),
    [("n + m", 9), ("n - m - 1", 4), ("2*n + m // 2", 15), ("(n + 1) * (m - 1)", 8), ("x.0 + 1", 6), ("7", 7)],
)
def test_expressions_are_read_as_people_write_them(text, value):
    sizes = {"n": 7, "m": 2, "x.0": 5}
    found = parse_expression(text)
    assert evaluate(found, sizes) == value
    assert evaluate(parse_expression(text_of(found)), sizes) == value


def _decoder() -> onnx.ModelProto:
    """One attention over past and new keys and values, with one mask for both, as decoders are exported."""

    def value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("Transpose", ["present"], ["turned"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "turned"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["weights"], axis=-1),
        helper.make_node("MatMul", ["weights", "present"], ["y"]),
    ]
    inputs = [value("x", ["b", "n", 8]), value("past", ["b", "past_n", 8]), value("mask", ["b", 1, "past_n + n"])]
    outputs = [value("y", ["b", "n", 8]), value("present", ["b", "past_n + n", 8])]
    graph = helper.make_graph(nodes, "decoder", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.filterwarnings("ignore:.*is compiled during the call:stepwell.support.errors.SlowWarning")
@pytest.mark.parametrize("is_stored", [False, True])
def test_a_decoder_is_one_program_for_any_past(is_stored, tmp_path):
    dims = {"b": (1, 3), "n": (1, 5), "past_n": (0, 40)}
    run = stepwell.compile(_decoder(), threads=1, options=stepwell.Options(dims=dims, cache=False))
    if is_stored:
        run.save(tmp_path / "decoder.stw")
        run = stepwell.load(tmp_path / "decoder.stw", threads=1)
    alone = stepwell.compile(_decoder(), threads=1, options=stepwell.Options(cache=False))
    rng = np.random.default_rng(0)
    for b, n, past in ((1, 1, 0), (3, 5, 0), (1, 1, 1), (2, 3, 17), (3, 5, 40)):
        shapes = ((b, n, 8), (b, past, 8), (b, 1, past + n))
        inputs = [rng.standard_normal(shape, np.float32) for shape in shapes]
        for found, wanted in zip(run(*inputs), alone(*inputs), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
    assert len(run.programs) == 1
    x, past, mask = (np.zeros(shape, np.float32) for shape in ((1, 2, 8), (1, 7, 8), (1, 1, 8)))
    with pytest.raises(InputError, match=r"dimension 'past_n \+ n' is 8, but must be past_n \+ n = 9"):
        run(x, past, mask)
