"""Tiles of a weight that pass an input, and are no longer in the first-level cache when they are needed again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

from ...dialects.types import numpy_dtype
from ...passes.ir.rewriting import walk
from .tile_loops import around, trips


def passes_by(
    inputs: Sequence[vector.TransferReadOp],
    weights: Sequence[vector.TransferReadOp],
    product: ir.Operation,
    site: ir.Operation,
    near: int,
) -> bool:
    """Returns whether the weights of a product only pass an input that the loop around it reads again and again.

    The first-level cache does not hold both.

    Args:
        inputs: the reads of the input in a step of the product, some of them several times.
        weights: the reads of the weight.
        product: a product of the step.
        site: an op before the loops of the product.
        near: bytes that stay in the first-level cache.
    """
    loop = around(site)
    if loop.name != "scf.for":
        return False
    rounds = _rounds(product, loop)
    step = {read.result: _bytes(read) for read in (*inputs, *weights)}
    index = loop.regions[0].blocks[0].arguments[0]
    is_kept = not any(_depends(read.operation, index) for read in inputs)
    return is_kept and sum(step.values()) * rounds > near and any(_depends(read.operation, index) for read in weights)


def _rounds(op: ir.Operation, outermost: ir.Operation) -> int:
    """Returns how often an op runs in an iteration of a loop; loops without constant bounds count once."""
    counts = []
    while (op := around(op)) != outermost:
        counts.append((trips(op) or 1) if op.name == "scf.for" else 1)
    return math.prod(counts)


def _bytes(read: vector.TransferReadOp) -> int:
    tile = ir.VectorType(read.result.type)
    return math.prod(tile.shape) * numpy_dtype(tile.element_type).itemsize


def _depends(op: ir.Operation, index: ir.Value) -> bool:
    """Returns whether an op depends on the index of a loop through its operands."""
    waiting, seen = [op], {op}
    while waiting:
        for inner in (item := waiting.pop(), *walk(item)):
            for value in inner.operands:
                if value == index:
                    return True
                if not isinstance(value.owner, ir.Block) and value.owner.operation not in seen:
                    seen.add(value.owner.operation)
                    waiting.append(value.owner.operation)
    return False
