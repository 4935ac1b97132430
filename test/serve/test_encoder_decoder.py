"""The server with an encoder-decoder: prompts of requests are what texts are about."""

from __future__ import annotations

from pathlib import Path

import pytest
import stepwell

for package in ("torch", "transformers", "tokenizers", "starlette", "prometheus_client", "httpx2"):
    pytest.importorskip(package, reason=f"the package {package} is not installed")

from starlette.testclient import TestClient  # noqa: E402
from stepwell.lm import Engine  # noqa: E402
from stepwell.serve.server import ServerOptions, TextServer  # noqa: E402
from stepwell.tools import serve  # noqa: E402

from ..lm.test_encoder_decoder import T5, WHISPER, written  # noqa: E402


def test_completions_of_t5(tmp_path: Path):
    written("t5", T5, tmp_path)
    model = stepwell.lm.load_encoder_decoder(tmp_path, threads=1, sequences=2)
    with Engine(model) as engine, TestClient(TextServer(model, engine, ServerOptions("t5")).app) as client:
        wanted = [model.generate(text, most=12) for text in ("Once", "The other text")]
        given = {"prompt": ["Once", "The other text"], "max_tokens": 12, "temperature": 0}
        reply = client.post("/v1/completions", json=given).json()
        assert [choice["text"] for choice in reply["choices"]] == wanted
        tokens = model.tokenizer.encode_whole("Once")
        reply = client.post("/v1/completions", json={**given, "prompt": tokens}).json()
        assert reply["choices"][0]["text"] == wanted[0]
        reply = client.post("/v1/completions", json={**given, "prompt": [1] * 49})
        assert (reply.status_code, "must have 1 to 48" in reply.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("t5", ["--cache", "int8"], "--cache does not apply to model, an encoder-decoder"),
        ("t5", ["--batch-invariant"], "--batch-invariant does not apply to model, an encoder-decoder"),
        pytest.param(
            "whisper", [], "model writes about spectra of speech, which requests cannot have", marks=pytest.mark.sweep
        ),
    ],
)
def test_models_that_cannot_be_served(
    kind: str, options: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "model"
    folder.mkdir()
    written(kind, T5 if kind == "t5" else WHISPER, folder)
    assert serve.main([str(folder), "--port", "0", "--quiet", *options]) != 0
    assert message in capsys.readouterr().err
