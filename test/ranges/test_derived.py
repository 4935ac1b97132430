"""Derived dimensions: how they are reported, and which sizes a call may have."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.sizes.ranges import Range
from stepwell.support.errors import InputError

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
    with pytest.warns(UserWarning, match=r"x\.0 and y\.0 elements differ.*declare it in `dims` \(y\.0=x\.0\)"):
        stepwell.compile(TWO_BATCHES.encode(), threads=1, options=options)


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
    alone = stepwell.compile(_decoder(), threads=1, options=stepwell.Options(cache=False, ranges=False))
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
