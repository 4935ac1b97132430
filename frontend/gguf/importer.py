"""Imports the decoder of a GGUF file as a module of stepwell ops."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mlir import ir

from ...dialects.dims import Dim
from ...dialects.registry import load_dialects
from ..errors import naming
from ..imported import ImportedModel, ModelInfo
from ..main_signature import module_of
from .architectures import DecoderSizes
from .decoder import DecoderBuilder, info_of
from .reader import GgufFile, read_gguf


def describe_model(source: Path | bytes, name: str) -> ModelInfo:
    """Returns the inputs and outputs of the decoder in a file.

    Raises:
        ModelError: the file is damaged, or holds something that cannot be imported.
    """
    return describe_decoder(lambda: _read(source), name)


def import_model(
    source: Path | bytes, name: str, context: ir.Context, shapes: Mapping[str, Sequence[Dim]]
) -> ImportedModel:
    """Imports the decoder in a file; see `import_decoder`."""
    return import_decoder(lambda: _read(source), name, context, shapes)


def describe_decoder(read: Callable[[], GgufFile], name: str) -> ModelInfo:
    """Returns the inputs and outputs of a decoder that `read` returns.

    Raises:
        ModelError: it is damaged, or holds something that cannot be imported.
    """
    with naming(name):
        return info_of(DecoderSizes.of(read()), name)


def import_decoder(
    read: Callable[[], GgufFile], name: str, context: ir.Context, shapes: Mapping[str, Sequence[Dim]]
) -> ImportedModel:
    """Imports a decoder.

    Args:
        read: returns its settings and tensors.
        name: the model's name in messages.
        context: the context of the module.
        shapes: shapes for all inputs, in numbers or expressions over sizes; a symbol bound by one is bound for all.

    Raises:
        ModelError: it is damaged, or holds something that cannot be imported.
        NeedsShapes: a shape is missing.
    """
    load_dialects(context)
    with naming(name), context, ir.Location.unknown():
        return _imported(read(), name, shapes)


def _imported(file: GgufFile, name: str, shapes: Mapping[str, Sequence[Dim]]) -> ImportedModel:
    config = DecoderSizes.of(file)
    info, builder = info_of(config, name), DecoderBuilder(file, config)
    module = module_of(info, shapes, builder.step)
    return ImportedModel(module, builder.parameters, name, info)


def _read(source: Path | bytes) -> GgufFile:
    if isinstance(source, Path):
        return read_gguf(source)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(source)
        file.flush()
        return read_gguf(Path(file.name))
