"""Benchmarks of language models."""

from __future__ import annotations

from pathlib import Path

from stepwell.bench import language
from stepwell.bench.gguf_decoder import GgufConfig, byte_tokenizer, write_decoder
from stepwell.lm import load


def test_steps_of_several_texts_go_on_when_the_context_is_full(tmp_path: Path) -> None:
    path, sizes = tmp_path / "decoder.gguf", {"hidden": 64, "intermediate": 64, "vocabulary": 300}
    write_decoder(path, GgufConfig(layers=1, heads=2, key_heads=1, context=64, settings=byte_tokenizer(), **sizes))
    model = load(path, context=24, threads=1, sequences=2)
    step = language._steps(model, list(range(3, 11)), 2)
    for _ in range(40):
        step()
