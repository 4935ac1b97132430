"""The MLIR context of a compile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir

from ..support.collection import paused_collection
from .caching import plugins

DIALECTS = (
    "affine",
    "arith",
    "bufferization",
    "builtin",
    "cf",
    "func",
    "gpu",
    "irdl",
    "linalg",
    "llvm",
    "math",
    "memref",
    "scf",
    "tensor",
    "ub",
    "vector",
)
"""The dialects of upstream whose ops the compiler builds.

All other dialects are loaded when MLIR's parser reads them or an upstream pass depends on them. The bindings would load
every dialect into every context. That takes longer than the import of a small model, and the canonicalizer collects the
patterns of all dialects.
"""


@contextmanager
def compiler_context(loads_all: bool | None = None) -> Iterator[ir.Context]:
    """Enters a context without multithreading: kernels are distributed among processes, and locks cost time.

    Python's collection of cycles is paused: it would scan the compiler's objects again and again and find nothing.

    Args:
        loads_all: whether to load all dialects, because code of a caller or a plug-in may build ops of any; None to
            look for plug-ins.
    """
    with paused_collection():
        loaded = None if (plugins.are_found() if loads_all is None else loads_all) else DIALECTS
        context = ir.Context(load_on_create_dialects=loaded)  # pyright: ignore[reportCallIssue]  (the stubs lack it)
        context.enable_multithreading(False)
        with context:
            yield context
