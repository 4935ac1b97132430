"""The MLIR context that a compile works in."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir

from ..passes.upstream import keeping_pipelines


@contextmanager
def compiler_context() -> Iterator[ir.Context]:
    """A context, entered, of one thread: the kernels are shared out among processes, and locks cost time.

    Upstream pipelines are made ready once in it.

    Python's collection of cycles pauses meanwhile: it would look through the compiler time and again and find nothing.
    """
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        context = ir.Context()
        context.enable_multithreading(False)
        with context, keeping_pipelines():
            yield context
    finally:
        if is_collecting:
            gc.enable()
