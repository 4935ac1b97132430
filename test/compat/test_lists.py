"""Nested lists as inputs, and the shapes that are reported, beside the installed ONNX Runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from stepwell.compat import onnxruntime as ours

KINDS = {
    "float": TensorProto.FLOAT,
    "double": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
    "string": TensorProto.STRING,
}
LISTS = [
    [[1.0, 2.0]],
    [[1, 2]],
    [[1.5, 2.5], [3, 4]],
    [(1, 2), [3, 4]],
    [[True, False]],
    [[300, -1]],
    [[2**40, 1]],
    [[2**70, 1]],
    [[None, 1.0]],
    [[1 + 2j, 0]],
    [["a", "b"]],
    [[b"a", 1]],
    [np.array([1.0, 2.0])],
    [[1.0], [2.0, 3.0]],
    [[1.0, 2.0], 3.0],
    [[]],
    [],
    [1.0, 2.0],
]


def identity(kind: int, shape: Sequence[Any] | None) -> bytes:
    x, y = (helper.make_tensor_value_info(name, kind, shape) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()


def result(session: Any, given: Any) -> tuple[Any, ...]:
    """Returns the element type, shape and values of a run, or the name of its error and the start of the message."""
    try:
        (y,) = session.run(None, {"x": given})
    except Exception as error:  # compared with the other library's
        return type(error).__name__, str(error)[:45]
    return y.dtype, y.shape, y.tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore::stepwell.FallbackWarning")
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_nested_lists_are_taken_or_refused_alike(kind: str) -> None:
    model = identity(KINDS[kind], ["rows", 2])
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    session = ours.InferenceSession(model)
    for given in LISTS:
        expected = result(theirs, given)
        assert repr(result(session, given)) == repr(expected), given


def test_a_refused_list_says_why() -> None:
    session = ours.InferenceSession(identity(TensorProto.UINT8, ["rows", 2]))
    with pytest.raises(RuntimeError, match=r"for input 'x' \(x: uint8\[rows, 2\]\): Python integer 300 out of bounds"):
        session.run(None, {"x": [[300, 1]]})


@pytest.mark.parametrize(
    "shape", [[], [2], ["n", 2], [None, 2], [None, None, 3], None, ["", 2], [0, 2], [-1, 2], ["n", None, 4]], ids=str
)
def test_shapes_are_reported_alike(shape: Sequence[Any] | None) -> None:
    model = identity(TensorProto.FLOAT, shape)
    theirs = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    session = ours.InferenceSession(model)
    for ports, expected in (session.get_inputs(), theirs.get_inputs()), (session.get_outputs(), theirs.get_outputs()):
        assert [(port.name, port.type, port.shape) for port in ports] == [
            (port.name, port.type, port.shape) for port in expected
        ]
