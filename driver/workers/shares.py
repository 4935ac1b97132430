"""Kernels as libraries of about the size that processes take one by one."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from mlir import ir

from ...lowering import invariants
from ...passes.functions import class_of
from .library import library_of

# How many times as long as others kernels take that are tiled to registers; Winograd's are three in one, unrolled.
_WEIGHTS = {"attention": 12, "contraction": 4, "convolution": 4, "depthwise": 5, "winograd": 20}
# A library of less would take longer to begin with than to compile; one of more would keep the others waiting.
_LEAST_WEIGHT, _MOST_WEIGHT = 4, 20


def slowest_first(kernels: Sequence[ir.Operation], processes: int) -> Iterator[Sequence[ir.Operation]]:
    """Parts of some kernels, each a share of what is left, the slowest first: so all processes end together."""
    weights = {invariants.symbol(kernel): _weight(kernel) for kernel in kernels}
    left, share, size = sum(weights.values()), [], 0.0
    for kernel in sorted(kernels, key=lambda kernel: weights[invariants.symbol(kernel)], reverse=True):
        share.append(kernel)
        size += weights[invariants.symbol(kernel)]
        if size >= min(max(left / (2 * processes), _LEAST_WEIGHT), _MOST_WEIGHT):
            yield share
            left, share, size = left - size, [], 0.0
    if share:
        yield share


def in_order(kernels: Sequence[ir.Operation]) -> Iterator[Sequence[ir.Operation]]:
    """Parts of some kernels, in their order, none of which takes long."""
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
    """A library of kernels as other processes read it."""
    return module_bytecode(library_of(kernels))


def module_bytecode(module: ir.Module) -> bytes:
    """A module as other processes read it."""
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _weight(kernel: ir.Operation) -> float:
    kind = class_of(kernel)
    return _WEIGHTS.get(kind, 1) + len(kernel.regions[0].blocks[0].operations) / 8
