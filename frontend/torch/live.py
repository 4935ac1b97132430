"""An exported program as the source of a compile."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
import io
import pickle
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sympy
import torch
from mlir import ir

from ...runtime.host.fallback import Fallback
from ..diagnosis import Diagnosis
from ..errors import ModelError
from ..imported import ImportedModel, ModelInfo, ValueInfo
from .dims import names_of_symbols, ranges_of
from .importer import failures_of, import_program
from .interface import CallInterface
from .node import at_line, fallback_of, has_sizes_read_from_data, is_computed_with, name_of, overload_of, sizes_by_data
from .program import captured, decomposed, read_program
from .signature import Signature, tensor_of
from .tensors import as_array


@dataclass(frozen=True)
class Whole:
    """The facts about a program that hold for its pieces too.

    Attributes:
        name: its name in messages.
        ranges: the range of each symbolic size, as in `ExportedProgram.range_constraints`.
        names: the names of symbolic sizes.
    """

    name: str
    ranges: Mapping[sympy.Symbol, Any]
    names: Mapping[sympy.Symbol, str] = field(default_factory=dict)


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
        *,
        decompose: bool = True,
    ) -> None:
        """Keeps a program.

        Args:
            exported: the program.
            name: its name in messages.
            names: the names of symbolic dimensions, by symbol; others are called as torch calls them.
            decompose: whether its ops have yet to be decomposed.
        """
        self.exported, self.name = exported, name
        self._names, self._decompose = dict(names or {}), decompose

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
            return decomposed(self.exported) if self._decompose else self.exported

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

    @functools.cached_property
    def interface(self) -> CallInterface:
        """The facts that calls need; may be set to those that an earlier process found."""
        ranges = ranges_of(self.program, self.signature)
        return CallInterface(self.signature.inputs, self.signature.outputs, ranges, self._needs_pieces())

    @property
    def is_decomposed(self) -> bool:
        """True if its ops were decomposed when it was made, as those of pieces are."""
        return not self._decompose

    def _needs_pieces(self) -> bool:
        """Returns whether its code is in pieces even though all of its ops have code.

        Code has no complex inputs and outputs, and an op that reads a tensor whose size depends on data is compiled
        apart from the one that makes it; so is one whose size is a number that is read from a tensor. There is no code
        without outputs.
        """
        if not self._decompose:
            return False  # it is a piece
        values = [self.signature.value(item.name) for item in (*self.signature.taken, *self.signature.returned)]
        is_complex = any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)
        is_cut = any(sizes_by_data(node) and is_computed_with(node) for node in self.program.graph.nodes)
        is_read = has_sizes_read_from_data(self.program.graph)
        return is_complex or is_cut or is_read or not self.signature.returned

    @property
    def whole(self) -> Whole:
        """The facts about the program that hold for its pieces too."""
        return Whole(self.name, self.program.range_constraints, self._names)

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.exported.graph.nodes)

    @functools.cached_property
    def fingerprint(self) -> str:
        """A digest of the graph and the weights."""
        digest = hashlib.sha256()
        program, graph = self.exported, self.exported.graph
        text = (graph, program.graph_signature, program.range_constraints, self._names, program.call_spec)
        types = [f"{node.name} {type_of(node.meta.get('val'))}" for node in graph.nodes]
        digest.update("\n".join([*map(str, text), *types]).encode())
        for weights in (self.exported.state_dict, self.exported.constants):
            for name, tensor in weights.items():
                digest.update(f"{name} {getattr(tensor, 'dtype', '')} {list(getattr(tensor, 'shape', ()))}".encode())
                if isinstance(tensor, torch.Tensor):
                    digest.update(as_array(tensor.contiguous()).reshape(-1).view("uint8").data)
        return digest.hexdigest()

    def unsupported(self, shapes: Mapping[str, Sequence[int]], counts_elements: bool = True) -> dict[str, Fallback]:
        """Returns the ops that cannot be imported for input shapes, by the names of their nodes.

        Args:
            shapes: the shapes, by name.
            counts_elements: whether sizes of results may depend on data.

        Raises:
            ModelError: an input, an output or a weight cannot be imported.
        """
        found = failures_of(self.program, self.name, self.signature, shapes, counts_elements)
        return {node.name: fallback_of(node, _reason(node, error)) for node, error in found.items()}

    def diagnose(self, shapes: Mapping[str, Sequence[int]], counts_elements: bool = True) -> Diagnosis:
        """Returns the ops that PyTorch would run, of all ops that are left after decompositions.

        Args:
            shapes: the shapes of some or all inputs, by name.
            counts_elements: whether sizes of results may depend on data.

        Raises:
            ModelError: an input, an output or a weight cannot be imported, or there is no such input.
        """
        names = [info.name for info in self.info.inputs]
        with _naming(self.name):
            unknown = [name for name in shapes if name not in names]
            if unknown:
                raise ModelError(f"there is no input '{unknown[0]}'; there are {', '.join(names)}")
            ops = sum(node.op == "call_function" for node in self.program.graph.nodes)
            return Diagnosis(ops, tuple(self.unsupported(shapes, counts_elements).values()))

    def nodes_named(self, names: Collection[str]) -> list[str]:
        """Returns the names of the nodes of the ops with these names of locations."""
        nodes = (node for node in self.program.graph.nodes if node.op == "call_function")
        return [node.name for node in nodes if name_of(node) in names]

    def sizes_at(self, shapes: Mapping[str, Sequence[int]]) -> dict[sympy.Symbol, int]:
        """Returns the values of symbolic sizes for shapes of the inputs of the compiled model, by name."""
        found = {}
        for info, dims in self._dims():
            for dim, size in zip(dims, shapes.get(info.name, ()), strict=False):
                found |= {dim: size} if isinstance(dim, sympy.Symbol) else {}
        return found

    def shapes_at(self, sizes: Mapping[sympy.Symbol, int]) -> dict[str, tuple[int, ...]] | None:
        """Returns the shapes of the inputs for values of symbolic sizes; None if one depends on others."""
        found = {info.name: tuple(sympy.sympify(dim).subs(sizes) for dim in dims) for info, dims in self._dims()}
        is_known = all(size.is_Integer for shape in found.values() for size in shape)
        return {name: tuple(map(int, shape)) for name, shape in found.items()} if is_known else None

    def _dims(self) -> Iterator[tuple[ValueInfo, list[Any]]]:
        """Yields the inputs of the compiled model, each with its sizes as numbers and expressions."""
        for item, info in zip(self.signature.taken, self.info.inputs, strict=True):
            known = self.signature.value(item.name)
            shape = known.shape if isinstance(known, torch.Tensor) else ()
            yield info, [size.node.expr if isinstance(size, torch.SymInt) else size for size in shape]

    def tensor(self, name: str) -> torch.Tensor:
        """Returns a weight, a buffer or a constant."""
        return tensor_of(self.program, name)

    def copied_graph(self) -> torch.fx.GraphModule:
        """Returns a copy of the graph of the program with decomposed ops."""
        module = self.program.graph_module
        return torch.fx.GraphModule(module, copy.deepcopy(module.graph))

    def import_into(
        self,
        context: ir.Context,
        shapes: Mapping[str, Sequence[int]],
        counts_elements: bool = True,
        keeps_weights: bool = False,
    ) -> ImportedModel:
        """Makes a module of stepwell ops for input shapes, by name; dimensions of other inputs stay symbolic.

        Args:
            context: the MLIR context of the module.
            shapes: the shapes.
            counts_elements: whether sizes of results may depend on data.
            keeps_weights: whether weights of floating point are parameters, however small.

        Raises:
            ModelError: an op is not supported.
        """
        return import_program(self.program, context, self.name, self.signature, shapes, counts_elements, keeps_weights)

    def saved(self) -> bytes:
        """The program as the contents of a `.pt2` file."""
        buffer = io.BytesIO()
        torch.export.save(self.exported, buffer)
        return buffer.getvalue()

    def __reduce__(self) -> tuple[Any, ...]:
        names = {str(symbol): name for symbol, name in self._names.items()}
        try:
            return _unpickled, (self.saved(), self.name, names, self._decompose)
        except Exception as error:  # torch has several, for what it cannot write to a file
            raise pickle.PicklingError(f"torch cannot write the program to a file: {error}") from error


@contextlib.contextmanager
def _naming(name: str) -> Iterator[None]:
    """Adds the model's name to errors."""
    try:
        yield
    except ModelError as error:
        raise error.at(model=name) from error.__cause__


def _reason(node: torch.fx.Node, error: ModelError) -> str:
    """The reason of an error; one of an op in a graph that a higher-order operator takes names that op."""
    if error.op_type not in ("", overload_of(node.target)):
        return f"its graph has {error.op_type}: {error.reason}"
    return error.reason.removesuffix(at_line(node))  # `Fallback.line` has it


def type_of(value: Any) -> str:
    """Returns element types and sizes of a node's result as text."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {list(value.shape)}"
    return str(list(map(type_of, value)) if isinstance(value, list | tuple) else type(value))


def _unpickled(contents: bytes, name: str, names: Mapping[str, str], decompose: bool) -> LiveProgram:
    known = {sympy.Symbol(symbol, positive=True, integer=True): other for symbol, other in names.items()}
    return LiveProgram(read_program(contents), name, known, decompose=decompose)
