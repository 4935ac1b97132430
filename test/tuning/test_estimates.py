"""Searches for targets that are not here: estimated times, kept apart, and schedules that the GPU simulator runs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import stepwell
from onnx import helper
from stepwell.driver.options import Options
from stepwell.driver.setup import Setup
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.cache.cache import Cache
from stepwell.tools import compile as compile_tool
from stepwell.tools import tune
from stepwell.tuning.children import TrialFailure
from stepwell.tuning.database import Database
from stepwell.tuning.estimates import EstimatedTrials
from stepwell.tuning.measurement import WHOLE, Measured
from stepwell.tuning.model import ESTIMATED, tunable_model

from . import graphs

TARGET = "cuda:sm_90a"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A product with so long sums that the default splits them."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"], "product"), helper.make_node("Relu", ["m"], ["y"])]
    return graphs.save(tmp_path / "model.onnx", nodes, {"x": (24, 1024)}, {"w": (1024, 64)}, (24, 64))


@pytest.fixture
def opened(model: Path, tmp_path: Path):
    setup = replace(Setup.of(TARGET, Options(codegen_threads=1)), cache=Cache(tmp_path / "candidates"))
    with tunable_model(read_source(str(model)), {"x": (24, 1024)}, setup, {}) as found:
        yield found


def test_the_default_of_the_space_is_the_compilers(opened) -> None:
    (kernel,) = opened.kernels.values()
    trials = EstimatedTrials(opened)
    times = trials.prepare()
    assert kernel.space.default["parts"] > 1 and times[WHOLE] == times[kernel.name] > 0
    (found,) = trials.run([{kernel.name: {}}], {}, 1, lambda step: None)
    measured = found[WHOLE]
    assert isinstance(measured, Measured) and (measured.gain.value, measured.gain.count) == (1.0, 0)


def test_candidates_that_cannot_be_compiled_fail(opened) -> None:
    (name,) = opened.kernels
    bad = {"method": "wgmma"}  # no product of float32
    (found,) = EstimatedTrials(opened).run([{name: bad}], {name: 0.0}, 1, lambda step: None)
    assert isinstance(found[name], TrialFailure) and WHOLE in found


@pytest.mark.parametrize("schedule", [{"parts": 1, "rows": 32}, {"parts": 2, "stages": 2}])
def test_a_tuned_schedule_runs_on_the_simulator(schedule, model, opened, tmp_path, monkeypatch) -> None:
    (name,) = opened.kernels
    entry = {"kernel": name, "schedule": schedule, "gain": 1.1, "low": 1.1, "high": 1.1, "threads": 1, "nodes": []}
    table = {"schema": 1, "compiler": stepwell.__version__, "machine": TARGET, "kernels": [entry], "decisions": []}
    path = tmp_path / "gpu.tuning.json"
    path.write_text(json.dumps(table))
    x = np.random.default_rng(0).standard_normal((24, 1024)).astype(np.float32)
    monkeypatch.setenv("STEPWELL_CUDA", "simulate")
    options = Options(cache=False, fallback="error", tuning=path)
    got = stepwell.compile(str(model), TARGET, options=options)(x)
    want = stepwell.compile(str(model), options=Options(cache=False))(x)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    arguments = [str(model), "--target", TARGET, "--tuning", str(path), "--compile-to=tiled"]
    assert compile_tool.main([*arguments, "-o", str(tmp_path / "tiled.mlir")]) == 0
    text = (tmp_path / "tiled.mlir").read_text()
    assert all(f"{key} = {value} : i64" in text for key, value in schedule.items() if key != "parts")
    assert (text.count("stepwell.launch}") + text.count("stepwell.launch,") > 1) == (schedule["parts"] > 1)


def test_the_command_says_that_times_are_estimated(model, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--target", TARGET, "--trials", "12", "--searcher", "random", "--database", "trials.sqlite"]
    assert tune.main([str(model), *given, "--report", "page.html"]) == 0
    said = capsys.readouterr().out
    assert f"whose times are {ESTIMATED}, not measured" in said
    assert ESTIMATED in (tmp_path / "page.html").read_text()
    database = Database(tmp_path / "trials.sqlite", must_exist=True)
    trials = database.trials()
    assert len(trials) >= 12 and all(trial.is_estimated for trial in trials if trial.status == "ok")
    assert any((trial.gain or 1.0) != 1.0 for trial in trials)
    (machine,) = {trial.conditions.machine for trial in trials}
    assert json.loads(database.machines()[machine]) == {"target": TARGET, "times": ESTIMATED}
