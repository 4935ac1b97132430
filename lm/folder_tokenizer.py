"""The tokenizer of a Hugging Face folder: `tokenizer.json`, and the special tokens that other files define."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..frontend.errors import ModelError
from ..frontend.huggingface.folder import CONFIG
from ..frontend.json_file import read_json
from ..support.packages import require_package
from .tokenizer import TextTokenizer

GENERATION = "generation_config.json"
_TOKENIZER, _SETTINGS = "tokenizer.json", "tokenizer_config.json"
_TEMPLATE = "chat_template.jinja"
_NAMES = ("bos_token", "eos_token", "unk_token", "pad_token")


def tokenizer_of_folder(folder: Path) -> TextTokenizer:
    """Reads the tokenizer of a folder.

    Raises:
        ModelError: it has none, or a damaged one.
        MissingPackageError: the package `tokenizers` is not installed.
    """
    require_package("tokenizers", "text", "lm")
    from tokenizers import Tokenizer

    if not (folder / _TOKENIZER).is_file():
        raise ModelError(f"lacks {_TOKENIZER}")
    try:
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    except Exception as error:  # the package raises plain exceptions
        raise ModelError(f"has a damaged {_TOKENIZER}: {error}") from error
    settings, config, generation = (_read(folder / name) for name in (_SETTINGS, CONFIG, GENERATION))
    texts = {name: _text(settings.get(name)) for name in _NAMES}
    ends = {end for record in (config, generation) for end in _numbers(record.get("eos_token_id"))}
    named = tokenizer.token_to_id(texts["eos_token"]) if texts["eos_token"] else None
    ends |= {named} if named is not None else set()
    count = max(tokenizer.get_vocab_size(with_added_tokens=True), 1 + max(ends, default=0))
    template = _template(folder, settings)
    return TextTokenizer(tokenizer, count, _first(tokenizer, texts["bos_token"]), sorted(ends), template, texts)


def _first(tokenizer: Any, text: str) -> list[int]:
    """Returns the token that the tokenizer puts before a text, if any."""
    number = tokenizer.token_to_id(text) if text else None
    added = tokenizer.encode("", add_special_tokens=True).ids
    return [number] if number is not None and added[:1] == [number] else []


def _template(folder: Path, settings: Mapping[str, Any]) -> str:
    """Returns the source of the chat template, of the default one if there are several."""
    if (folder / _TEMPLATE).is_file():
        return (folder / _TEMPLATE).read_text(encoding="utf-8")
    found = settings.get("chat_template") or ""
    if isinstance(found, list):
        found = next((item.get("template") for item in found if item.get("name") == "default"), "")
    if not isinstance(found, str):
        raise ModelError(f"{_SETTINGS} has a chat template that is no text")
    return found


def _read(path: Path) -> dict[str, Any]:
    return read_json(path) if path.is_file() else {}


def _text(value: Any) -> str:
    found = value.get("content", "") if isinstance(value, dict) else value
    return found if isinstance(found, str) else ""


def _numbers(value: Any) -> list[int]:
    return [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, int)]
