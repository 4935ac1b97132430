"""Imports parts of models in Hugging Face folders as modules of stepwell ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mlir import ir

from ....dialects.dims import Dim
from ....dialects.registry import load_dialects
from ...errors import ModelError, naming
from ...imported import ImportedModel, ModelInfo
from ...json_file import read_json
from ...main_signature import module_of
from ..folder import CONFIG, read_arrays
from .mamba import MambaStep
from .part import ModelPart
from .recurrent import RecurrentStep
from .rwkv import RwkvStep
from .t5 import T5Decoder, T5Encoder
from .whisper import WhisperDecoder, WhisperEncoder

StateKind = Literal["source", "fixed"]
"""State of a text: keys and values of its tokens and of a source, or arrays of fixed size."""


@dataclass(frozen=True)
class ModelFamily:
    """The parts of the models of one type.

    Attributes:
        state: what its texts have as state.
        parts: the parts by name.
        context: names of the setting with the maximum number of tokens of a text, the first of which counts.
        default_context: that number if no setting has it.
    """

    state: StateKind
    parts: Mapping[str, type[ModelPart]] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    default_context: int = 0

    def context_of(self, config: Mapping[str, Any]) -> int:
        """Returns the maximum number of tokens of a text."""
        found = (config[name] for name in self.context if isinstance(config.get(name), int))
        return next(found, self.default_context)


_ANY_LENGTH = 1 << 20
"""Number of tokens of a text if neither the model nor its state limits it."""

FAMILIES = {
    "t5": ModelFamily("source", {"encoder": T5Encoder, "decoder": T5Decoder}, ("n_positions",), 512),
    "whisper": ModelFamily(
        "source", {"encoder": WhisperEncoder, "decoder": WhisperDecoder}, ("max_target_positions",), 448
    ),
    "mamba": ModelFamily("fixed", {"step": MambaStep}, ("max_position_embeddings",), _ANY_LENGTH),
    "rwkv": ModelFamily("fixed", {"step": RwkvStep}, ("context_length",), 1024),
}
"""The families by the model types of transformers; numbers are the defaults of their configurations there."""


def family_of(folder: Path) -> tuple[ModelFamily | None, dict[str, Any]]:
    """Returns the family of the model in a folder, None if it has no parts, and its config.

    Raises:
        ModelError: the config is missing or damaged.
    """
    config = read_json(folder / CONFIG)
    return FAMILIES.get(str(config.get("model_type"))), config


def initial_state(folder: Path) -> dict[str, float]:
    """Returns the numbers that fill parts of the state of a text without tokens; others are filled with 0."""
    family, _ = family_of(folder)
    step = family.parts["step"] if family is not None else None
    return dict(step.initial) if step is not None and issubclass(step, RecurrentStep) else {}


def describe_part(folder: Path, part: str) -> ModelInfo:
    """Returns the inputs and outputs of a part.

    Raises:
        ModelError: the folder is damaged, or has no such part.
    """
    with naming(folder.name):
        return _part(folder, part).info(folder.name)


def import_part(folder: Path, part: str, context: ir.Context, shapes: Mapping[str, Sequence[Dim]]) -> ImportedModel:
    """Imports a part.

    Args:
        folder: the folder.
        part: the name of the part.
        context: the context of the module.
        shapes: shapes for all inputs, in numbers or expressions over sizes.

    Raises:
        ModelError: the folder is damaged, or has no such part.
    """
    load_dialects(context)
    with naming(folder.name), context, ir.Location.unknown():
        found = _part(folder, part)
        info = found.info(folder.name)
        return ImportedModel(module_of(info, shapes, found.build), found.parameters, folder.name, info)


def _part(folder: Path, part: str) -> ModelPart:
    family, config = family_of(folder)
    if family is None or part not in family.parts:
        raise ModelError(f"has the model type '{config.get('model_type')}', which has no {part}")
    if config.get("quantization_config"):
        raise ModelError("has quantised weights, which are supported in plain decoders only")
    return family.parts[part](config, read_arrays(folder))
