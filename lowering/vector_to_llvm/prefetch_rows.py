"""`stepwell-prefetch-rows`: prefetches the next operands while the current ones are computed on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, memref

from ...dialects.types import numpy_dtype
from ...machines import caches
from ...machines.machine import Machine
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, class_of, kernels_in
from ...passes.ir.rewriting import walk
from ..streams import has_bytes
from ..target import Target
from .segments import region_of

# Hints of `memref.prefetch` for data that should stay in all levels of the cache, and in the second and later ones.
_IN_FIRST_LEVEL, _IN_SECOND_LEVEL = 3, 2
# Prefetch distance in bytes of loops with much computation, and the minimum number of vector ops per iteration that
# counts as much.
_AHEAD, _MANY_OPS = 2048, 16
_PURE = frozenset({"memref.subview", "affine.apply", "arith.addi", "arith.muli", "arith.constant"})


@register
@dataclass(frozen=True)
class PrefetchRowsPass(Pass):
    """Prefetch the operands of later iterations if memory would be idle during the computation.

    A reduction visits its rows several times: the first sweep waits for memory, and memory is idle during the
    others. So the second sweep over a row also prefetches the next row:

        scf.for %row = ... {
          scf.for %i = ... { vector.load %x[%row, %i] : memref<8192x1024xf32>, vector<16xf32> }
          scf.for %i = ... { vector.load %x[%row, %i] : memref<8192x1024xf32>, vector<16xf32> }
        }
        -->
        scf.for %row = ... {
          %next = ...                       // the next row; for the last row, itself
          scf.for %i = ... { vector.load %x[%row, %i] ... }
          scf.for %i = ... {
            memref.prefetch %x[%next, %i], read, locality<3>, data : memref<8192x1024xf32>
            vector.load %x[%row, %i] ...
          }
        }

    A reduction with one sweep over its rows prefetches some lines ahead, beyond the end of a row in the next one:
    processors that prefetch along a stream begin again with each page.

    An elementwise loop that computes much per element, over far more data than the caches hold, prefetches some
    lines ahead: its instructions fill the processor's window before the next loads enter it.

    Preconditions: bufferised, vectors of one dimension, loops over blocks distributed.

    Attributes:
        target: machine that the kernels are for, in the form that `Target.parse` accepts.
        min_bytes: minimum size in bytes of memory whose rows are prefetched; 0 for a size that hardly fits a near
            cache.
        min_stream: minimum size in bytes of memory that elementwise loops prefetch; 0 for a size that exceeds all
            caches.
    """

    name = "stepwell-prefetch-rows"
    target: str = "cpu"
    min_bytes: int = 0
    min_stream: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits the kernels of a module."""
        machine = Target.parse(self.target).machine
        for kernel in kernels_in(op):
            kind = class_of(kernel)
            if kind == "reduction":
                large = self._large(kernel, self.min_bytes or caches.weight_bytes(machine))
                for loop in [inner for inner in walk(kernel) if inner.name == "scf.for"]:
                    _prefetch_next(loop, large, machine)
                    _prefetch_stream(loop, large, machine)
            elif kind == "elementwise":
                large = self._large(kernel, self.min_stream or caches.stream_bytes(machine))
                for loop in [inner for inner in walk(kernel) if inner.name == "scf.for"]:
                    _prefetch_ahead(loop, large, machine)

    def _large(self, kernel: ir.Operation, least: int) -> list[ir.Value]:
        arguments = [item for item in body_of(kernel).arguments if isinstance(item.type, ir.MemRefType)]
        return [item for item in arguments if has_bytes(item.type, least)]


def _prefetch_next(loop: ir.Operation, large: list[ir.Value], machine: Machine) -> None:
    """Makes the second sweep over a row of each large argument prefetch the next row."""
    seen: list[ir.Value] = []
    prefetched: list[ir.Value] = []
    for sweep in [op.operation for op in loop.regions[0].blocks[0].operations if op.operation.name == "scf.for"]:
        loads = [op for op in walk(sweep) if op.name == "vector.load" and _root(op) in large]
        for load in loads:
            if _root(load) in seen and _root(load) not in prefetched:
                _prefetch_row(load, loop, sweep, machine)
        prefetched += [_root(load) for load in loads if _root(load) in seen]
        seen += [_root(load) for load in loads]


