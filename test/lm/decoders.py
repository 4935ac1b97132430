"""A small decoder with random weights, and the settings of its tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder  # noqa: E402

TOKENIZER = {
    **byte_tokenizer("<|user|>"),
    "tokenizer.chat_template": "{% for m in messages %}<|user|>{{ m.content }}\n{% endfor %}",
}
SMALL = {"layers": 1, "hidden": 64, "heads": 4, "key_heads": 2, "intermediate": 96, "context": 64}


def written(folder: Path, layers: int = 1) -> Path:
    """Writes the decoder to a folder, and returns its path."""
    path = folder / "model.gguf"
    config = {**SMALL, "layers": layers}
    write_decoder(path, GgufConfig(kind="F32", vocabulary=264, settings=TOKENIZER, **config))
    return path
