"""Models of torch that run in steps: compiled pieces, and ops that torch runs between them."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ...runtime.executable import Executable
from ...runtime.host.fallback import Fallback
from ...runtime.program import Program
from ...runtime.specialization.interfaces import UNKNOWN, HybridModel, Known
from .calls import TensorCall
from .division import Division, divide
from .live import LiveProgram
from .tensors import as_array, as_tensor

CompilePiece = Callable[[LiveProgram], Executable]
"""Compiles a piece of a model."""


class TorchSteps(HybridModel):
    """A program of torch of which some ops cannot be compiled.

    Attributes:
        division: its pieces, and the ops of torch.
    """

    def __init__(self, program: LiveProgram, found: Mapping[str, Fallback], compile_piece: CompilePiece) -> None:
        """Divides a program and compiles its pieces.

        Args:
            program: the program.
            found: the ops that torch runs, by the names of their nodes.
            compile_piece: compiles a piece.
        """
        signature, graph = program.signature, program.copied_graph()
        values = {
            item.name: program.tensor(item.target) if item.kind == "weight" else item.constant
            for item in signature.inputs
            if item.kind in ("weight", "constant")
        }
        weights = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
        self.division: Division = divide(graph, program.whole, weights, found)
        self._executables: list[Executable] = []
        for name, piece in self.division.pieces.items():
            executable = compile_piece(piece)
            self._executables.append(executable)
            self.division.graph.set_submodule(name, CompiledPiece(TensorCall(executable, piece)))
        self._inputs = [(item.name, item.kind) for item in signature.inputs]
        self._numbers = {
            item.name
            for item in signature.inputs
            if item.kind == "input" and not isinstance(signature.value(item.name), torch.Tensor)
        }
        self._values = values
        self._sizes = {
            item.name: _size_reader(signature, item.name) for item in signature.inputs if item.kind == "size"
        }
        self._is_result = [item.kind != "constant" for item in signature.outputs]

    def run(self, values: Sequence[Any], threads: int) -> list[Any]:
        """Computes the outputs for arrays; they are arrays too, except sparse tensors."""
        results = self.run_tensors([as_tensor(_writable(np.asarray(value))) for value in values])
        return [_held(item) if isinstance(item, torch.Tensor) else np.array(item) for item in results]

    def run_tensors(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Computes the outputs for tensors."""
        given = iter(tensors)
        arguments: list[Any] = []
        for name, kind in self._inputs:
            if kind in ("weight", "constant"):
                arguments.append(self._values[name])
            elif kind == "size":
                arguments.append(self._sizes[name](tensors))
            else:
                argument = next(given)
                arguments.append(argument.item() if name in self._numbers else argument)
        with torch.no_grad():
            made = self.division.graph(*arguments)
        return [item for item, is_result in zip(made, self._is_result, strict=True) if is_result]

    def prepare(self, inputs: Sequence[Known], contents: Mapping[int, np.ndarray] | None = None) -> list[Known]:
        """Compiles the pieces whose sizes are known ahead of calls."""
        return [UNKNOWN for is_result in self._is_result if is_result]

    @property
    def programs(self) -> tuple[Program, ...]:
        """The code of the pieces."""
        return tuple(program for executable in self._executables for program in executable.programs)

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """The ops that torch runs, those in the pieces included."""
        inner = (item for executable in self._executables for item in executable.fallbacks)
        return (*self.division.fallbacks, *inner)

    @property
    def uncompiled(self) -> list[str]:
        """The reasons why no artefact can hold the model: ops that torch runs, or else several pieces."""
        found = [f"{item.operator} ({item.node}) runs in PyTorch" for item in self.fallbacks]
        return found or ["it is compiled in pieces, between which sizes depend on data or tensors are complex"]


class CompiledPiece(torch.nn.Module):
    """A compiled piece in a graph of torch."""

    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = call


def _held(tensor: torch.Tensor) -> Any:
    """Returns a tensor as an array; a tensor that no array can hold, such as a sparse one, is returned unchanged."""
    return as_array(tensor) if tensor.layout == torch.strided else tensor


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _size_reader(signature: Any, name: str) -> Callable[[Sequence[torch.Tensor]], int]:
    """Returns a function that computes a size from the shapes of the tensors."""
    taken = [signature.value(item.name) for item in signature.taken]
    expression = signature.value(name).node.expr
    places = {
        size.node.expr: (place, axis)
        for place, value in reversed(list(enumerate(taken)))
        if isinstance(value, torch.Tensor)
        for axis, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt)
    }
    if expression in places:
        place, axis = places[expression]
        return lambda tensors: tensors[place].shape[axis]

    def read(tensors: Sequence[torch.Tensor]) -> int:
        sizes = {symbol: tensors[place].shape[axis] for symbol, (place, axis) in places.items() if symbol.is_Symbol}
        return int(expression.subs(sizes))

    return read