def _prefetch_stream(loop: ir.Operation, large: list[ir.Value], machine: Machine) -> None:
    """Makes the only sweep over the rows of a large argument prefetch lines ahead."""
    sweeps = [op.operation for op in loop.regions[0].blocks[0].operations if op.operation.name == "scf.for"]
    if len(sweeps) != 1 or any(len(op.regions) for op in sweeps[0].regions[0].blocks[0].operations):
        return
    row, index = loop.regions[0].blocks[0].arguments[0], sweeps[0].regions[0].blocks[0].arguments[0]
    for load in [op for op in walk(sweeps[0]) if op.name == "vector.load" and _root(op) in large]:
        view, *places = load.operands
        kind = ir.MemRefType(view.type)
        steps = _AHEAD // numpy_dtype(kind.element_type).itemsize
        is_contiguous = len(places) > 1 and list(kind.get_strides_and_offset()[0])[-2:] == [kind.shape[-1], 1]
        if places[-2:] != [row, index] or not is_contiguous or kind.shape[-1] < steps:
            continue
        with load.location, ir.InsertionPoint(sweeps[0]):
            after = arith.addi(row, loop.operands[2])
            is_inside = arith.cmpi(arith.CmpIPredicate.slt, after, loop.operands[1])
            distance = arith.select(
                is_inside, arith.constant(ir.IndexType.get(), steps), arith.constant(ir.IndexType.get(), 0)
            )
        with load.location, ir.InsertionPoint(load):
            ahead = arith.addi(index, distance)
        _prefetch(load, view, [*places[:-1], ahead], _IN_FIRST_LEVEL, machine)


def _prefetch_row(load: ir.Operation, loop: ir.Operation, sweep: ir.Operation, machine: Machine) -> None:
    view = load.operands[0]
    size = _row_bytes(view)
    is_near = size <= caches.row_bytes(machine)
    # The second level is worth it only for memory that is not cached already.
    may_be_cached = not has_bytes(_root(load).type, caches.kept_bytes(machine))
    if size > caches.weight_bytes(machine) or (not is_near and may_be_cached):
        return
    locality = _IN_FIRST_LEVEL if is_near else _IN_SECOND_LEVEL
    body = loop.regions[0].blocks[0]
    places = list(load.operands)
    with load.location:
        with ir.InsertionPoint(sweep):
            index = body.arguments[0]
            after = arith.addi(index, loop.operands[2])
            is_inside = arith.cmpi(arith.CmpIPredicate.slt, after, loop.operands[1])
            moved = _Moved(body, arith.select(is_inside, after, index))
            ahead = [moved.value(place) for place in places]
        if ahead != places:
            _prefetch(load, ahead[0], ahead[1:], locality, machine)


class _Moved:
    """Values of a loop in another iteration, recomputed at the insertion point."""

    def __init__(self, body: ir.Block, index: ir.Value) -> None:
        self._body = body
        self._known: dict[ir.Value, ir.Value] = {body.arguments[0]: index}

    def value(self, value: ir.Value) -> ir.Value:
        """Returns `value` in that iteration; itself if it does not depend on the iteration."""
        if value in self._known:
            return self._known[value]
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.operation.block != self._body or owner.name not in _PURE:
            return value
        operands = [self.value(operand) for operand in owner.operands]
        if operands == list(owner.operands):
            return value
        copy = owner.operation.clone()
        for position, operand in enumerate(operands):
            copy.operation.operands[position] = operand
        self._known[value] = copy.operation.results[0]
        return self._known[value]


def _prefetch_ahead(loop: ir.Operation, large: list[ir.Value], machine: Machine) -> None:
    """Makes a loop with much computation prefetch the operands of a later iteration."""
    block = loop.regions[0].blocks[0]
    ops = [op.operation for op in block.operations]
    work = sum(isinstance(result.type, ir.VectorType) for op in ops for result in op.results)
    if work < _MANY_OPS or any(len(op.regions) for op in ops):
        return
    index = block.arguments[0]
    for load in [op for op in ops if op.name == "vector.load" and _root(op) in large]:
        *outer, last = list(load.operands)[1:]
        if last != index:
            continue
        steps = _AHEAD // numpy_dtype(ir.MemRefType(load.operands[0].type).element_type).itemsize
        with load.location, ir.InsertionPoint(load):
            after = arith.addi(index, arith.constant(ir.IndexType.get(), steps))
            is_inside = arith.cmpi(arith.CmpIPredicate.slt, after, loop.operands[1])
            ahead = arith.select(is_inside, after, index)
        _prefetch(load, load.operands[0], [*outer, ahead], _IN_FIRST_LEVEL, machine)


def _prefetch(load: ir.Operation, view: ir.Value, indices: list[ir.Value], locality: int, machine: Machine) -> None:
    """Prefetches, before a load, as many lines as the load reads, from other indices."""
    kind = ir.VectorType(load.results[0].type)
    size = numpy_dtype(kind.element_type).itemsize
    *outer, last = indices
    with load.location, ir.InsertionPoint(load):
        for first in range(0, kind.shape[0], max(1, machine.line_bytes // size)):
            place = arith.addi(last, arith.constant(ir.IndexType.get(), first)) if first else last
            memref.prefetch(view, [*outer, place], False, locality, True)


def _root(load: ir.Operation) -> ir.Value:
    return region_of(load.operands[0]).root


def _row_bytes(view: ir.Value) -> int:
    """Returns the bytes of the rows of an iteration: those of a view that was cut out for it, or those of one row."""
    kind = ir.MemRefType(view.type)
    is_cut = not isinstance(view.owner, ir.Block) and view.owner.name == "memref.subview"
    return math.prod(kind.shape if is_cut else kind.shape[-1:]) * numpy_dtype(kind.element_type).itemsize
