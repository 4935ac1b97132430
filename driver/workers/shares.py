"""Partitions kernels into libraries of the size that processes take one by one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from mlir import ir

from ...dialects.symbols import symbol_of
from ...passes.ir.functions import class_of
from .library import library_of

# Compile time relative to other kernels, for kernels tiled to registers; Winograd's are three in one, unrolled.
_WEIGHTS = {"attention": 12, "contraction": 4, "convolution": 4, "depthwise": 5, "winograd": 20}
# Limits of the weight of a library: a smaller one would take longer to start than to compile, a larger one would keep
# other processes waiting.
_LEAST_WEIGHT, _MOST_WEIGHT = 4, 20


def slowest_first(kernels: Sequence[ir.Operation], processes: int) -> Iterator[Sequence[ir.Operation]]:
    """Yields parts of the kernels, slowest first, each a share of the rest, so that all processes finish together."""
    weights = {symbol_of(kernel): _weight(kernel) for kernel in kernels}
    left, share, size = sum(weights.values()), [], 0.0
    for kernel in sorted(kernels, key=lambda kernel: weights[symbol_of(kernel)], reverse=True):
        share.append(kernel)
        size += weights[symbol_of(kernel)]
        if size >= min(max(left / (2 * processes), _LEAST_WEIGHT), _MOST_WEIGHT):
            yield share
            left, share, size = left - size, [], 0.0
    if share:
        yield share


def in_order(kernels: Sequence[ir.Operation]) -> Iterator[Sequence[ir.Operation]]:
    """Yields parts of the kernels in their order, each of limited compile time."""
    share, size = [], 0.0
    for kernel in kernels:
        share.append(kernel)
        size += _weight(kernel)
        if size >= _MOST_WEIGHT / 2:
            yield share
            share, size = [], 0.0
    if share:
        yield share


def bytecode(kernels: Sequence[ir.Operation]) -> bytes:
    """Returns a library of kernels as bytecode for other processes."""
    return module_bytecode(library_of(kernels))


def module_bytecode(module: ir.Module) -> bytes:
    """Returns a module as bytecode for other processes."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _weight(kernel: ir.Operation) -> float:
    kind = class_of(kernel)
    return _WEIGHTS.get(kind, 1) + len(kernel.regions[0].blocks[0].operations) / 8
