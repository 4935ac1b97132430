"""Tokenizers with scores merge as SentencePiece does; damaged ones are errors."""

from __future__ import annotations

from typing import Any

import pytest
import stepwell

pytest.importorskip("tokenizers", reason="the package tokenizers is not installed")

from stepwell.frontend.gguf.reader import GgufFile
from stepwell.lm.file_tokenizer import tokenizer_of_file
from stepwell.lm.tokenizer import TextTokenizer

BYTES = [f"<0x{number:02X}>" for number in range(256)]
WORDS = {"\u2581": -9.0, "a": -9.0, "b": -9.0, "ab": -1.0, "\u2581a": -2.0, "\u2581ab": -3.0, "aa": -4.0}
SETTINGS: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *BYTES, *WORDS],
    "tokenizer.ggml.scores": [0.0] * 259 + list(WORDS.values()),
    "tokenizer.ggml.token_type": [2, 3, 3] + [6] * 256 + [1] * len(WORDS),
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
}


def _pieces(tokenizer: TextTokenizer, text: str) -> list[str]:
    return [SETTINGS["tokenizer.ggml.tokens"][number] for number in tokenizer.encode(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab ab", ["\u2581ab", "\u2581ab"]),
        ("aab", ["\u2581a", "ab"]),
        ("aaa", ["\u2581a", "aa"]),
        ("a\u00e9", ["\u2581a", "<0xC3>", "<0xA9>"]),
        ("a</s>", ["\u2581a", "</s>"]),
    ],
)
def test_pairs_of_high_scores_are_merged_first(text: str, pieces: list[str]):
    tokenizer = tokenizer_of_file(GgufFile(SETTINGS, {}))
    assert _pieces(tokenizer, text) == ["<s>", *pieces]
    assert tokenizer.decode(tokenizer.encode(text)) == text.removesuffix("</s>")
    assert tokenizer.ends == {2}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tokenizer.ggml.model": "bert"}, "a tokenizer of the kind 'bert'"),
        ({"tokenizer.ggml.tokens": 3}, "'tokenizer.ggml.tokens' is 3, and must be of type list"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.merges": ["x y"]}, "has a damaged tokenizer"),
        ({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "tekken"}, "by the rule 'tekken'"),
        ({"tokenizer.ggml.scores": [0.0]}, "has a damaged tokenizer"),
    ],
)
def test_what_is_not_supported_or_damaged(changed: dict[str, Any], message: str):
    with pytest.raises(stepwell.ModelError, match=message):
        tokenizer_of_file(GgufFile({**SETTINGS, **changed}, {}))


def test_a_template_cannot_leave_its_sandbox():
    source = "{{ messages.__class__.__mro__ }}{{ raise_exception('no') }}"
    tokenizer = tokenizer_of_file(GgufFile({**SETTINGS, "tokenizer.chat_template": source}, {}))
    with pytest.raises(stepwell.ModelError, match=r"its chat template fails: (SecurityError|TemplateError)"):
        tokenizer.chat([{"role": "user", "content": "x"}])
