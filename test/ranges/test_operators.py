"""Single operators over dimensions that vary: a program for a range computes what a program for one size does.

An operator may need more than one program for a range, but its results must be right.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

_KINDS = {TensorProto.FLOAT: np.float32, TensorProto.INT64: np.int64, TensorProto.INT32: np.int32}
_DIMS = {"n": (1, 5), "m": (1, 23)}
_CONSTANTS = {
    "one": np.array([1]),
    "two": np.array([2]),
    "minus_one": np.array([-1]),
    "both": np.array([0, 1]),
    "pads": np.array([0, 1, 0, 2]),
    "axis": np.array(1),
    "row": np.arange(-3, 3, dtype=np.float32),
    "half": np.array([1, 0.5], np.float32),
    "odd": np.array([1, 1.7], np.float32),
    "none": np.array([], np.float32),
}
_Case = tuple[str, list[str], dict, int]


def _reductions(kind: int, names: tuple[str, ...]) -> list[_Case]:
    return [
        (name, ["x"], {"axes": axes, "keepdims": keep}, kind)
        for name in names
        for axes, keep in (([1], 1), ([0, 1], 0))
    ]


_FLOAT, _INT = TensorProto.FLOAT, TensorProto.INT32
_CASES: list[_Case] = [
    *_reductions(_FLOAT, ("ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceSumSquare", "ReduceMean", "ReduceMin")),
    *_reductions(
        _INT, ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceMean")
    ),
    ("ArgMin", ["x"], {"axis": 1, "select_last_index": 1}, _FLOAT),
    ("ArgMax", ["x"], {"axis": 0, "keepdims": 0}, _INT),
    ("CumSum", ["x", "axis"], {"exclusive": 1}, _FLOAT),
    ("CumSum", ["x", "axis"], {"reverse": 1}, _INT),
    ("Softmax", ["x"], {"axis": 0}, _FLOAT),
    ("LogSoftmax", ["x"], {"axis": 1}, _FLOAT),
    ("Hardmax", ["x"], {"axis": 1}, _FLOAT),
    ("LpNormalization", ["x"], {"axis": 1, "p": 1}, _FLOAT),
    ("LpNormalization", ["x"], {"axis": 0, "p": 2}, _FLOAT),
    ("MeanVarianceNormalization", ["x"], {"axes": [1]}, _FLOAT),
    ("Trilu", ["x"], {"upper": 0}, _FLOAT),
    ("Trilu", ["x", "axis"], {"upper": 1}, _FLOAT),
    ("Pad", ["x", "pads"], {"mode": "constant"}, _FLOAT),
    ("Pad", ["x", "pads"], {"mode": "edge"}, _FLOAT),
    ("Tile", ["x", "both"], {}, _FLOAT),
    ("Gather", ["x", "minus_one"], {"axis": 1}, _FLOAT),
    ("NonZero", ["x"], {}, _INT),
    ("Flatten", ["x"], {"axis": 0}, _FLOAT),
    ("Concat", ["x", "x"], {"axis": 1}, _FLOAT),
    ("Einsum", ["x", "x"], {"equation": "ij,kj->ik"}, _FLOAT),
    ("Einsum", ["x"], {"equation": "ij->j"}, _FLOAT),
    ("Resize", ["x", "none", "half"], {"mode": "linear"}, _FLOAT),
    ("Resize", ["x", "none", "odd"], {"mode": "nearest"}, _FLOAT),
    ("Resize", ["x", "none", "odd"], {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}, _FLOAT),
    ("ReverseSequence", ["x", "lengths"], {"batch_axis": 0, "time_axis": 1}, _FLOAT),
    ("Shrink", ["x"], {"lambd": 0.4}, _FLOAT),
    ("OneHot", ["x", "depth", "values"], {}, _INT),
]


def _name(case: _Case) -> str:
    name, _, attributes, kind = case
    return "-".join([name, *map(str, attributes.values()), _KINDS[kind].__name__])


def _model(case: _Case) -> onnx.ModelProto:
    name, inputs, attributes, kind = case
    constants = _CONSTANTS | {"depth": np.array(4), "values": np.array([0, 1], np.float32)}
    if name == "ReverseSequence":
        inputs = ["x", "l"]
    nodes = [helper.make_node(name, inputs, ["y"], **attributes)]
    if name == "ReverseSequence":
        nodes = [
            helper.make_node("Shape", ["x"], ["s"]),
            helper.make_node("Slice", ["s", "one", "two"], ["width"]),
            helper.make_node("Slice", ["s", "zero", "one"], ["height"]),
            helper.make_node("Expand", ["width", "height"], ["l"]),
            *nodes,
        ]
        constants |= {"zero": np.array([0])}
    used = {item for node in nodes for item in node.input}
    graph = helper.make_graph(
        nodes,
        "one",
        [helper.make_tensor_value_info("x", kind, ["n", "m"])],
        [helper.make_tensor_value_info("y", TensorProto.UNDEFINED, None)],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items() if key in used],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.few(18)
@pytest.mark.parametrize("case", _CASES, ids=_name)
def test_an_operator_at_any_size(case: _Case):
    _same_at_any_size(_model(case), _KINDS[case[3]])


def _same_at_any_size(model: onnx.ModelProto, dtype: Callable) -> None:
    is_on_host = any(node.op_type == "NonZero" for node in model.graph.node)
    fallback = "quiet" if is_on_host else "error"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranged = stepwell.compile(
            model, threads=1, options=stepwell.Options(dims=_DIMS, cache=False, fallback=fallback)
        )
        alone = stepwell.compile(model, threads=1, options=stepwell.Options(ranges=False))
    rng = np.random.default_rng(5)
    for shape in ((5, 23), (1, 1), (2, 17), (5, 1), (3, 8)):
        x = (3 * rng.standard_normal(shape)).astype(dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found, wanted = ranged(x), alone(x)
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5, err_msg=str(shape))
        assert found.shape == wanted.shape and found.dtype == wanted.dtype
