"""The commands of the harness from end to end, on a tiny model and with short turns."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import stepwell
from stepwell.bench import command, measure, range_cases, ranges, training, training_curves
from stepwell.bench.models import BenchModel
from stepwell.bench.peers import SYSTEMS, System
from stepwell.bench.range_cases import RangeCase
from stepwell.bench.record import Results
from stepwell.runtime.devices import figures, measurement
from stepwell.runtime.devices.figures import MachineFigures
from stepwell.runtime.devices.peaks import Peaks

SHORT = ["--threads=1", "--rounds=2", "--seconds=0.001"]
PEAKS = Peaks(1, 1e11, [(1 << 15, 2e11), (1 << 28, 1e10)], [(1 << 15, 3e11), (1 << 28, 1e10)])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips the measurement of the machine's limits."""
    monkeypatch.setattr(measure, "find_peaks", lambda threads: dict.fromkeys(threads, PEAKS))


@pytest.mark.slow
def test_models(tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SYSTEMS, "abacus", System("abacus", "numpy", ("no-such-package",)))
    arguments = ["models", str(tiny), "--shape=x=2x8", *SHORT, "--peers=onnxruntime,torch,abacus", "--output=out.json"]
    assert command.main(arguments) == 0
    out = capsys.readouterr().out
    assert "not installed: pip install no-such-package" in out
    assert "stopped (SIGSTOP)" in out
    results = Results.read(Path("out.json"))
    rows = {row.system: row for row in results.rows}
    here, there = rows["stepwell"], rows["onnxruntime"]
    assert here.calls > 0 and here.median_seconds is not None and here.cold_seconds is not None
    assert here.start_seconds is not None and here.start_seconds < here.cold_seconds, (
        "the second start is from the cache"
    )
    assert here.flops == 2 * 2 * 8 * 4 + 2 * 4
    assert here.artefact_bytes and there.artefact_bytes == tiny.stat().st_size
    assert here.memory_bytes and there.memory_bytes
    assert here.arena_bytes == here.arena_lower_bound == 0
    assert there.difference is not None and there.difference < 1e-6
    assert list(results.missing)[-1] == "abacus"
    assert results.peaks[1].flops > 1e9
    assert results.machine.cores >= 1
    assert "torch" in results.missing or rows["torch"].reason == "there is no torch model of it"


