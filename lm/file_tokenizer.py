"""The tokenizer that a GGUF file holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..frontend.errors import ModelError
from ..frontend.gguf.reader import GgufFile
from ..support.packages import require_package
from .tokenizer import TextTokenizer

if TYPE_CHECKING:
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


def tokenizer_of_file(file: GgufFile) -> TextTokenizer:
    """Reads the tokenizer of a file.

    Raises:
        ModelError: it has none, or one of a kind that is not supported.
        MissingPackageError: the package `tokenizers` is not installed.
    """
    require_package("tokenizers", "text", "lm")
    kind = file.setting("tokenizer.ggml.model", str)
    if kind not in ("gpt2", "llama"):
        raise ModelError(f"has a tokenizer of the kind '{kind}'; supported are gpt2 and llama")
    tokens: list[str] = file.setting("tokenizer.ggml.tokens", list)
    types: list[int] = file.setting("tokenizer.ggml.token_type", list, [1] * len(tokens))
    tokenizer = _byte_level(file, tokens) if kind == "gpt2" else _with_scores(file, tokens)
    _add_special(tokenizer, tokens, types)
    first = file.settings.get("tokenizer.ggml.bos_token_id")
    begins = file.setting("tokenizer.ggml.add_bos_token", bool, kind == "llama")
    ends = (file.settings.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot"))
    known = sorted({end for end in ends if isinstance(end, int)})
    has_first = isinstance(first, int)
    texts = {
        "bos_token": tokens[first] if has_first and first < len(tokens) else "",
        "eos_token": next((tokens[end] for end in known if end < len(tokens)), ""),
    }
    template = file.setting("tokenizer.chat_template", str, "")
    return TextTokenizer(tokenizer, len(tokens), [first] if begins and has_first else [], known, template, texts)


def _add_special(tokenizer: Tokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    from tokenizers import AddedToken

    found = [(token, kind) for token, kind in zip(tokens, types, strict=False)]
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token, kind in found if kind == _CONTROL]
    )
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token, kind in found if kind == _USER_DEFINED])


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
    except Exception as error:  # the package raises plain exceptions
        raise ModelError(f"has a damaged tokenizer: {error}") from error
