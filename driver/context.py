"""The MLIR context of a compile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir

from ..support.collection import paused_collection


@contextmanager
def compiler_context() -> Iterator[ir.Context]:
    """Enters a context without multithreading: kernels are distributed among processes, and locks cost time.

    Python's collection of cycles is paused: it would scan the compiler's objects again and again and find nothing.
    """
    with paused_collection():
        context = ir.Context()
        context.enable_multithreading(False)
        with context:
            yield context
