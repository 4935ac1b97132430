"""Operators whose number of results depends on data, of inputs that vary in size: one program, as ONNX Runtime."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper

_FLOAT, _BOOL, _INT = TensorProto.FLOAT, TensorProto.BOOL, TensorProto.INT64
_Feed = Callable[[np.random.Generator, int, int], dict[str, np.ndarray]]


@dataclass(frozen=True)
class Case:
    """A node, with the ranges of n and m, and random inputs at given sizes."""

    name: str
    inputs: dict[str, tuple[int, list]]
    feed: _Feed
    outputs: int = 1
    attributes: tuple[tuple[str, int], ...] = ()
    constants: tuple[tuple[str, np.ndarray], ...] = ()
    n: tuple[int, int] = (0, 6)
    m: tuple[int, int] = (1, 40)

    @property
    def model(self) -> onnx.ModelProto:
        names = [*self.inputs, *(name for name, _ in self.constants)]
        outputs = [f"y{number}" for number in range(self.outputs)]
        graph = helper.make_graph(
            [helper.make_node(self.name, names, outputs, **dict(self.attributes))],
            "g",
            [helper.make_tensor_value_info(name, *given) for name, given in self.inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _sparse(rng: np.random.Generator, n: int, m: int) -> dict[str, np.ndarray]:
    return {"x": (rng.random((n, m, 3)) * (rng.random((n, m, 3)) < 0.3)).astype(np.float32)}


def _with_conditions(rng: np.random.Generator, n: int, m: int) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((n, m, 3)).astype(np.float32), "c": rng.random(m) < 0.5}


def _boxes(rng: np.random.Generator, n: int, m: int) -> dict[str, np.ndarray]:
    low = rng.random((n, m, 2)) * 10
    boxes = np.concatenate([low, low + rng.random((n, m, 2)) * 4], -1)
    return {"b": boxes.astype(np.float32), "s": np.round(rng.random((n, 3, m)), 2).astype(np.float32)}


def _few(rng: np.random.Generator, n: int, m: int) -> dict[str, np.ndarray]:
    return {"x": np.round(rng.standard_normal((n, m)) * 0.7, 0).astype(np.float32)}


_OF_BOXES = {"b": (_FLOAT, ["n", "m", 4]), "s": (_FLOAT, ["n", 3, "m"])}
_MOST, _SHARE, _LEAST = (
    ("most", np.array([25])),
    ("share", np.array([0.3], np.float32)),
    ("least", np.array([0.4], "f")),
)
CASES = {
    "nonzero": Case("NonZero", {"x": (_FLOAT, ["n", "m", 3])}, _sparse),
    "compress": Case(
        "Compress",
        {"x": (_FLOAT, ["n", "m", 3]), "c": (_BOOL, ["m"])},
        _with_conditions,
        attributes=(("axis", 1),),
        m=(0, 40),
    ),
    "compress_all": Case("Compress", {"x": (_FLOAT, ["n", "m", 3]), "c": (_BOOL, ["m"])}, _with_conditions, n=(1, 6)),
    "boxes": Case("NonMaxSuppression", _OF_BOXES, _boxes, constants=(_MOST, _SHARE, _LEAST)),
    "boxes_of_any_score": Case("NonMaxSuppression", _OF_BOXES, _boxes, constants=(_MOST, _SHARE)),
    "boxes_up_to_an_input": Case(
        "NonMaxSuppression",
        {**_OF_BOXES, "most": (_INT, [1])},
        lambda rng, n, m: {**_boxes(rng, n, m), "most": rng.integers(0, 20, 1)},
        constants=(_SHARE,),
    ),
    "unique": Case("Unique", {"x": (_FLOAT, ["n", "m"])}, _few, 4),
    "unique_in_order": Case("Unique", {"x": (_FLOAT, ["n", "m"])}, _few, 4, (("sorted", 0),)),
    "unique_rows": Case(
        "Unique", {"x": (_FLOAT, ["m", "n"])}, lambda r, n, m: _few(r, m, n), 4, (("axis", 0),), n=(1, 3)
    ),
    "unique_columns": Case("Unique", {"x": (_FLOAT, ["n", "m"])}, _few, 4, (("axis", 1), ("sorted", 0)), n=(1, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_onnxruntime(name):
    case = CASES[name]
    dims = {"n": case.n, "m": case.m}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        options = stepwell.Options(dims=dims, cache=False, fallback="error")
        executable = stepwell.compile(case.model, threads=1, options=options)
    session = onnxruntime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    corners = [(n, m) for n in case.n for m in case.m]
    for n, m in (
        *corners[::-1],
        *(tuple(rng.integers(case.n[0], 1 + np.array([case.n[1], case.m[1]]))) for _ in range(20)),
    ):
        feed = case.feed(rng, int(n), max(int(m), case.m[0]))
        found = executable(**feed)
        wanted = session.run(None, feed)
        for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            np.testing.assert_array_equal(mine, np.asarray(theirs), strict=True)
    assert len(executable.programs) == 1


def test_conditions_of_another_length():
    """Conditions behind the slices are ignored, and slices without one are dropped."""
    inputs = {"x": (_FLOAT, ["m"]), "c": (_BOOL, ["n"])}
    case = Case("Compress", inputs, _few, attributes=(("axis", 0),))
    options = stepwell.Options(dims={"n": (1, 9), "m": (1, 9)}, cache=False, fallback="error")
    executable = stepwell.compile(case.model, threads=1, options=options)
    for n in range(1, 10):
        for m in range(1, 10):
            x, conditions = np.arange(m, dtype=np.float32), np.arange(n) % 3 != 1
            np.testing.assert_array_equal(executable(x, conditions), np.compress(conditions[:m], x))
    assert len(executable.programs) == 1
