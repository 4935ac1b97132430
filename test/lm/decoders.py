"""A small decoder with random weights, and the settings of its tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
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


def written(folder: Path, layers: int = 1, names: Mapping[int, str] | None = None) -> Path:
    """Writes the decoder to a folder, some of its tokens with other texts, and returns its path."""
    tokens = [(names or {}).get(token, text) for token, text in enumerate(TOKENIZER["tokenizer.ggml.tokens"])]
    settings = {**TOKENIZER, "tokenizer.ggml.tokens": tokens}
    path = folder / "model.gguf"
    config = {**SMALL, "layers": layers}
    write_decoder(path, GgufConfig(kind="F32", vocabulary=264, settings=settings, **config))
    return path
