"""A small decoder with random weights, the settings of its tokenizer, and a single attention."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

import pytest

gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder  # noqa: E402

TOKENIZER = {
    **byte_tokenizer("<|user|>"),
    "tokenizer.chat_template": "{% for m in messages %}<|user|>{{ m.content }}\n{% endfor %}",
}
SMALL = {"layers": 1, "hidden": 64, "heads": 4, "key_heads": 2, "intermediate": 96, "context": 64}


def written(folder: Path, layers: int = 1, names: Mapping[int, str] | None = None, kind: str = "F32") -> Path:
    """Writes the decoder to a folder, some of its tokens with other texts, and returns its path."""
    tokens = [(names or {}).get(token, text) for token, text in enumerate(TOKENIZER["tokenizer.ggml.tokens"])]
    settings = {**TOKENIZER, "tokenizer.ggml.tokens": tokens}
    path = folder / "model.gguf"
    config = {**SMALL, "layers": layers}
    write_decoder(path, GgufConfig(kind=kind, vocabulary=264, settings=settings, **config))
    return path


def step(count: int, depth: int) -> str:
    """Returns a model that appends keys and values of `count` tokens, and attends to all of them."""
    kinds = {
        "Q": f'tensor<?x4x{count}x{depth}xf32, ["batch", 4, {count}, {depth}]>',
        "NEW": f'tensor<?x2x{count}x{depth}xf32, ["batch", 2, {count}, {depth}]>',
        "PAST": f'tensor<?x2x?x{depth}xf32, ["batch", 2, "past", {depth}]>',
        "ALL": f'tensor<?x2x?x{depth}xf32, ["batch", 2, "past + {count}", {depth}]>',
        "MASK": f'tensor<?x1x{count}x?xi1, ["batch", 1, {count}, "past + {count}"]>',
        "STARTS": 'tensor<?xi64, ["batch"]>',
    }
    text = """
    func.func @main(
        %q: $Q {stepwell.name = "q"}, %k: $NEW {stepwell.name = "k"}, %v: $NEW {stepwell.name = "v"},
        %keys: $PAST {stepwell.name = "keys"}, %values: $PAST {stepwell.name = "values"},
        %mask: $MASK {stepwell.name = "mask"}, %starts: $STARTS {stepwell.name = "starts"}) -> ($Q, $ALL, $ALL) {
      %0 = "stepwell.concat"(%keys, %k) {axis = 2 : i64} : ($PAST, $NEW) -> $ALL
      %1 = "stepwell.concat"(%values, %v) {axis = 2 : i64} : ($PAST, $NEW) -> $ALL
      %2 = "stepwell.attention"(%q, %0, %1, %mask) {scale = 0.25 : f64, zero_empty = true}
        : ($Q, $ALL, $ALL, $MASK) -> $Q
      return %2, %0, %1 : $Q, $ALL, $ALL
    }
    """
    return Template(text).substitute(kinds)
