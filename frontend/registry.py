"""Formats of models that other packages import: `register_frontend` makes a format known by its file suffixes.

    class LayersFrontend:
        suffixes = (".layers",)

        def import_model(self, contents: bytes, name: str, context: ir.Context) -> ImportedModel: ...

    register_frontend("layers", LayersFrontend())

ONNX, MLIR, PyTorch, GGUF and folders of Hugging Face are built in.
"""

from __future__ import annotations

from typing import Protocol

from mlir import ir

from ..dialects.registry import load_dialects
from ..dialects.verifier import verify
from ..support.formats import add_format
from .errors import ModelError
from .imported import ImportedModel


class Frontend(Protocol):
    """The importer of one format."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The endings of its files' names, such as ".layers"."""
        ...

    def import_model(self, contents: bytes, name: str, context: ir.Context) -> ImportedModel:
        """Imports a model as a module with a function `@main` of stepwell ops.

        Args:
            contents: the bytes of the file.
            name: the model's name in messages.
            context: the context of the module, which is the current one; all dialects are loaded.

        Raises:
            ModelError: the file is damaged, or has something that cannot be imported; names it.
        """
        ...


_FRONTENDS: dict[str, Frontend] = {}


def register_frontend(name: str, frontend: Frontend) -> None:
    """Makes a format known.

    Raises:
        ValueError: another frontend has the name or one of the suffixes.
    """
    add_format(name, frontend.suffixes)
    _FRONTENDS[name] = frontend


def import_by(kind: str, contents: bytes, name: str, context: ir.Context) -> ImportedModel:
    """Imports a model by the registered frontend of its format, and verifies the module.

    Raises:
        ModelError: no loaded package imports the format, its frontend fails, or the module is not valid.
    """
    importer = _FRONTENDS.get(kind)
    if importer is None:
        raise ModelError(f"no installed package imports models of the format '{kind}'", model=name)
    load_dialects(context)
    try:
        with context, ir.Location.unknown():
            imported = importer.import_model(contents, name, context)
            verify(imported.module)
    except ModelError as error:
        raise error.at(model=name) from None
    except Exception as error:  # the code of another package may raise anything
        raise ModelError(f"the frontend '{kind}' failed: {type(error).__name__}: {error}", model=name) from error
    return imported
