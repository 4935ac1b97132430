"""Reads the decoder of a Hugging Face folder as the tensors and settings that a GGUF file of it would have.

The package `gguf` knows the names of tensors. Weights stay mapped, except for those of other layouts: stacked experts,
fused projections by head, and matrices stored by inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...runtime import safetensors
from ...support.errors import ArtefactError
from ...support.packages import require_package
from ..errors import ModelError
from ..gguf.blocks import BlockWeight, stacked
from ..gguf.reader import GgufFile, StoredTensor
from ..json_file import read_json
from .layouts import TensorLayout, Weight
from .quantized import read_quantized
from .settings import ARCHITECTURES, settings_of

CONFIG = "config.json"
_INDEX, _SINGLE = "model.safetensors.index.json", "model.safetensors"
_KINDS = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}
_BUFFERS = (".attn.bias", ".masked_bias", ".rotary_emb.inv_freq", ".attention.bias")
_SUFFIXES = (".weight", ".bias")


def read_folder(folder: Path) -> GgufFile:
    """Reads a folder, whose weights stay mapped.

    Raises:
        ModelError: it is damaged, or holds something that is not supported.
        MissingPackageError: the package `gguf` is not installed.
    """
    require_package("gguf", folder.name, "gguf")
    config = read_json(folder / CONFIG)
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        raise ModelError(
            f"has the model type '{kind}', which is not supported; supported are {', '.join(ARCHITECTURES)}"
        )
    architecture = ARCHITECTURES[kind]
    settings = {"general.architecture": architecture, **settings_of(config, architecture)}
    layers = settings[f"{architecture}.block_count"]
    names, layout = _Names(architecture, layers), TensorLayout(config, architecture)
    found: dict[str, StoredTensor] = dict(layout.rotation_factors())
    apart: dict[str, dict[int, Weight]] = {}
    for name, array in _weights(folder, config.get("quantization_config")).items():
        if name.endswith(_BUFFERS) or (name == "lm_head.weight" and config.get("tie_word_embeddings")):
            continue
        if isinstance(array, np.ndarray) and array.dtype.name not in _KINDS:
            raise ModelError(f"the tensor '{name}' has the type {array.dtype}, which is not supported")
        for stored, read in layout.parts(name, array):
            number, whole = names.of(stored)
            if number is None:
                found[whole] = _stored(whole, read)
            else:
                apart.setdefault(whole, {})[number] = read
    for name, experts in apart.items():
        found[name] = _stored(name, _together([experts[number] for number in sorted(experts)]))
    return GgufFile(settings, found)


def weight_files(folder: Path) -> list[Path]:
    """Returns the files of the weights: those of the index, or the only one.

    Raises:
        ModelError: there is none.
    """
    if (folder / _INDEX).is_file():
        named = read_json(folder / _INDEX).get("weight_map")
        if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
            raise ModelError(f"{_INDEX} names no files")
        files = [folder / Path(name).name for name in sorted(set(named.values()))]
    else:
        files = [folder / _SINGLE]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise ModelError(f"lacks the weights {missing[0]}; weights must be safetensors")
    return files


def _weights(folder: Path, quantization: Mapping[str, Any] | None) -> Mapping[str, Weight]:
    if quantization and not isinstance(quantization, dict):
        raise ModelError("has a quantization_config that is no object")
    arrays = read_arrays(folder)
    return read_quantized(arrays, quantization) if quantization else arrays


def read_arrays(folder: Path) -> dict[str, np.ndarray]:
    """Returns the tensors of a folder, which stay mapped.

    Raises:
        ModelError: a file is missing or damaged.
    """
    found: dict[str, np.ndarray] = {}
    for path in weight_files(folder):
        try:
            found |= safetensors.view(np.memmap(path, np.uint8, mode="r"))
        except (OSError, ValueError, ArtefactError) as error:
            raise ModelError(f"{path.name} is not a valid file of safetensors: {error}") from error
    return found


def _together(experts: Sequence[Weight]) -> Weight:
    blocks = [item for item in experts if isinstance(item, BlockWeight)]
    if 0 < len(blocks) < len(experts):
        raise ModelError("has experts of which some are quantised and some are not, which is not supported")
    return stacked(blocks) if blocks else np.stack([item for item in experts if isinstance(item, np.ndarray)])


def _stored(name: str, weight: Weight) -> StoredTensor:
    kind = "blocks" if isinstance(weight, BlockWeight) else _KINDS[weight.dtype.name]
    return StoredTensor(name, kind, weight.shape, weight)


@dataclass(frozen=True)
class _Names:
    """Names of tensors in GGUF files, by those in transformers."""

    architecture: str
    layers: int

    def of(self, name: str) -> tuple[int | None, str]:
        """Returns the number of the expert that a tensor belongs to, if it is one of several, and its name in GGUF.

        Raises:
            ModelError: the name is not known.
        """
        before, mark, after = name.partition(".experts.")
        number, _, role = after.partition(".")
        is_single = bool(mark) and number.isdigit()
        plain = f"{before}.experts.{role}" if is_single else name
        for tried in (plain, plain.removeprefix("transformer."), f"model.{plain}", f"transformer.{plain}"):
            if (found := self._map.get_name(tried, _SUFFIXES)) is not None:
                return (int(number) if is_single else None), found
        raise ModelError(f"has the tensor '{name}', which is not known for a model of this type")

    @property
    def _map(self) -> Any:
        import gguf

        kind = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == self.architecture)
        return gguf.get_tensor_name_map(kind, self.layers)
