"""`stepwell-bench torch`: systems on modules of torch, and the list of modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stepwell.bench import command, measure
from stepwell.bench.record import Results, Row
from stepwell.bench.turns import SystemFailure

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from stepwell.bench.torch_models.catalog import MODELS, TorchModel  # noqa: E402


@pytest.mark.sweep
@pytest.mark.slow
def test_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "torch.json"
    short = ["--threads=1", "--rounds=2", "--seconds=0.001", "--peers=eager"]
    assert command.main(["torch", "one-input", *short, "-o", str(path)]) == 0
    assert "of it backend" in capsys.readouterr().out
    rows = {row.system: row for row in Results.read(path).rows}
    here, eager = rows["stepwell"], rows["eager"]
    assert here.median_seconds and here.memory_bytes and eager.difference == 0
    assert here.first_call_seconds and here.second_call_seconds and eager.backend_seconds is None
    assert here.second_backend_seconds is not None and here.backend_seconds is not None
    assert here.second_backend_seconds < here.backend_seconds, "the second process takes code from the cache"


def test_a_long_list_continues_where_it_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def rows(name: str, plan: measure.BenchPlan, steps: object) -> Iterator[Row]:
        if name == "temporal":
            raise SystemFailure("the machine stopped")
        measured.append(name)
        for system in plan.systems:
            yield Row(name, "torch", {}, 1, system).timed([1.0 if system == "stepwell" else 0.5])

    monkeypatch.setattr(measure, "measure_module", rows)
    path = tmp_path / "torch.json"
    command_line = ["torch", "gru", "temporal", "one-input", "--threads=1", "--peers=eager", "-o", str(path)]
    assert command.main(command_line) == 1
    assert {row.case for row in Results.read(path).rows} == {"gru"}, "each module is written when it is measured"
    monkeypatch.setattr(
        measure, "measure_module", lambda *given: rows(given[0].replace("temporal", "lstm"), *given[1:])
    )
    capsys.readouterr()
    assert command.main([*command_line, "--resume"]) == 0
    assert measured == ["gru", "lstm", "one-input"]
    assert {row.case for row in Results.read(path).rows} == {"gru", "lstm", "one-input"}
    assert "gru, lstm, one-input" in capsys.readouterr().out, "the tables are those of all modules, here all slower"


def test_an_unknown_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["torch", "abacus"]) == 2
    assert "no module's name starts with 'abacus'" in capsys.readouterr().err


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from stepwell.bench.torch_models import catalog

    made = catalog._of_package("no_such_package", "create", "net", 8)
    with pytest.raises(catalog.MissingModule, match="pip install --no-deps no_such_package"):
        made.created()


@pytest.mark.parametrize(
    "name", ["lstm", "u-net", "conformer", "recommender", "200-weights", "mlp-mixer", "temporal", "generator"]
)
def test_plain_modules(name: str) -> None:
    model: TorchModel = MODELS[name]
    module, inputs = model.created()
    with torch.no_grad():
        made = module(**inputs)
    assert torch.isfinite(made).all()
