"""`stepwell-bench torch`: systems on modules of torch, and the list of modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from stepwell.bench import command
from stepwell.bench.record import Results

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


def test_an_unknown_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["torch", "abacus"]) == 2
    assert "no module's name starts with 'abacus'" in capsys.readouterr().err


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from stepwell.bench.torch_models import catalog

    made = catalog._of_package("no_such_package", "create", "net", 8)
    with pytest.raises(catalog.MissingModule, match="pip install --no-deps no_such_package"):
        made.created()


@pytest.mark.parametrize("name", ["lstm", "u-net", "conformer", "recommender", "200-weights"])
def test_plain_modules(name: str) -> None:
    model: TorchModel = MODELS[name]
    module, inputs = model.created()
    with torch.no_grad():
        made = module(**inputs)
    assert torch.isfinite(made).all()
