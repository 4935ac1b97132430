"""`stepwell-run --kld`: the distance of a language model from its original, as a table and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

for package in ("gguf", "tokenizers"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder  # noqa: E402
from stepwell.tools import run  # noqa: E402

SIZES = {"layers": 1, "hidden": 32, "heads": 2, "key_heads": 1, "intermediate": 32, "context": 64}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same weights in two formats, and a text."""
    folder = tmp_path_factory.mktemp("divergence")
    for kind in ("F32", "Q4_0"):
        write_decoder(
            folder / f"{kind}.gguf", GgufConfig(kind=kind, vocabulary=264, settings=byte_tokenizer(), **SIZES)
        )
    (folder / "text.txt").write_text("The well has ninety steps.")
    return folder


def test_figures(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--kld", str(folder / "text.txt"), "--original", str(folder / "F32.gguf"), "--threads=1"]
    assert run.main([str(folder / "Q4_0.gguf"), *given, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1 and 0 < found["mean"] <= found["high"] <= found["greatest"]
    assert run.main([str(folder / "Q4_0.gguf"), *given]) == 0
    assert f"{found['mean']:.5f}" in capsys.readouterr().out
    assert run.main([str(folder / "F32.gguf"), *given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mean"] == 0


def test_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(folder / "F32.gguf")
    assert run.main([model, "--kld", str(folder / "text.txt")]) == 2
    assert "--kld TEXT.txt and --original MODEL are given together" in capsys.readouterr().err
    assert run.main([model, "--kld", str(folder / "none.txt"), "--original", model]) == 2
    assert "none.txt: No such file" in capsys.readouterr().err.replace("[Errno 2] ", "")
