"""`stepwell-bisect`: its output, its exit codes, its reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.dialects.stepwell.elementwise import ReluOp
from stepwell.explain.bisect import references
from stepwell.tools.bisect import main
from stepwell.tools.compile import main as compile_main

MODEL = """
func.func @main(%x: tensor<4xf32> {stepwell.name = "x"}) -> (tensor<4xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("positive")
  return %0 : tensor<4xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(MODEL, encoding="utf-8")
    np.save("x.npy", np.float32([-1, 2, -3, 4]))
    return "model.mlir"


def test_nothing_is_wrong(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([model, "--inputs", "x.npy", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["schema"] == 1
    assert record["fault"] is None
    assert [level["level"] for level in record["levels"]] == ["graph", "kernel", "program"]


def test_fault_and_reproducer(model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    # The code is right and the reference is wrong: the tool only sees that they differ.
    monkeypatch.setattr(ReluOp, "reference", staticmethod(lambda x: x))
    assert main([model, "--inputs", "x.npy", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["fault"]["nodes"] == ["positive"]
    assert record["fault"]["difference"]["place"] == [2]
    assert main(record["command"].split()[1:]) == 1
    assert "wrong at the level kernel" in capsys.readouterr().out


def test_the_table_names_the_culprit(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReluOp, "reference", staticmethod(lambda x: x))
    assert main([model, "--inputs", "x.npy"]) == 1
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("kernel"))
    assert "stepwell-convert-to-linalg" in row
    assert "(positive)" in row


def test_made_up_inputs_are_tried_in_two_magnitudes(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([model, "--json"]) == 0
    twice = json.loads(capsys.readouterr().out)["levels"]
    assert main([model, "--input", "x=4xf32:random", "--json"]) == 0
    once = json.loads(capsys.readouterr().out)["levels"]
    assert [level["checked"] for level in twice] == [2 * level["checked"] for level in once]


def test_module_behind_the_phase_graph(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_main([model, "-o", "kernels.mlir", "--compile-to=kernels"]) == 0
    assert main(["kernels.mlir"]) == 1
    error = capsys.readouterr().err
    assert "the phase 'kernels' cannot be interpreted: give one in the phase import or graph" in error
    assert "internal error" not in error


def test_wrong_command(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([model, "--input", "z=4xf32"]) == 2
    assert "no such input" in capsys.readouterr().err


def test_where_a_model_makes_nan_of_numbers(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    nodes = [
        helper.make_node("Add", ["x", "mask"], ["masked"], "hide"),
        helper.make_node("Sub", ["x", "x"], ["zero"], "nothing"),
        helper.make_node("Div", ["zero", "zero"], ["ratio"], "ratio"),
        helper.make_node("Max", ["ratio", "masked"], ["y"], "both"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    weights = [numpy_helper.from_array(np.array([-np.inf, 0, 0, 0], np.float32), "mask")]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "nan.onnx")
    assert main(["nan.onnx", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["levels"][0]["not_finite"] == "ratio (Div)"
    assert main(["nan.onnx"]) == 0
    assert "first appear at node ratio (Div)" in capsys.readouterr().out


def test_where_one_reference_cannot_run_a_model_the_other_does(
    model: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "relu.onnx")

    def refuse(*_: object) -> None:
        raise ValueError("an opset of tomorrow")

    monkeypatch.setattr(references, "_by_onnxruntime", refuse)
    for options, checked in (([], 2), (["--reference", "onnxruntime"], 0)):
        assert main(["relu.onnx", "--json", *options]) == 0
        (level, *_) = json.loads(capsys.readouterr().out)["levels"]
        assert (level["level"], level["checked"]) == ("import", checked)