def test_machine(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STEPWELL_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(measurement, "measure", lambda machine, cpus: MachineFigures({"clock": 2.5, "l3_rate": 6.0}))
    assert command.main(["machine"]) == 0
    shown = capsys.readouterr().out
    # The figures of a family are from tables, or estimates.
    assert "kept: code for the target cpu" in shown and ("uops.info" in shown or "estimate" in shown)
    assert command.main(["machine", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["schema"], record["kept"], record["disturbed"]) == (1, True, False)
    assert record["figures"]["clock"]["measured"] == 2.5 and record["figures"]["clock"]["family"] > 0
    assert record["figures"]["fma_units"]["measured"] is None and record["figures"]["fma_units"]["source"]
    figures.figures.cache_clear()


@pytest.mark.sweep
@pytest.mark.slow
def test_a_second_run_is_added(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shape in ("2x8", "3x8"):
        arguments = ["sessions", str(tiny), f"--shape=x={shape}", *SHORT, "--peers=", "--keep=kept", "--add"]
        assert command.main(arguments) == 0
    assert "two at once" in capsys.readouterr().out
    (path,) = Path("kept").glob("*/sessions.json")
    rows = Results.read(path).rows
    assert [list(row.shapes["x"]) for row in rows] == [[2, 8], [3, 8]]
    assert all(row.one_session and row.two_sessions for row in rows)


@pytest.mark.sweep
@pytest.mark.slow
def test_kernels(quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "kernels.json"
    assert command.main(["kernels", "mul 1x128", "gelu 1x128", *SHORT, "--peers=numpy", f"--output={out}"]) == 0
    assert "numpy has no such function" in capsys.readouterr().out
    rows = {(row.case, row.system): row for row in Results.read(out).rows}
    assert rows["gelu 1x128x1536", "numpy"].reason
    here, there = (rows["mul 1x128x384", name] for name in ("stepwell", "numpy"))
    assert here.bytes == there.bytes == 3 * 4 * 128 * 384
    assert there.difference == 0
    assert here.bound_seconds and here.copy_seconds and here.median_seconds
    assert here.peak_then is None


@pytest.mark.sweep
@pytest.mark.slow
def test_ranges(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dim,) = [dim for info in stepwell.compile(str(tiny)).inputs for dim in info.shape if isinstance(dim, str)]
    arguments = ["ranges", str(tiny), f"--dims={dim}=1:9", "--rounds=2", "--seconds=0.001"]
    assert command.main([*arguments, "--output=ranges.json"]) == 0
    assert f"{dim}=9" in capsys.readouterr().out
    whole = json.loads(Path("ranges.json").read_text())
    (record,) = whole["models"]
    assert record["programs"] == 1 and record["compile_seconds"] > 0
    assert [figure["sizes"] for figure in record["figures"]] == [{dim: 1}, {dim: 3}, {dim: 9}]
    assert all(figure["difference"] < 1e-6 and figure["ranged_seconds"] > 0 for figure in record["figures"])
    assert all(figure["alone_compile_seconds"] > figure["alone_seconds"] for figure in record["figures"])
    assert record["dims"] == {dim: [1, 9]} and whole["threads"] == 1
    assert command.main([*arguments, "--keep=kept"]) == 0
    (kept,) = Path("kept").glob(f"*/ranges-{tiny.stem}.json")
    assert json.loads(kept.read_text())["machine"] == whole["machine"]
    assert command.main([*arguments, "--at=other=3"]) == 2
    assert "--at must give a size to each of" in capsys.readouterr().err
    assert command.main(["ranges", str(tiny)]) == 2
    assert "a model needs --dims" in capsys.readouterr().err
    assert command.main(["ranges", "--at=n=3"]) == 2
    assert "--dims and --at need a model" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.slow
def test_first_calls_at_new_sizes(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dim,) = [dim for info in stepwell.compile(str(tiny)).inputs for dim in info.shape if isinstance(dim, str)]
    sizes = [f"--at={dim}={size}" for size in (3, 5, 7)]
    assert command.main(["new-sizes", str(tiny), *sizes, "--seconds=0.001", "--output=new.json"]) == 0
    assert f"{dim}=7" in capsys.readouterr().out
    (record,) = json.loads(Path("new.json").read_text())["models"]
    assert [call["programs"] for call in record["calls"]] == [1, 2, 2]
    last = record["calls"][-1]
    assert 10 * last["ranged_seconds"] < last["alone_seconds"]
    assert command.main(["new-sizes", str(tiny), f"--at={dim}=1:3"]) == 2
    assert "--at must give sizes" in capsys.readouterr().err


@pytest.mark.sweep
@pytest.mark.slow
def test_ranges_of_the_list_end_with_a_summary(
    tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (dim,) = [dim for info in stepwell.compile(str(tiny)).inputs for dim in info.shape if isinstance(dim, str)]
    cases = [
        RangeCase(BenchModel(name, lambda folder: tiny), {dim: (1, 9)}, [{dim: 4}]) for name in ("first", "second")
    ]
    monkeypatch.setattr(range_cases, "in_ranges", lambda: cases)
    assert command.main(["ranges", "--rounds=1", "--seconds=0.001"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if "programs for all sizes" in line] == ["first", "second"]
    head = lines.index("Time in ranges / time of a program for one size")
    assert [line.split()[:2] for line in lines[head + 2 : head + 5]] == [["first", "1"], ["second", "1"], ["all", "2"]]


def test_the_lists_name_all_dimensions() -> None:
    for case in range_cases.in_ranges():
        assert len(case.sizes) == 8
        assert all(sizes.keys() == case.dims.keys() for sizes in case.sizes)


def test_sizes_are_chosen_from_the_bounds_on() -> None:
    found = ranges.chosen_sizes({"a": (1, 8), "b": (32, 960, 32), "c": 5, "d": [16, 64]})
    assert found[0] == {"a": 1, "b": 32, "c": 5, "d": 16}
    assert found[-1] == {"a": 8, "b": 960, "c": 5, "d": 64}
    assert all(sizes["b"] % 32 == 0 for sizes in found)


@pytest.mark.sweep
@pytest.mark.slow
def test_growth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "growth.json"
    assert command.main(["growth", "--layers=1,2", "--peers=", f"--output={out}"]) == 0
    assert "per further layer" in capsys.readouterr().out
    rows = Results.read(out).rows
    assert [row.case for row in rows] == ["transformer-1", "transformer-2"]
    assert all(row.cold_seconds and row.cold_cpu_seconds for row in rows)


@pytest.mark.sweep
def test_profile(quick: None, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["profile", str(tiny), "--shape=x=2x8", "--calls=3"]) == 0
    out = capsys.readouterr().out
    assert "contraction" in out
    assert "MatMul" in out
    assert "Relu" in out
    assert "nan" not in out


@pytest.mark.sweep
def test_show_compare_and_plot(quick: None, tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert command.main(["models", str(tiny), "--shape=x=2x8", *SHORT, "--peers=onnxruntime", "--output=old.json"]) == 0
    record = json.loads(Path("old.json").read_text())
    for row in record["rows"]:
        row["median_seconds"] *= 2
    Path("new.json").write_text(json.dumps(record))
    capsys.readouterr()
    assert command.main(["show", "old.json"]) == 0
    assert "onnxruntime" in capsys.readouterr().out
    assert command.main(["compare", "old.json", "old.json"]) == 0
    assert command.main(["compare", "old.json", "new.json"]) == 1
    assert "1 of 1 became slower by more than 5 %" in capsys.readouterr().out
    assert command.main(["plot", "old.json"]) == 0
    assert capsys.readouterr().out == "old.png\n"
    assert Path("old.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["models", "tiny.onnx", "--shape=x=1x8", "--peers=sliderule"], "--peers sliderule: there is no such system"),
        (["models", "tiny.onnx", "--shape=x=1x8", "--threads=0"], "'0' is not a positive number"),
        (["models", "tiny.onnx", "--shape=x=1x8", "--threads=9999"], "this process may use"),
        (["models", "tiny.onnx"], "add --shape x=1x8"),
        (["models", "tiny.onnx", "--shape=z=1"], "the model has no such input"),
        (["models", "missing.onnx"], "missing.onnx: no such file, nor one of ppocr-det"),
        (["kernels", "sorting"], "no kernel's name starts with 'sorting'"),
        (["show", "missing.json"], "missing.json: No such file or directory"),
        (["show", "broken.json"], "broken.json: not a file of results"),
    ],
)
def test_errors_are_one_line(
    tiny: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    Path("broken.json").write_text("{}")
    wrong_usage = arguments[0] != "show"
    assert command.main(arguments) == (2 if wrong_usage else 1)
    err = capsys.readouterr().err
    assert err.startswith("stepwell-bench: error: ")
    assert message in err
    assert err.count("\n") == 1


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "stepwell.bench", "--help"], capture_output=True, text=True)
    assert done.stdout.startswith("usage: stepwell-bench"), done.stderr


@pytest.mark.sweep
@pytest.mark.usefixtures("quick")
def test_figures_are_not_added_to_those_of_another_machine(tiny: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["models", str(tiny), "--shape=x=2x8", *SHORT, "--peers=", "--output=out.json", "--add"]
    assert command.main(arguments) == 0
    record = json.loads(Path("out.json").read_text())
    record["machine"]["cpu"] = "Another"
    Path("out.json").write_text(json.dumps(record))
    assert command.main(arguments) == 1
    assert "of another machine" in capsys.readouterr().err


@pytest.mark.sweep
def test_training_steps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    from stepwell.bench import training_models

    assert tuple(training_models.MODELS) == training.MODELS
    line = training_models.TrainingModel(lambda: torch.nn.Linear(3, 10), (4, 3), (4,))
    monkeypatch.setattr(training_models, "MODELS", {"line": line})
    monkeypatch.setattr(training, "MODELS", ("line",))
    assert command.main(["train", "--rounds=2", "--json"]) == 0
    rows = {row["system"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert set(rows) == {"stepwell", "torch eager"}
    assert rows["stepwell"]["loss"] == pytest.approx(rows["torch eager"]["loss"], rel=1e-4)
    assert all(row["model"] == "line 4x3" and 0 < row["step"] < 10 for row in rows.values())
    assert command.main(["train", "--rounds=1"]) == 0
    text = capsys.readouterr().out
    assert "geometric means" in text and "step of the peer / own" in text
    monkeypatch.setattr(training_curves, "MODELS", ("line",))
    assert command.main(["train", "--curves=12", "--rows=5", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert (row["model"], row["steps"]) == ("line 5x3", 12)
    assert 0 < row["last"] != row["first"] and row["deviation"] < 1e-4 and row["rounding"] < 1e-4
    assert row["is_repeatable"] and row["is_same_on_threads"]
    assert command.main(["train", "--curves=2"]) == 0
    assert "same on threads" in capsys.readouterr().out
    assert command.main(["train", "circle"]) == 1
    assert "there is no model 'circle'; there are line" in capsys.readouterr().err
