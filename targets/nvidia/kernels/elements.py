"""The fallback schedule `elements` for all pure ops: each thread computes a few neighbouring elements."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from ....lowering.builders.strides import strides_of_made
from ....passes.ir.functions import body_of
from ..emission.indices import Index, add, delinearize, multiply, value_of
from ..emission.launch import EmittedGeometry, LaunchContext, Memory, below, block_id, thread_id
from ..emission.values import Values, pack

# Threads per block, and per block of small results, so that more multiprocessors have one: choices.
_THREADS, _FEWEST = 256, 64
_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")


def emit(launch: LaunchContext, values: Values) -> EmittedGeometry:
    """Writes the kernel: each thread computes and stores `vector` neighbours along the innermost dimension."""
    root, target = root_of(launch)
    width, threads = int(str(launch.schedule["vector"])), int(str(launch.schedule["threads"]))
    if 0 in target.shape:
        return EmittedGeometry((1, 1, 1), (threads, 1, 1))  # nothing to write
    count = math.prod(target.shape)
    groups = -(-count // width) if len(target.shape) == 1 else count // width
    thread = add(multiply(block_id(), threads), thread_id())
    inside = scf.IfOp(below(value_of(thread), groups))
    with values.scope(), ir.InsertionPoint(inside.then_block):
        _store(values, root, target, _place(thread, target.shape, width), width)
        scf.YieldOp([])
    return EmittedGeometry((-(-groups // threads), 1, 1), (threads, 1, 1))


def _place(thread: Index, shape: tuple[int, ...], width: int) -> list[Index]:
    """Returns the indices of a thread's first element."""
    if not shape:
        return []
    if len(shape) == 1:
        return [multiply(thread, width)]
    *outer, last = delinearize(thread, [*shape[:-1], shape[-1] // width])
    return [*outer, multiply(last, width)]


def _store(values: Values, root: ir.Value, target: Memory, place: list[Index], width: int) -> None:
    if width == 1 or target.shape[-1] % width == 0:
        target.store(pack(values.lanes(root, place, width)), place)
        return
    # A one-dimensional tensor whose last group is incomplete.
    first = value_of(place[0])
    whole = scf.IfOp(below(first, target.shape[0] - width + 1), has_else=True)
    with values.scope(), ir.InsertionPoint(whole.then_block):
        target.store(pack(values.lanes(root, place, width)), place)
        scf.YieldOp([])
    with values.scope(), ir.InsertionPoint(whole.operation.regions[1].blocks[0]):
        rest = scf.ForOp(first, value_of(target.shape[0]), value_of(1))
        with values.scope(), ir.InsertionPoint(rest.body):
            target.store(values.element(root, [rest.induction_variable]), [rest.induction_variable])
            scf.YieldOp([])
        scf.YieldOp([])


def root_of(launch: LaunchContext) -> tuple[ir.Value, Memory]:
    """Returns the computed tensor, before any reshape that the destination's layout permits, and its memory."""
    return root_before(launch.function, launch.result, launch.destination)


def root_before(function: ir.Operation, value: ir.Value, destination: Memory) -> tuple[ir.Value, Memory]:
    """Returns the source of `value` before all reshapes that the destination's strides permit, and its memory."""
    strides = strides_of_made(function)
    while not isinstance(value.owner, ir.Block) and value.owner.name in _RESHAPES:
        source = value.owner.operands[0]
        if source not in strides:
            break
        value = source
    shape = tuple(ir.RankedTensorType(value.type).shape)
    return value, Memory(destination.base, shape, tuple(strides[value]), destination.alignment, destination.offset)


@dataclass(frozen=True)
class ElementSchedule:
    """Parameters of the schedule.

    Attributes:
        vector: number of neighbouring elements per thread.
        threads: number of threads per block.
    """

    vector: int
    threads: int


def choose(function: ir.Operation, destination: Memory) -> ElementSchedule:
    """Chooses up to 16 bytes of neighbours per thread, fewer if the threads would otherwise not fill one block."""
    block = body_of(function)
    _, target = root_before(function, block.operations[len(block.operations) - 1].operands[0], destination)
    width, count = target.width(), math.prod(target.shape)
    while width > 1 and count // width < _THREADS:
        width //= 2
    groups = -(-count // width)
    return ElementSchedule(width, _THREADS if groups >= _THREADS * 8 else _FEWEST)
