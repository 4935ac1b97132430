"""Graphs that `torch.compile(...).aot_compile` compiles ahead of calls and saves, with their code."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._functorch import config
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._inductor.output_code import OutputCode

from ...support.errors import OptionError
from .graph import Graph

CompileGraph = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def is_ahead() -> bool:
    """Returns whether `aot_compile` asks for a graph: it needs one that can be saved."""
    return bool(config.bundled_autograd_cache and config.bypass_autograd_cache_key)


@dataclass
class SavedGraph(OutputCode):
    """A compiled graph that AOTAutograd can pickle.

    Attributes:
        graph: the graph.
    """

    graph: Graph

    def __post_init__(self) -> None:
        self._boxed_call = True  # of the object: wrappers copy its attributes

    def __call__(self, inputs: Any) -> Any:
        """Computes the results; the list of inputs is cleared."""
        return self.graph(inputs)

    def prepare_for_serialization(self) -> None:
        """See `OutputCode`; pieces write their code when they are pickled."""

    def post_compile(self, example_inputs: Any, constants: Any, graph_kwargs: Any) -> None:
        """See `OutputCode`; loaded code is ready for calls."""

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """See `OutputCode`; there is no code of Triton's."""


def saving(compile_graph: CompileGraph) -> SerializableAOTDispatchCompiler:
    """Returns a compiler of graphs whose results can be saved.

    Raises:
        OptionError: by the compiler, for a graph that runs in PyTorch because its compile failed.
    """

    @functools.wraps(compile_graph)
    def compiled(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> SavedGraph:
        made = compile_graph(module, inputs)
        if not isinstance(made, Graph):
            raise OptionError("the graph cannot be saved: it runs in PyTorch, since its compile failed")
        return SavedGraph(made)

    return SerializableAOTDispatchCompiler(SavedGraph, compiled)
