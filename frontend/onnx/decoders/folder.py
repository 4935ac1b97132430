"""Folders of ONNX decoders: the file of the decoder, and the settings beside it.

ONNX Runtime GenAI writes `genai_config.json`, optimum and transformers.js write `config.json`; the files of the latter
may be in a folder `onnx`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ModelError
from ...json_file import read_json

GENAI_CONFIG, CONFIG = "genai_config.json", "config.json"
_FILES = ("decoder_model_merged.onnx", "model.onnx", "decoder_with_past_model.onnx")
_PLACES = ("", "onnx")
_PARTS = ("encoder_model.onnx", "onnx/encoder_model.onnx")


@dataclass(frozen=True)
class DecoderFolder:
    """An ONNX decoder with the settings beside it.

    Attributes:
        model: the file of the decoder.
        folder: the folder of the settings and of the tokenizer.
        context: number of tokens that the decoder was made for.
        names: names of inputs and outputs in the file, by those of `genai_config.json`.
    """

    model: Path
    folder: Path
    context: int
    names: dict[str, str]


def is_decoder_folder(folder: Path) -> bool:
    """Returns whether a folder holds an ONNX decoder instead of weights in safetensors."""
    if (folder / GENAI_CONFIG).is_file():
        return True
    has_weights = any(folder.glob("*.safetensors"))
    return not has_weights and any((folder / place / name).is_file() for place in _PLACES for name in _FILES)


def settings_files(model: Path) -> list[Path]:
    """Returns the files of settings that belong to a decoder's file."""
    places = [model.parent, model.parent.parent] if model.parent.name == _PLACES[1] else [model.parent]
    paths = [place / name for place in places for name in (GENAI_CONFIG, CONFIG)]
    return [path for path in paths if path.is_file()]


def decoder_file(folder: Path) -> Path:
    """Returns the file of the decoder in a folder.

    Raises:
        ModelError: there is none.
    """
    if (folder / GENAI_CONFIG).is_file():
        decoder = _genai_decoder(read_json(folder / GENAI_CONFIG))
        name = decoder.get("filename")
        if not isinstance(name, str) or not (folder / Path(name).name).is_file():
            raise ModelError(f"{GENAI_CONFIG} names the decoder {name!r}, which the folder lacks")
        return folder / Path(name).name
    if any((folder / part).is_file() for part in _PARTS):
        raise ModelError(
            "holds an encoder-decoder in ONNX, of which only decoders are supported: give the folder with safetensors"
        )
    for place in _PLACES:
        for name in _FILES:
            if (folder / place / name).is_file():
                return folder / place / name
    raise ModelError(f"lacks a decoder: {', '.join(_FILES)}")


def read_decoder_folder(path: Path) -> DecoderFolder:
    """Reads the settings of an ONNX decoder.

    Args:
        path: the folder, or the file of the decoder in it.

    Raises:
        ModelError: a file is missing or damaged.
    """
    model = decoder_file(path) if path.is_dir() else path
    found = settings_files(model)
    if not found:
        raise ModelError(
            f"lacks {GENAI_CONFIG} or {CONFIG} beside {model.name}, which say how long texts may be: copy them there"
        )
    settings, folder = read_json(found[0]), found[0].parent
    if found[0].name == CONFIG:
        return DecoderFolder(model, folder, _length(settings, found[0]), {})
    decoder, names = _genai_decoder(settings), dict[str, str]()
    for key in ("inputs", "outputs"):
        names |= {role: name for role, name in (decoder.get(key) or {}).items() if isinstance(name, str)}
    return DecoderFolder(model, folder, _length(settings["model"], found[0]), names)


def _genai_decoder(settings: dict[str, Any]) -> dict[str, Any]:
    model = settings.get("model")
    decoder = model.get("decoder") if isinstance(model, dict) else None
    if not isinstance(decoder, dict):
        raise ModelError(f"{GENAI_CONFIG} describes no decoder (model.decoder)")
    if isinstance(decoder.get("pipeline"), list):
        raise ModelError(f"{GENAI_CONFIG} describes a decoder in several files (pipeline), which is not supported")
    return decoder


def _length(settings: dict[str, Any], path: Path) -> int:
    names = ("context_length", "max_position_embeddings", "n_positions", "seq_length", "max_seq_len")
    nested = settings.get("text_config")
    for place in (settings, nested if isinstance(nested, dict) else {}):
        for name in names:
            if isinstance(place.get(name), int) and place[name] > 1:
                return place[name]
    raise ModelError(f"{path.name} does not say how long texts may be: add '{names[path.name == CONFIG]}' to it")
