"""`stepwell-bench misdescribed`: a wrongly described machine, and what tuning recovers there."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from stepwell.bench import command
from stepwell.bench.misdescribed import wrong_figures
from stepwell.machines.families import FAMILIES
from stepwell.machines.names import with_figures


def test_caches_are_halved_and_latencies_doubled() -> None:
    machine = FAMILIES["zen3"]
    wrong = with_figures(machine, wrong_figures(machine), "wrong")
    assert (wrong.l2_bytes, wrong.l2_rate) == (machine.l2_bytes // 2, machine.l2_rate / 2)
    assert (wrong.l2_latency, wrong.call_ns) == (2 * machine.l2_latency, 2 * machine.call_ns)
    kept = {item.name for item in dataclasses.fields(machine) if item.compare} - wrong_figures(machine).keys()
    assert {"vector_bytes", "vector_registers", "fma_units", "byte_rate", "line_bytes"} <= kept


@pytest.mark.slow
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path / "cache"))
    w = numpy_helper.from_array(np.random.default_rng(0).random((64, 64), np.float32), "w")
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [48, 64]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "tiny", ports[:1], ports[1:], [w])
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    assert command.main(["misdescribed", str(path), "--budget", "4s", "--rounds", "8", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert all(milliseconds > 0 for milliseconds in row["milliseconds"].values())
    assert 0.1 < row["tuned"]["low"] <= row["tuned"]["value"] < 10
