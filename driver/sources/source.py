"""The source of a model: its bytes, their fingerprint, and the model's interface; the base class of all formats."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ...runtime.artefact import store
from ...runtime.cache.cache import Cache, default_cache
from ...runtime.cache.keys import key_of
from ...runtime.program import ANY_RANK, Shape, TensorInfo
from ...support.errors import StepwellError
from ...support.large_file import LargeFile
from ...support.short_repr import short_repr

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir
    from typing_extensions import Self

    from ...frontend.diagnosis import Diagnosis
    from ...frontend.imported import ImportedModel, ModelInfo, ValueInfo

# Approximate length in bytes of an op in the text of a module.
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
class ModelSource(abc.ABC):
    """A model before it is imported.

    A format is a subclass with a `kind` in a module of this package, which is found there.

    Attributes:
        kind: the name of the format.
        suffixes: the endings of its files' names.
        contents: the file's bytes, or the text of a module; for a large file its location. Empty for a model of torch
            in memory.
        path: the file or folder; None if the model was given in memory.
        cache: stores the fingerprints of large files, so that they need not be read again.
        checked: which data is checked, as in `Options`.
        target: the name of the target that the model is compiled for.
        keeps_weights: whether weights of floating point are parameters, however small, so that they can be trained.
    """

    kind: ClassVar[str] = ""
    suffixes: ClassVar[tuple[str, ...]] = ()

    contents: bytes | LargeFile
    path: Path | None = None
    cache: Cache | None = None
    checked: bool | Literal["inputs"] = "inputs"
    target: str = "cpu"
    keeps_weights: bool = False

    @classmethod
    def recognises(cls, data: bytes) -> bool:
        """Returns whether bytes in memory begin like a model of this format."""
        return False

    @classmethod
    def of_object(cls, model: Any) -> Self | None:
        """Returns the source of an object of the format's own library; None for other objects."""
        return None

    @abc.abstractmethod
    def describe(self) -> ModelInfo:
        """Returns the model's inputs and outputs as the importer describes them.

        Raises:
            ModelError: the model cannot be read.
        """

    @abc.abstractmethod
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

    def diagnose(self, shapes: Mapping[str, Shape]) -> Diagnosis:
        """Finds all parts of the model that have no native code.

        Args:
            shapes: shapes of some or all inputs.

        Raises:
            SourceError: a model of this format has no other parts.
            ModelError: the model is damaged, or lacks an input that `shapes` names.
        """
        raise SourceError(f"{self.name}: a model of the format {self.kind} has native code, or does not compile")

    @property
    def side_files(self) -> Sequence[Path]:
        """The files that belong to the model beside its own."""
        return ()

    @property
    def size(self) -> int:
        """Approximate number of ops, including weights.

        Raises:
            ModelError: the model cannot be read.
        """
        return (self.contents.size if isinstance(self.contents, LargeFile) else len(self.contents)) // _OP_BYTES

    def declared_ranges(self, inputs: Sequence[TensorInfo]) -> Mapping[str, int | tuple[int, ...]]:
        """Returns the sizes of dimensions, as in `Options.dims`, that the model itself declares.

        Args:
            inputs: the model's inputs.
        """
        return {}

    def interface(self) -> tuple[tuple[TensorInfo, ...], tuple[TensorInfo, ...]]:
        """Returns the model's inputs and outputs.

        Raises:
            ModelError: the model cannot be read.
        """
        info = self.describe()
        return tuple(map(_tensor_info, info.inputs)), tuple(map(_tensor_info, info.outputs))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the contents; a model with side files is pickled as its path, and read from there."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values["path"] = None if self.is_whole else self.path
        return _unpickled, (type(self), {**values, "cache": None}, self.cache is not None)

    @property
    def counts_elements(self) -> bool:
        """True if the target has code for ops whose number of results depends on data."""
        from ...targets.registry import backend_of  # loads MLIR

        return backend_of(self.target).counts_elements

    @property
    def data(self) -> bytes:
        """The file's bytes, or the text of a module."""
        return self.contents.read() if isinstance(self.contents, LargeFile) else self.contents

    @property
    def name(self) -> str:
        """The model's name in messages."""
        return self.path.name if self.path else "model"

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest that identifies this model; side files count by name, size and modification time."""
        beside = [f"{item.name} {item.stat().st_size} {item.stat().st_mtime_ns}" for item in self.side_files]
        if isinstance(self.contents, LargeFile) and self.cache is not None and not beside:
            return store.fingerprint_of_file(self.cache, self.contents, lambda: key_of(self.kind, self.contents))
        return key_of(self.kind, self.contents, *beside)

    @property
    def is_whole(self) -> bool:
        """True if `data` is all of the model: there are no side files."""
        return not self.side_files


def _unpickled(kind: type[ModelSource], values: Mapping[str, Any], is_cached: bool) -> ModelSource:
    return kind(**{**values, "cache": default_cache() if is_cached else None})


def _tensor_info(info: ValueInfo) -> TensorInfo:
    unknown = (ANY_RANK,) if info.kind == "tensor" else ()
    return TensorInfo(info.name, info.dtype, unknown if info.dims is None else info.dims, info.kind)
