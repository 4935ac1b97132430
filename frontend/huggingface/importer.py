"""Imports the decoder of a Hugging Face folder as a module of stepwell ops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from mlir import ir

from ...dialects.dims import Dim
from ..gguf import importer as gguf
from ..imported import ImportedModel, ModelInfo
from .folder import read_folder


def describe_model(folder: Path) -> ModelInfo:
    """Returns the inputs and outputs of the decoder in a folder.

    Raises:
        ModelError: the folder is damaged, or holds something that cannot be imported.
    """
    return gguf.describe_decoder(partial(read_folder, folder), folder.name)


def import_model(folder: Path, context: ir.Context, shapes: Mapping[str, Sequence[Dim]]) -> ImportedModel:
    """Imports the decoder in a folder; see `stepwell.frontend.gguf.importer.import_decoder`."""
    return gguf.import_decoder(partial(read_folder, folder), folder.name, context, shapes)
