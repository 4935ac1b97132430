"""The source of a model: its bytes, their fingerprint, and the model's interface, in any format."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ..passes.infra.entry_points import load_entry_points
from ..runtime.artefact import store
from ..runtime.cache.cache import Cache, default_cache
from ..runtime.cache.keys import key_of
from ..runtime.program import ANY_RANK, Shape, TensorInfo
from ..support.errors import StepwellError
from ..support.formats import format_of
from ..support.large_file import LargeFile
from ..support.packages import require_package
from ..support.short_repr import short_repr

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from ..frontend.imported import ImportedModel, ValueInfo
    from ..frontend.onnx.reading.model import Model
    from ..frontend.torch.live import LiveProgram


# Smaller files are read into memory.
_LARGE_BYTES = 16 << 20
# Approximate length of an op in the text of a module.
_OP_BYTES = 100


class SourceError(StepwellError):
    """Raised if the argument is not a model, or cannot be read."""


class Importable(Protocol):
    """A model, or a subgraph of one, that can be imported as a module."""

    @property
    def size(self) -> int:
        """Approximate number of ops, including weights.

        Raises:
            ModelError: the model cannot be read.
        """
        ...

    def import_into(
        self,
        context: ir.Context,
        shapes: Mapping[str, Shape],
        contents: Mapping[str, np.ndarray],
    ) -> ImportedModel:
        """See `ModelSource.import_into`."""
        ...


@short_repr
@dataclass(frozen=True)
class ModelSource:
    """A model before it is imported.

    Attributes:
        kind: "onnx", "mlir", "torch", "gguf", "huggingface", or the name of another package's frontend.
        contents: the file's bytes, or the text of a module; for a large file its location. Empty for a `program`.
        path: the file or folder; None if the model was given in memory.
        cache: stores the fingerprints of large files, so that they need not be read again.
        checked: which data is checked, as in `Options`.
        program: a program of torch in memory.
        target: the name of the target that the model is compiled for.
        keeps_weights: whether weights of floating point are parameters, however small, so that they can be trained.
    """

    kind: str
    contents: bytes | LargeFile
    path: Path | None = None
    cache: Cache | None = None
    checked: bool | Literal["inputs"] = "inputs"
    program: LiveProgram | None = None
    target: str = "cpu"
    keeps_weights: bool = False

    @staticmethod
    def read(model: Any) -> ModelSource:
        """Accepts a path, bytes, an `onnx.ModelProto`, an MLIR module, or a program that torch exported.

        Raises:
            SourceError: it is none of them, or the file cannot be read.
        """
        load_entry_points()
        if isinstance(model, str | os.PathLike):
            path = Path(model)
            try:
                if path.is_dir():
                    return ModelSource("huggingface", (path / "config.json").read_bytes(), path)
                contents = LargeFile.at(path)
                if contents.size < _LARGE_BYTES:
                    contents = path.read_bytes()
            except OSError as error:
                lacks_config = path.is_dir() and isinstance(error, FileNotFoundError)
                reason = "a directory without config.json is no model" if lacks_config else error.strerror or error
                raise SourceError(f"{path}: {reason}") from error
            except ValueError as error:  # a zero byte in the name
                raise SourceError(f"{path!r}: {error}") from error
            return ModelSource(format_of(path), contents, path)
        if isinstance(model, bytes | bytearray | memoryview):
            data = bytes(model)
            return ModelSource(_format_of(data), data)
        program = model if hasattr(model, "exported") else torch_program(model)
        if program is not None:
            return ModelSource("torch", b"", program=program)
        if hasattr(model, "SerializeToString"):
            return ModelSource("onnx", model.SerializeToString())
        if hasattr(model, "operation"):
            return ModelSource("mlir", model.operation.get_asm(enable_debug_info=True).encode())
        raise SourceError(
            "a model is a path, bytes, an onnx.ModelProto, an MLIR module, or a module or exported program of torch, "
            f"but this is of type {type(model).__name__}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the contents; a model with side files is pickled as its path, and read from there."""
        path = None if self.is_whole else self.path
        return _unpickled, (
            self.kind,
            self.contents,
            path,
            self.cache is not None,
            self.checked,
            self.program,
            self.target,
        )

    @property
    def counts_elements(self) -> bool:
        """True if the target has code for ops whose number of results depends on data."""
        from ..targets.registry import backend_of  # loads MLIR

        return backend_of(self.target).counts_elements

    @property
    def data(self) -> bytes:
        """The file's bytes, or the text of a module."""
        return self.contents.read() if isinstance(self.contents, LargeFile) else self.contents

    @property
    def name(self) -> str:
        """The model's name in messages."""
        if self.program is not None:
            return self.program.name
        return self.path.name if self.path else "model"

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest that identifies this model; side files count by name, size and modification time."""
        if self.kind == "torch":
            require_package("torch", self.name, "torch")
            # Its rules, by which ops are decomposed, are part of the model.
            rules = f"torch {importlib.metadata.version('torch')}"
            return key_of(rules, self.contents if self.program is None else self.program.fingerprint)
        beside = [f"{item.name} {item.stat().st_size} {item.stat().st_mtime_ns}" for item in self._side_files()]
        if isinstance(self.contents, LargeFile) and self.cache is not None and not beside:
            return store.fingerprint_of_file(self.cache, self.contents, lambda: key_of(self.kind, self.contents))
        return key_of(self.kind, self.contents, *beside)

    @property
    def size(self) -> int:
        """Approximate number of ops, including weights.

        Raises:
            ModelError: the model cannot be read.
        """
        if self.program is not None:
            return self.program.size
        if self.kind != "onnx":
            return (self.contents.size if isinstance(self.contents, LargeFile) else len(self.contents)) // _OP_BYTES
        return self._parsed.size

    def interface(self) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
        """Returns the model's inputs and outputs.

        Raises:
            ModelError: the model cannot be read.
        """
        if self.kind == "mlir":
            from ..frontend import mlir_text

            info = mlir_text.describe_model(self.path or self.data)
        elif self.kind == "onnx":
            from ..frontend.onnx.reading.model import describe_model

            info = describe_model(self._parsed)
        elif self.kind == "torch":
            info = self.exported.info
        elif self.kind == "gguf":
            from ..frontend.gguf import importer as gguf

            info = gguf.describe_model(self.path or self.data, self.name)
        elif self.kind == "huggingface":
            from ..frontend.huggingface import importer as huggingface

            info = huggingface.describe_model(self._folder)
        else:
            from mlir import ir

            info = self._imported(ir.Context()).info
        return tuple(map(_tensor_info, info.inputs)), tuple(map(_tensor_info, info.outputs))

    def declared_ranges(self) -> dict[str, int | tuple[int, ...]]:
        """Returns the sizes, as in `Options.dims`, that a module in MLIR declares.

        Raises:
            ModelError: the model cannot be read.
        """
        from ..frontend import mlir_text

        return mlir_text.declared_ranges(self.path or self.data)

    def import_into(
        self,
        context: ir.Context,
        shapes: Mapping[str, Shape],
        contents: Mapping[str, np.ndarray],
    ) -> ImportedModel:
        """Imports the model as a module of the `import` phase (or the phase of an `.mlir` file), with its parameters.

        Args:
            context: the context of the module.
            shapes: the shape of each input.
            contents: contents of some inputs.

        Raises:
            ModelError: the model cannot be read.
            NeedsContents: `contents` lacks an input whose contents must be known.
        """
        if self.kind == "mlir":
            from ..frontend import mlir_text

            return mlir_text.import_model(self.path or self.data, context, shapes)
        if self.kind == "torch":
            return self.exported.import_into(context, shapes, self.counts_elements, self.keeps_weights)
        if self.kind == "gguf":
            from ..frontend.gguf import importer as gguf

            return gguf.import_model(self.path or self.data, self.name, context, shapes)
        if self.kind == "huggingface":
            from ..frontend.huggingface import importer as huggingface

            return huggingface.import_model(self._folder, context, shapes)
        if self.kind != "onnx":
            return self._imported(context)
        from ..frontend.onnx import importer

        options: Any = {
            "sized": True,
            "checked": self.checked,
            "counts_elements": self.counts_elements,
            "keeps_weights": self.keeps_weights,
        }
        imported = importer.import_model(self._parsed, context, shapes, contents, **options)
        vars(self).pop("_parsed", None)  # as large as the file, and rarely needed again
        return imported

    @property
    def _folder(self) -> Path:
        assert self.path is not None, "a folder is given by its path"
        return self.path

    def _imported(self, context: ir.Context) -> ImportedModel:
        """Imports a model of another package's format."""
        from ..frontend.registry import import_by

        return import_by(self.kind, self.data, self.name, context)

    @functools.cached_property
    def exported(self) -> LiveProgram:
        """The program of torch; cached.

        Raises:
            ModelError: the file is damaged, or PyTorch is not installed.
        """
        if self.program is not None:
            return self.program
        require_package("torch", self.name, "torch")
        from ..frontend.torch.live import LiveProgram

        return LiveProgram.read(self.data, self.name)

    @functools.cached_property
    def model(self) -> Model:
        """The parsed ONNX model with its own functions inlined; cached.

        Raises:
            ModelError: it is damaged.
        """
        from ..frontend.onnx.reading.model import inlined

        return inlined(self._parsed)

    @property
    def has_functions(self) -> bool:
        """True if the ONNX model has functions of its own, so that `model` has other nodes than the file."""
        return bool(self._parsed.proto.functions)

    @functools.cached_property
    def _parsed(self) -> Model:
        from ..frontend.onnx.reading.model import read_model

        return read_model(self.path or self.data, leaves_weights=isinstance(self.contents, LargeFile))

    @property
    def is_whole(self) -> bool:
        """True if `data` is all of the model: there are no side files."""
        return self.program is None and not self._side_files()

    def _side_files(self) -> list[Path]:
        if self.path is None:
            return []
        if self.kind == "mlir":
            return [side for side in [self.path.with_name("parameters.safetensors")] if side.is_file()]
        if self.kind == "huggingface":
            from ..frontend.huggingface.folder import weight_files

            return weight_files(self._folder)
        if self.kind != "onnx":
            return []
        # External data of an ONNX model: a change of any such file that the model names changes the model.
        beside = sorted(item for item in self.path.parent.glob("*.data") if item.is_file())
        return beside if beside and b"location" in self.data else []


