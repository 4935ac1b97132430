"""`stepwell-bench budget`: errors of the written models, bytes against one width for all, and planted faults."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.bench import budget_commands, command
from stepwell.bench.budget import BudgetRow, measure_budget
from stepwell.bench.models import BenchModel, MissingModel, packaged
from stepwell.bench.planted_faults import PLANTED, name_fault


def layers(path: Path) -> Path:
    """Writes a model that adds four products, of which one has a much larger result than the others."""
    random = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((size * random.standard_normal((64, 64)) / 8).astype(np.float32), f"w{index}")
        for index, size in enumerate((1.0, 0.1, 0.05, 0.05))
    ]
    nodes = [helper.make_node("MatMul", ["x", f"w{index}"], [f"m{index}"]) for index in range(4)]
    nodes.append(helper.make_node("Sum", [f"m{index}" for index in range(4)], ["y"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 64]) for name in "xy"]
    graph = helper.make_graph(nodes, "layers", ports[:1], ports[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def test_a_mixed_model_is_smaller_than_one_width_for_all(tmp_path: Path) -> None:
    path = layers(tmp_path / "model.onnx")
    row = measure_budget(BenchModel("layers", lambda folder: path), path, 2)
    assert row.products == 4 and row.is_met and row.best_uniform == row.uniform["int8"]
    assert row.uniform["int4"] <= row.bytes < row.uniform["int8"] and row.saved > 0.1
    assert row.shares == pytest.approx(1.0, rel=0.2)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path = layers(tmp_path / "model.onnx")

    def absent(folder: Path) -> Path:
        raise MissingModel("pip install it")

    listed = [BenchModel("layers", lambda folder: path), BenchModel("absent", absent)]
    monkeypatch.setattr(budget_commands, "budget_models", lambda: listed)
    assert command.main(["budget", "layers", "absent", "--samples", "1", "--json"]) == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out)["budgets"]
    assert row["model"] == "layers" and row["is_met"] and "absent is left out: pip install it" in captured.err
    assert command.main(["budget", "other"]) == 2


def test_a_missed_budget_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    row = BudgetRow("net", 3, 0.01, 0.02, {"int8": 100, "float": 400}, {"int8": 0.01, "float": 0.0}, 50, 1.0, 1.0)
    assert not row.is_met and row.best_uniform == 100 and row.saved == 0.5


@pytest.mark.slow
@pytest.mark.few(3)
@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.name)
def test_planted_faults_are_named(fault, tmp_path: Path) -> None:
    try:
        packaged("atspm_detector", "weights/funcnet/x100_w32full_head.onnx")(tmp_path)
    except MissingModel as error:
        pytest.skip(str(error))
    row = name_fault(fault, tmp_path)
    assert row.is_named, row.reasons
