"""Questions about loops over tiles of a matrix unit: what they contain, read and write."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ...passes.ir.named_ops import is_inside
from ...passes.ir.rewriting import walk
from ...passes.ir.values import integer_of

_INTRINSIC, _PRODUCT, STORE = "llvm.call_intrinsic", "llvm.x86.tdp", "llvm.x86.tilestored"

_PURE = ("arith.", "affine.", "llvm.inttoptr", "vector.broadcast", "vector.shape_cast", "vector.extract")
_VIEWS = ("memref.subview", "memref.expand_shape", "memref.collapse_shape", "memref.reinterpret_cast", "memref.cast")
_METADATA = ("memref.extract_strided_metadata", "memref.extract_aligned_pointer_as_index")
_READS = ("vector.transfer_read", "vector.load", "memref.load")
REPEATABLE = (*_PURE, *_VIEWS, *_METADATA, *_READS)
"""Beginnings of the names of ops that may be computed again for the tile before."""

BOUNDS = 3
"""Operands of a loop before its iteration arguments."""


def body_of_loop(loop: ir.Operation) -> list[ir.Operation]:
    """Returns the ops in a loop."""
    return [op.operation for op in loop.regions[0].blocks[0].operations][:-1]


def has_effects(op: ir.Operation) -> bool:
    """Returns whether an op does more than compute results, also from memory."""
    return not op.name.startswith(REPEATABLE)


def calls(op: ir.Operation, name: str) -> bool:
    """Returns whether an op calls an intrinsic whose name begins in this way."""
    return op.name == _INTRINSIC and ir.StringAttr(op.attributes["intrin"]).value.startswith(name)


def has_products(op: ir.Operation) -> bool:
    """Returns whether an op contains products of tiles."""
    return any(calls(inner, _PRODUCT) for inner in walk(op))


def constant_bounds(loop: ir.Operation) -> tuple[int, int, int]:
    """Returns the constant bounds and the step of a loop."""
    first, end, step = (integer_of(value) for value in list(loop.operands)[:BOUNDS])
    assert first is not None and end is not None and step is not None
    return first, end, step


def trips(loop: ir.Operation) -> int | None:
    """Returns the number of iterations of a loop; None if it is not constant."""
    first, end, step = (integer_of(value) for value in list(loop.operands)[:BOUNDS])
    if first is None or end is None or step is None:
        return None
    return max(0, -(-(end - first) // step))


def around(op: ir.Operation) -> ir.Operation:
    """Returns the op whose region an op is in."""
    parent = op.parent
    assert parent is not None
    return parent.operation


def may_carry(tiles: Sequence[ir.Operation]) -> bool:
    """Returns whether the loop around others does nothing else, and inner loops start at the same index each time."""
    if tiles[0].parent is None:
        return False
    outer = around(tiles[0])
    if outer.name != "scf.for" or len(outer.results):
        return False
    is_alone = [op for op in body_of_loop(outer) if has_effects(op)] == [tiles[0]]
    return is_alone and all(integer_of(loop.operands[0]) is not None for loop in tiles)


def made_inside(op: ir.Operation, outermost: ir.Operation) -> list[ir.Operation]:
    """Returns the ops in loops around an op whose results it reads, directly or through others, in their order."""
    found: dict[ir.Operation, None] = {}
    waiting = list(walk(op))
    while waiting:
        for value in waiting.pop().operands:
            maker = value.owner
            if isinstance(maker, ir.Block) or maker.operation in found:
                continue
            made = maker.operation
            if is_inside(made, outermost) and not is_inside(made, op):
                found[made] = None
                waiting.append(made)
    return [item for item in walk(outermost) if item in found]


def product_loops(products: ir.Operation, epilogue: ir.Operation) -> list[ir.Operation]:
    """Returns as many nested loops over products as have an iteration for each of the epilogue, or all."""
    loops, wanted = [products], trips(epilogue) or 1
    while math.prod(trips(loop) or 1 for loop in loops) < wanted:
        parts = [op for op in body_of_loop(loops[-1]) if has_effects(op)]
        if len(parts) != 1 or parts[0].name != "scf.for" or trips(parts[0]) is None:
            break
        loops.append(parts[0])
    return loops


def memory_read(op: ir.Operation) -> set[ir.Value]:
    """Returns the memory that products read."""
    return {_root(inner.operands[0]) for inner in walk(op) if inner.name in _METADATA}


def memory_written(op: ir.Operation) -> set[ir.Value]:
    """Returns the memory that an epilogue writes."""
    stores = {"vector.transfer_write": 1, "vector.store": 1, "memref.store": 1, "vector.maskedstore": 0}
    return {_root(inner.operands[stores[inner.name]]) for inner in walk(op) if inner.name in stores}


def _root(value: ir.Value) -> ir.Value:
    """Returns the buffer of a view."""
    while not isinstance(value.owner, ir.Block) and value.owner.operation.name in _VIEWS:
        value = value.owner.operation.operands[0]
    return value
