"""The MLIR context that a compile works in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir

from ..passes.upstream import keeping_pipelines
from ..runtime.collection import paused_collection


@contextmanager
def compiler_context() -> Iterator[ir.Context]:
    """A context, entered, of one thread: the kernels are shared out among processes, and locks cost time.

    Python's collection of cycles pauses meanwhile: it would look through the compiler time and again and find nothing.
    """
    with paused_collection():
        context = ir.Context()
        context.enable_multithreading(False)
        with context, keeping_pipelines():
            yield context