def torch_program(
    model: Any,
    args: tuple[Any, ...] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
) -> LiveProgram | None:
    """Returns a module of torch as an exported program; None for anything else, without importing torch.

    Raises:
        ModelError: the module cannot be exported.
    """
    if "torch" not in sys.modules:
        return None
    from ..frontend.torch.program import is_program

    if not is_program(model):
        return None
    from ..frontend.torch.live import LiveProgram

    return LiveProgram.of(model, args, kwargs, dynamic_shapes)


def _unpickled(
    kind: str,
    contents: bytes | LargeFile,
    path: Path | None,
    is_cached: bool,
    checked: Any,
    program: LiveProgram | None,
    target: str,
) -> ModelSource:
    cache = default_cache() if is_cached else None
    return ModelSource(kind, contents, path, cache, checked, program, target)


def _format_of(data: bytes) -> str:
    """The format of a model in memory by its first bytes; "onnx" for others."""
    if data.startswith(b"GGUF"):
        return "gguf"
    is_mlir = data.lstrip()[:64].startswith((b"module", b"func.func", b"//", b"#", b"ML\xefR", b"builtin.module", b"!"))
    return "mlir" if is_mlir else "onnx"


def _tensor_info(info: ValueInfo) -> TensorInfo:
    unknown = (ANY_RANK,) if info.kind == "tensor" else ()
    return TensorInfo(info.name, info.dtype, unknown if info.dims is None else info.dims, info.kind)
