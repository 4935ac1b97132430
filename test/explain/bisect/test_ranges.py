"""Bisection of programs for ranges of sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.elementwise import ExpOp, TanhOp
from stepwell.driver.sources.reading import read_source
from stepwell.explain.bisect.model import Bisector
from stepwell.lowering.linalg_to_vector.vectorize import VectorizePass
from stepwell.passes.graph.simplification.canonicalize import CanonicalizePass
from stepwell.passes.graph.simplification.decompose import DecomposePass
from stepwell.passes.ir.rewriting import walk
from stepwell.support.errors import InputError
from stepwell.tools import bisect

DIMS = {"n": (1, 12)}
SIZES = (5, 12)


@pytest.fixture
def model() -> onnx.ModelProto:
    """A product, a softmax over rows, and a mean over the rows, whose number varies."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "product"),
        helper.make_node("Exp", ["a"], ["b"], "exp"),
        helper.make_node("Softmax", ["b"], ["c"], "shares", axis=0),
        helper.make_node("ReduceMean", ["c"], ["y"], "mean", axes=[0]),
    ]
    weight = np.random.default_rng(1).standard_normal((8, 6)).astype(np.float32) / 4
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yc"],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _bisected(model: onnx.ModelProto, size: int) -> Any:
    x = np.random.default_rng(0).standard_normal((size, 8)).astype(np.float32)
    return Bisector("x86-64-v3", dims=DIMS).bisect(read_source(model), {"x": x})


@pytest.mark.parametrize("size", SIZES)
def test_a_right_model_is_right_at_every_level(model: onnx.ModelProto, size: int) -> None:
    found = _bisected(model, size)
    assert found.fault is None
    assert [level.name for level in found.levels] == ["import", "graph", "kernel", "program"]
    assert all(level.checked for level in found.levels)


@pytest.mark.parametrize(
    ("kind", "name"), [(DecomposePass, DecomposePass.name), (CanonicalizePass, "binding to the range")]
)
def test_a_wrong_pass_on_the_graph_is_named(
    model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch, kind: Any, name: str
) -> None:
    # The canonicalizer also runs while the model is bound to the range.
    right = kind.run

    def run(self: Any, op: Any, state: Any) -> None:
        right(self, op, state)
        for inner in [item for item in walk(op) if item.name == ExpOp.OPERATION_NAME]:
            with inner.location, ir.InsertionPoint(inner):
                inner.results[0].replace_all_uses_with(TanhOp(inner.operands[0]).result)
            inner.erase()

    monkeypatch.setattr(kind, "run", run)
    fault = _bisected(model, 5).fault
    assert fault is not None
    assert (fault.level, fault.pass_name) == ("graph", name)


@pytest.mark.sweep
def test_a_wrong_pass_on_kernels_is_named(model: onnx.ModelProto, monkeypatch: pytest.MonkeyPatch) -> None:
    right = VectorizePass.run

    def run(self: VectorizePass, op: Any, state: Any) -> None:
        for inner in [item for item in walk(op) if item.name == "math.exp"]:
            with inner.location, ir.InsertionPoint(inner):
                wrong = ir.Operation.create("math.tanh", [inner.results[0].type], [inner.operands[0]])
            inner.results[0].replace_all_uses_with(wrong.results[0])
            inner.erase()
        right(self, op, state)

    monkeypatch.setattr(VectorizePass, "run", run)
    fault = _bisected(model, 5).fault
    assert fault is not None
    assert (fault.level, fault.pass_name) == ("kernel", VectorizePass.name)


def test_sizes_outside_the_ranges_are_an_error(model: onnx.ModelProto) -> None:
    with pytest.raises(InputError, match=r"no range of `dims` contains the sizes of the inputs: n=13"):
        _bisected(model, 13)


def test_the_tool_examines_the_largest_sizes_and_those_between(model: onnx.ModelProto, tmp_path: Path, capsys) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    assert bisect.main([str(path), "--dims", "n=1:12", "--target", "x86-64-v3"]) == 0
    assert "no difference beyond rounding" in capsys.readouterr().out
