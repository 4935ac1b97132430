"""The tokenizer that a GGUF file holds, by the package `tokenizers`."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..frontend.errors import ModelError
from ..frontend.gguf.reader import GgufFile

if TYPE_CHECKING:
    from llguidance import LLTokenizer
    from tokenizers import Tokenizer

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPLITS = {"llama-bpe": _WORDS % "{1,3}", "qwen2": _WORDS % "", "default": None, "gpt-2": None}
"""Rules by which text is split into words, by the name in the file: a regular expression, or GPT-2's rule (None)."""

_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens in the file."""

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"


class TextTokenizer:
    """Converts text to tokens and back.

    Attributes:
        ends: the tokens that end a text.
        template: the source of the chat template; empty if the file has none.
    """

    def __init__(self, file: GgufFile) -> None:
        """Reads the tokenizer of a file.

        Raises:
            ModelError: it has none, or one of a kind that is not supported, or a package is not installed.
        """
        if importlib.util.find_spec("tokenizers") is None:
            raise ModelError("text needs the package tokenizers: pip install 'stepwell[lm]'")
        kind = file.setting("tokenizer.ggml.model", str)
        if kind not in ("gpt2", "llama"):
            raise ModelError(f"has a tokenizer of the kind '{kind}'; supported are gpt2 and llama")
        self._tokens: list[str] = file.setting("tokenizer.ggml.tokens", list)
        types: list[int] = file.setting("tokenizer.ggml.token_type", list, [1] * len(self._tokens))
        self._tokenizer = _byte_level(file, self._tokens) if kind == "gpt2" else _with_scores(file, self._tokens)
        self._add_special(types)
        first = file.settings.get("tokenizer.ggml.bos_token_id")
        begins = file.setting("tokenizer.ggml.add_bos_token", bool, kind == "llama")
        self._first = [first] if begins and isinstance(first, int) else []
        ends = (file.settings.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot"))
        self.ends = frozenset(end for end in ends if isinstance(end, int))
        self.template = file.setting("tokenizer.chat_template", str, "")
        self._first_text = self._tokens[first] if isinstance(first, int) and first < len(self._tokens) else ""
        self._end_text = next((self._tokens[end] for end in sorted(self.ends) if end < len(self._tokens)), "")

    def _add_special(self, types: Sequence[int]) -> None:
        from tokenizers import AddedToken

        found = [(token, kind) for token, kind in zip(self._tokens, types, strict=False)]
        control = [AddedToken(token, special=True, normalized=False) for token, kind in found if kind == _CONTROL]
        plain = [AddedToken(token, normalized=False) for token, kind in found if kind == _USER_DEFINED]
        self._tokenizer.add_special_tokens(control)
        self._tokenizer.add_tokens(plain)

    def encode(self, text: str, begins: bool = True) -> list[int]:
        """Returns the tokens of a text, in which control tokens may be spelled out.

        Args:
            text: the text.
            begins: whether to add a token for the beginning, if the model has one.
        """
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [*(self._first if begins and found[:1] != self._first else []), *found]

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without control tokens."""
        return self._tokenizer.decode(list(tokens))

    def stepwise(self) -> TokenText:
        """Returns a converter of tokens that come one by one."""
        return TokenText(self._tokenizer)

    @functools.cached_property
    def for_grammars(self) -> LLTokenizer:
        """The tokenizer in the form that grammars need; making it takes about a second for 100,000 tokens."""
        from llguidance import LLTokenizer

        return LLTokenizer(self._tokenizer.to_str(), n_vocab=len(self._tokens), eos_token=sorted(self.ends))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Returns the text that asks the model for the next message of a chat.

        Args:
            messages: each with "role" ("system", "user" or "assistant") and "content".

        Raises:
            ModelError: the file has no chat template, or it fails for these messages.
        """
        if not self.template:
            raise ModelError("has no chat template")
        if importlib.util.find_spec("jinja2") is None:
            raise ModelError("chat templates need the package jinja2: pip install 'stepwell[lm]'")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(reason: str) -> None:
            raise TemplateError(reason)

        # A template is part of an untrusted file.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = refuse
        values: dict[str, Any] = {"bos_token": self._first_text, "eos_token": self._end_text}
        try:
            template = environment.from_string(self.template)
            return template.render(messages=list(messages), add_generation_prompt=True, **values)
        except Exception as error:  # templates are code, which fails in any way
            raise ModelError(f"its chat template fails: {type(error).__name__}: {error}") from error


class TokenText:
    """Converts tokens one by one; a character is returned once all of its bytes are known."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer, self._stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def add(self, token: int) -> str:
        """Returns the text that a token completes; "" if it completes none."""
        return self._stream.step(self._tokenizer, token) or ""


def _byte_level(file: GgufFile, tokens: Sequence[str]) -> Tokenizer:
    """Makes a model of pairs of bytes, merged in the order of the file (GPT-2, Llama 3, Qwen)."""
    from tokenizers import Regex, Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    split = file.setting("tokenizer.ggml.pre", str, "default")
    if split not in _SPLITS:
        known = ", ".join(_SPLITS)
        raise ModelError(f"has a tokenizer that splits words by the rule '{split}'; supported are {known}")
    merges = [tuple(item.split(" ", 1)) for item in file.setting("tokenizer.ggml.merges", list)]
    tokenizer = Tokenizer(_made(BPE, {token: number for number, token in enumerate(tokens)}, merges))
    rule = _SPLITS[split]
    if rule is None:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        words = pre_tokenizers.Split(Regex(rule), "isolated")
        bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_of_words])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _with_scores(file: GgufFile, tokens: Sequence[str]) -> Tokenizer:
    """Makes a model of pairs of characters, merged by descending score (SentencePiece); others become bytes."""
    from tokenizers import Tokenizer, decoders, normalizers
    from tokenizers.models import BPE

    scores = file.setting("tokenizer.ggml.scores", list)
    if len(scores) != len(tokens):
        raise ModelError(f"has a damaged tokenizer: {len(tokens)} tokens, but {len(scores)} scores")
    numbers = {token: number for number, token in enumerate(tokens)}
    merges = [
        (scores[number], token[:cut], token[cut:])
        for token, number in numbers.items()
        for cut in range(1, len(token))
        if token[:cut] in numbers and token[cut:] in numbers
    ]
    merges.sort(key=lambda item: (-item[0], numbers[item[1]], numbers[item[2]]))
    pairs = [(left, right) for _, left, right in merges]
    tokenizer = Tokenizer(_made(BPE, numbers, pairs, byte_fallback=True, fuse_unk=True, unk_token=_unknown(tokens)))
    prefix = [normalizers.Prepend(_SPACE)] if file.setting("tokenizer.ggml.add_space_prefix", bool, True) else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", _SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(_SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    return tokenizer


def _unknown(tokens: Sequence[str]) -> str | None:
    return "<unk>" if "<unk>" in tokens else None


def _made(kind: Any, *given: Any, **more: Any) -> Any:
    """Makes the model of a tokenizer.

    Raises:
        ModelError: tokens and merges do not fit together.
    """
    try:
        return kind(*given, **more)
    except Exception as error:  # the package has no class of its own for errors
        raise ModelError(f"has a damaged tokenizer: {error}") from error
