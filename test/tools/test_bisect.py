"""`stepwell-bisect`: what it prints, its exit codes, its reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from stepwell.dialects.stepwell.elementwise import ReluOp
from stepwell.tools.bisect import main

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
    # Code is right, the reference is not: for the tool they only differ.
    monkeypatch.setattr(ReluOp, "reference", staticmethod(lambda x: x))
    assert main([model, "--inputs", "x.npy", "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert record["fault"]["nodes"] == ["positive"]
    assert record["fault"]["difference"]["place"] == [2]
    assert main(record["command"].split()[1:]) == 1
    assert "wrong at the level kernel" in capsys.readouterr().out


def test_wrong_command(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([model, "--input", "z=4xf32"]) == 2
    assert "no such input" in capsys.readouterr().err
