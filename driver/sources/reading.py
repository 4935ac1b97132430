"""Finds the format of a model, whether it is given as a file, as bytes or as an object."""

from __future__ import annotations

import importlib
import os
import pkgutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...passes.infra.entry_points import load_entry_points
from ...support.errors import OptionError
from ...support.formats import add_format, format_of
from ...support.large_file import LargeFile
from .huggingface import HuggingFaceSource
from .onnx import OnnxSource
from .onnx_decoder import OnnxDecoderSource
from .plugin import PluginSource
from .source import ModelSource, SourceError
from .torch import TorchSource

# Smaller files are read into memory.
_LARGE_BYTES = 16 << 20


def read_source(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> ModelSource:
    """Accepts a path, bytes, an `onnx.ModelProto`, an MLIR module, or a module or exported program of torch.

    Args:
        model: the model; a source is returned as it is.
        args: example arguments with which a module of torch is exported.
        kwargs: example keyword arguments of it.
        dynamic_shapes: the dimensions of these arguments that may vary, as `torch.export.export` takes them.

    Raises:
        SourceError: it is none of them, or the file cannot be read.
        ModelError: the module cannot be exported.
        OptionError: example arguments are given for a model that is not of torch.
    """
    load_entry_points()
    if args is not None or kwargs is not None or dynamic_shapes is not None:
        source = TorchSource.export(model, args, kwargs, dynamic_shapes)
        if source is None:
            raise OptionError("args, kwargs and dynamic_shapes are for modules of torch; options are given by name")
        return source
    if isinstance(model, ModelSource):
        return model
    if isinstance(model, str | os.PathLike):
        return _read_file(Path(model))
    if isinstance(model, bytes | bytearray | memoryview):
        data = bytes(model)
        return next((kind(data) for kind in _KINDS.values() if kind.recognises(data)), OnnxSource(data))
    for kind in _KINDS.values():
        source = kind.of_object(model)
        if source is not None:
            return source
    raise SourceError(
        "a model is a path, bytes, an onnx.ModelProto, an MLIR module, or a module or exported program of torch, "
        f"but this is of type {type(model).__name__}"
    )


def source_of(kind: str, contents: bytes | LargeFile, **more: Any) -> ModelSource:
    """Returns the source of a model of a format; `more` are further attributes."""
    known = _KINDS.get(kind)
    return PluginSource(contents, frontend=kind, **more) if known is None else known(contents, **more)


def _built_in() -> dict[str, type[ModelSource]]:
    """Returns the classes with a `kind` of their own in the modules of this package, by this name."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if f"{__package__}.{module.name}" != __name__:
            importlib.import_module(f"{__package__}.{module.name}")
    found = {kind.kind: kind for kind in _subclasses(ModelSource) if isinstance(kind.kind, str) and kind.kind}
    for name, kind in found.items():
        add_format(name, kind.suffixes)
    return found


def _subclasses(kind: type[ModelSource]) -> Iterator[type[ModelSource]]:
    for found in kind.__subclasses__():
        yield found
        yield from _subclasses(found)


_KINDS = _built_in()
"""The formats that are built in."""


def _read_file(path: Path) -> ModelSource:
    try:
        if path.is_dir():
            from ...frontend.onnx.decoders.folder import is_decoder_folder

            if is_decoder_folder(path):
                return OnnxDecoderSource.at(path)
            return HuggingFaceSource((path / "config.json").read_bytes(), path)
        contents = LargeFile.at(path)
        if contents.size < _LARGE_BYTES:
            contents = path.read_bytes()
    except OSError as error:
        lacks_config = path.is_dir() and isinstance(error, FileNotFoundError)
        reason = "a directory without config.json is no model" if lacks_config else error.strerror or error
        raise SourceError(f"{path}: {reason}") from error
    except ValueError as error:  # a zero byte in the name
        raise SourceError(f"{path!r}: {error}") from error
    if path.suffix == ".stw":
        raise SourceError(f"{path}: an artefact is compiled already; stepwell-run runs it, stepwell-inspect shows it")
    return source_of(format_of(path), contents, path=path)
