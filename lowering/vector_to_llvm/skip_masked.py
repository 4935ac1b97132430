"""Ends loops of reductions where the following elements are masked, and drops the masks inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith

from ...passes.ir.rewriting import walk
from ...passes.ir.values import integer_of
from ..builders.linear_forms import LinearForm
from .limits import end_of
from .positions import linear_of, positions, root_of, split

_READS = frozenset({"memref.load", "vector.load", "vector.transfer_read"})
_SUMS = frozenset({"affine.apply", "affine.min", "arith.addi", "arith.muli", "arith.subi"})
_VIEWS = frozenset({"memref.subview", "memref.expand_shape", "memref.collapse_shape", "memref.cast"})


def skip_masked(kernel: ir.Operation, value: ir.Value, axis: int, extent: Callable[[], ir.Value]) -> list[ir.Operation]:
    """Bounds every loop that moves along one dimension of the reduced tensor, and whose index affects only reads.

    Returns the loops whose index is that of an element that counts, in each iteration.

    Args:
        kernel: the kernel.
        value: the reduced tensor; its elements beyond the extent count as the neutral element.
        axis: the dimension.
        extent: emits the run-time number of elements that count; there is at least one.
    """
    exact = []
    for loop in [op for op in walk(kernel) if op.name == "scf.for"]:
        place = _place(loop, value, axis)
        if place is None:
            continue
        factor, base = place
        count = extent()
        with loop.location, ir.InsertionPoint(loop):
            loop.operands[1] = arith.MinSIOp(loop.operands[1], end_of(count, base, factor)).result
        if factor == integer_of(loop.operands[2]) == 1 and base == (0, ()):
            exact.append(loop)
    return exact


def assume_kept(mask: ir.Value, loops: Sequence[ir.Operation]) -> None:
    """Replaces reads of a mask by 1 in loops, each of which reads it at its index only while that is kept.

    scf.for %i = %c0 to %end step %c1 { %kept = memref.load %mask[%i] ; .. }
    -->
    scf.for %i = %c0 to %end step %c1 { %kept = arith.constant 1.0 : f32 ; .. }
    """
    for loop in loops:
        index = loop.regions[0].blocks[0].arguments[0]
        for op in list(walk(loop)):
            if op.name != "memref.load" or root_of(op.operands[0]) != mask:
                continue
            found = positions(op.operands[0], [linear_of(item) for item in list(op.operands)[1:]], mask)
            if found is not None and [item.index for item in found if item.index != (0, ())] == [(0, ((index, 1),))]:
                with op.location, ir.InsertionPoint(op):
                    kind = op.results[0].type
                    one = arith.constant(kind, 1 if isinstance(kind, ir.IntegerType) else 1.0)
                    op.results[0].replace_all_uses_with(one)
                op.erase()


def _place(loop: ir.Operation, value: ir.Value, axis: int) -> tuple[int, LinearForm] | None:
    """Returns the step per iteration of all reads of a value along the dimension, and the start; None if unknown."""
    index = loop.regions[0].blocks[0].arguments[0]
    if not _only_reads(loop, index):
        return None
    found: tuple[int, LinearForm] | None = None
    for op in walk(loop):
        if op.name not in _READS or root_of(op.operands[0]) != value:
            continue
        here = _read(op, value, axis, loop, index)
        if here is None or (found is not None and (found[0], set(found[1][1])) != (here[0], set(here[1][1]))):
            return None
        if found is None or here[1][0] < found[1][0]:
            found = here
    return found


def _read(
    op: ir.Operation, value: ir.Value, axis: int, loop: ir.Operation, index: ir.Value
) -> tuple[int, LinearForm] | None:
    rank = ir.MemRefType(op.operands[0].type).rank
    indices: Sequence[LinearForm] = [linear_of(item) for item in list(op.operands)[1 : 1 + rank]]
    moved = []
    for position in positions(op.operands[0], indices, value) or ():
        own, base = split(position.index, loop, index)
        if own is None:
            return None
        if own:
            moved.append((position.dims, own, base))
    shape = ir.MemRefType(value.type).shape
    if len(moved) != 1 or [dim for dim in moved[0][0] if shape[dim] != 1] != [axis]:
        return None
    return moved[0][1], moved[0][2]


def _only_reads(loop: ir.Operation, index: ir.Value) -> bool:
    """Returns whether an index affects only addresses of reads: neither writes nor numbers of iterations."""
    moved = {index}
    for op in walk(loop):
        if not any(value in moved for value in op.operands):
            continue
        if op.name in _SUMS or op.name in _VIEWS:
            moved.update(op.results)
        elif op.name not in _READS and op.name != "memref.prefetch":
            return False
    return True
