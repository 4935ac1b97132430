"""The memory that a model's values take, without a compile to its end."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from ...passes.ir.functions import main_function
from ...passes.memref import arena
from ...passes.memref.buffers import BufferAnalysis
from ...runtime.program import Shape
from .. import route
from ..context import compiler_context
from ..setup import Setup
from ..sources.source import ModelSource
from .compilation import Compilation


def planned_bytes(source: ModelSource, shapes: Mapping[str, Shape], setup: Setup) -> int:
    """Returns the bytes of the arena of a model for input shapes; workspaces of kernels are not included.

    Raises:
        ModelError: the model cannot be read.
        PassFailure, PassError: a pass failed.
    """
    compilation = Compilation(setup)
    with compiler_context(compilation.loads_all) as context, ir.Location.unknown():
        assert context is not None
        module, state = compilation.at_graph(source, shapes, {})
        route.run(module, state, start="graph", stop="kernels")
        buffers = BufferAnalysis(main_function(module.operation)).arena_buffers()
        return arena.arena_size(arena.place([arena.Lifetime(item.size, item.first, item.last) for item in buffers]))
