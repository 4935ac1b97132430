"""The folder that a machine with a GPU runs: made here, and checked by the simulator in a separate process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.bench.gpu import cases, prepare, run, whole
from stepwell.bench.gpu.data import contents, worst


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one small product."""
    made = tmp_path_factory.mktemp("gpu")
    assert prepare.main([str(made), "--only=matmul-float32-64x", "--models", "--small", "--target=cuda:sm_80"]) == 0
    return made


@pytest.mark.sweep
def test_the_folder_runs_by_itself(folder: Path) -> None:
    environment = {**os.environ, "STEPWELL_CUDA": "simulate", "PYTHONPATH": ""}
    command = [sys.executable, "-S", "-c", _WITHOUT_COMPILER, str(folder), "--json", str(folder / "results.json")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 are right" in done.stdout
    record = json.loads((folder / "results.json").read_text())
    assert record["device"] == "simulator"
    assert record["results"][0]["state"] == "right" and record["results"][0]["difference"] < 1e-5
    peers = [sys.executable, "-c", "import stepwell.bench.bert"]  # torch's models are made from it
    assert subprocess.run(peers, env=environment, cwd=folder, check=False).returncode == 0


_WITHOUT_COMPILER = f"""
import sys
sys.path[:0] = [{os.path.dirname(os.path.dirname(np.__file__))!r}]
for name in ("mlir", "onnx", "torch"):
    sys.modules[name] = None
folder = sys.argv[1]
sys.path.insert(0, folder)
from stepwell.bench.gpu.run import main
import stepwell
assert stepwell.__file__.startswith(folder), stepwell.__file__
sys.exit(main(sys.argv[1:]))
"""


def test_a_wrong_result_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    case = json.loads((folder / "cases.json").read_text())["cases"][0]
    data = folder / case["data"]
    kept = dict(np.load(data))
    np.savez(data, **{**kept, "out.y": kept["out.y"] + 1})
    assert run.main([str(folder)]) == 1
    assert "wrong: matmul-float32-64x96x80" in capsys.readouterr().out


def test_a_missing_device_is_reported(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("STEPWELL_CUDA", raising=False)
    assert run.main([str(folder)]) == 0
    assert capsys.readouterr().out.startswith("skipped: ")


@pytest.mark.sweep
def test_whole_models_carry_no_weights_and_say_why_others_are_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy")
    model = helper.make_model(helper.make_graph(nodes, "m", [x], [y], [weight]), ir_version=8)
    small = whole.WholeModel("time-small", lambda: whole.light(model), {"x": (3, 64)}, "bert")
    monkeypatch.setattr(whole, "timed", lambda: [small])
    assert prepare.main([str(tmp_path), "--only=time-", "--models", "--target=cuda:sm_80"]) == 0
    assert (tmp_path / "time-small.onnx").stat().st_size < 1000
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    assert run.main([str(tmp_path), "--bench", "--keep", str(tmp_path)]) == 0
    assert "time-small  timed" in capsys.readouterr().out
    (result,) = json.loads((tmp_path / "simulator" / "gpu.json").read_text())["results"]
    assert result["seconds"] > 0 and "torch is not installed" in result["reason"] and "onnxruntime" in result["reason"]


def test_the_timed_models_are_those_of_the_list() -> None:
    names = [model.name for model in whole.timed()]
    assert names == ["time-minilm-1x128", "time-minilm-64x128", "time-resnet50-1", "time-resnet50-64"]
    resnet = whole.resnet50(64)
    outputs = {item.name: item for item in onnx.shape_inference.infer_shapes(resnet).graph.value_info}
    assert outputs["r172"].type.tensor_type.shape.dim[0].dim_value == 64


def test_differences_are_relative_to_the_greatest_value() -> None:
    expected = contents((4, 5), np.dtype(np.float32), 1)
    off = expected.copy()
    off[0, 0] += 0.5
    assert worst([off], [expected]) == pytest.approx(0.5 / np.abs(expected).max(), rel=1e-5)
    assert worst([np.full((4, 5), np.nan)], [expected]) == float("inf")
    with pytest.raises(ValueError, match="has the shape"):
        worst([expected[0]], [expected])


def test_names_of_cases_are_told_apart() -> None:
    names = [case.name for case in (*cases.checked(), *cases.timed())]
    assert len(names) == len(set(names))
