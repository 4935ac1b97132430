"""`stepwell-quantize`: writes the model and the report, and returns 1 if the budget is not met."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from stepwell.tools import quantize

from ..quantization.graphs import products


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a model and samples."""
    monkeypatch.chdir(tmp_path)
    model, samples = products()
    onnx.save(model, "model.onnx")
    (tmp_path / "samples").mkdir()
    for index, sample in enumerate(samples):
        np.savez(f"samples/{index}.npz", **sample)
    return tmp_path


def test_model_and_report(folder, capsys) -> None:
    code = quantize.main(["model.onnx", "--calibration", "samples", "--report", "report.html", "--smooth", "0.5"])
    assert code == 0
    assert "3 of 3 products quantised" in capsys.readouterr().out
    assert "first" in (folder / "report.html").read_text()
    onnx.checker.check_model(onnx.load("model.quantized.onnx"))
    assert quantize.main(["model.onnx", "--calibration", "samples", "--report", "report.html"]) == 0  # its own files


@pytest.mark.filterwarnings("default")
def test_json_and_a_budget_that_is_not_met(capsys) -> None:
    code = quantize.main(["model.onnx", "--calibration", "samples", "--json", "--target-size", "10"])
    record = json.loads(capsys.readouterr().out)
    assert code == 1 and record["is_met"] is False and record["schema"] == 1


def test_random_inputs_are_warned_of(capsys) -> None:
    assert quantize.main(["model.onnx", "--shape", "x=3x64", "-o", "out.onnx"]) == 0
    assert "there is no --calibration" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--calibration", "absent"], "there is no such file or folder"),
        (["--calibration", "model.onnx"], "not an .npz file"),
        (["--calibration", "samples", "-o", "model.onnx"], "would be lost"),
        (["--calibration", "samples", "--report", "report.txt"], "name a file with one of the endings .html, .json"),
        (["--calibration", "samples", "--exclude", "x"], "no product is called 'x'"),
        (["--calibration", "samples", "--smooth", "2"], "smooth is 2.0, and must be 0 to 1"),
    ],
)
def test_wrong_usage_is_one_message(arguments, message, capsys) -> None:
    assert quantize.main(["model.onnx", *arguments]) in (1, 2)
    assert message in capsys.readouterr().err
