"""An exported program as the source of a compile."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import functools
import hashlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import sympy
import torch
from mlir import ir

from ..errors import ModelError
from ..imported import ImportedModel, ModelInfo
from .dims import names_of_symbols, ranges_of
from .importer import import_program
from .program import captured, decomposed, read_program
from .signature import Signature
from .tensors import as_array


class LiveProgram:
    """An exported program, its ops decomposed when they are first needed.

    Attributes:
        exported: the program.
        name: its name in messages.
    """

    def __init__(
        self,
        exported: torch.export.ExportedProgram,
        name: str = "model",
        names: Mapping[sympy.Symbol, str] | None = None,
    ) -> None:
        """Keeps a program.

        Args:
            exported: the program.
            name: its name in messages.
            names: the names of symbolic dimensions, by symbol; others are called as torch calls them.
        """
        self.exported, self.name = exported, name
        self._names = dict(names or {})

    @staticmethod
    def of(
        model: Any,
        args: tuple[Any, ...] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        dynamic_shapes: Any = None,
    ) -> LiveProgram:
        """Captures a module with example arguments, or takes an exported program.

        Raises:
            ModelError: the module cannot be exported.
        """
        name = type(model).__name__ if isinstance(model, torch.nn.Module) else "model"
        with _naming(name):
            exported = captured(model, args, kwargs, dynamic_shapes)
        return LiveProgram(exported, name, names_of_symbols(exported, model, args or (), kwargs or {}, dynamic_shapes))

    @staticmethod
    def read(contents: bytes | Path, name: str) -> LiveProgram:
        """Reads a `.pt2` file.

        Raises:
            ModelError: it is damaged.
        """
        with _naming(name):
            return LiveProgram(read_program(contents), name)

    @functools.cached_property
    def program(self) -> torch.export.ExportedProgram:
        """The program with ops that have handlers, as far as torch can decompose others."""
        with _naming(self.name):
            return decomposed(self.exported)

    @functools.cached_property
    def signature(self) -> Signature:
        """Its inputs and outputs."""
        with _naming(self.name):
            return Signature(self.program, self._names)

    @property
    def info(self) -> ModelInfo:
        """The inputs and outputs of the compiled model."""
        with _naming(self.name):
            return self.signature.info(self.name)

    @property
    def ranges(self) -> dict[str, tuple[int, int | None]]:
        """Minimum and maximum of each symbolic dimension of the inputs; None if there is no maximum."""
        return ranges_of(self.program, self.signature)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.exported.graph.nodes)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of the graph and the weights."""
        digest = hashlib.sha256()
        text = (self.exported.graph, self.exported.graph_signature, self.exported.range_constraints, self._names)
        digest.update("\n".join(map(str, text)).encode())
        for weights in (self.exported.state_dict, self.exported.constants):
            for name, tensor in weights.items():
                digest.update(f"{name} {getattr(tensor, 'dtype', '')} {list(getattr(tensor, 'shape', ()))}".encode())
                if isinstance(tensor, torch.Tensor):
                    digest.update(as_array(tensor.contiguous()).reshape(-1).view("uint8").data)
        return digest.hexdigest()

    def import_into(self, context: ir.Context, shapes: Mapping[str, Sequence[int]]) -> ImportedModel:
        """Makes a module of stepwell ops for input shapes, by name; dimensions of other inputs stay symbolic.

        Raises:
            ModelError: an op is not supported.
        """
        return import_program(self.program, context, self.name, self.signature, shapes)

    def saved(self) -> bytes:
        """The program as the contents of a `.pt2` file."""
        buffer = io.BytesIO()
        torch.export.save(self.exported, buffer)
        return buffer.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.saved(), self.name, {str(symbol): name for symbol, name in self._names.items()})


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Adds the model's name to errors."""
    try:
        yield
    except ModelError as error:
        raise error.at(model=name) from error.__cause__


def _unpickled(contents: bytes, name: str, names: Mapping[str, str]) -> LiveProgram:
    known = {sympy.Symbol(symbol, positive=True, integer=True): other for symbol, other in names.items()}
    return LiveProgram(read_program(contents), name, known)
