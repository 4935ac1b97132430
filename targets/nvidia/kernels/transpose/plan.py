"""Description of a transposing kernel: batches of matrix transposes, and their tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from .....machines.gpus import ACCESS_BYTES, BANK_BYTES
from .....support.errors import StepwellError
from ...emission.launch import Memory
from ...emission.views import memory_of
from ..elements import root_before
from ..rows.axes import element_bytes
from ..rows.generics import is_read, iterators, loop_sizes, maps

# Tile size by element size: eight threads write 128 contiguous bytes.
_TILES = {1: 128, 2: 64, 4: 64, 8: 32}
# Bytes of a tile per thread, four of the widest accesses, and limits of the threads of a block: choices.
_BYTES_PER_THREAD = 64
_FEWEST_THREADS, _MOST_THREADS = 64, 256


class NoTranspose(StepwellError):
    """A kernel contains no supported transpose; the message gives the reason."""


@dataclass(frozen=True)
class TransposeOperand:
    """A tensor in memory, along the loops of the kernel.

    Attributes:
        base: the function's argument.
        offset: offset of the first element, in elements.
        strides: stride of every loop.
        element: element type in memory.
        alignment: alignment of its address in bytes.
        is_transposed: whether it is contiguous along another loop than the result and therefore passes through shared
            memory.
    """

    base: ir.Value
    offset: int
    strides: tuple[int, ...]
    element: ir.Type
    alignment: int
    is_transposed: bool = False


@dataclass(frozen=True)
class Transpose:
    """A kernel of one op that reads some operands along `source` and writes along `target`.

    Attributes:
        op: the linalg.generic.
        sizes: extents of the loops, after merging neighbours.
        source: the loop along which the transposed operands are contiguous.
        target: the loop along which the result is contiguous.
        operands: the operands by position; None for those that the body does not read.
        result: the result.
    """

    op: ir.Operation
    sizes: tuple[int, ...]
    source: int
    target: int
    operands: tuple[TransposeOperand | None, ...]
    result: TransposeOperand

    @property
    def batch(self) -> tuple[int, ...]:
        """The other loops."""
        return tuple(loop for loop in range(len(self.sizes)) if loop not in (self.source, self.target))

    @property
    def transposed(self) -> list[TransposeOperand]:
        """The operands that pass through shared memory."""
        return [operand for operand in self.operands if operand is not None and operand.is_transposed]


@dataclass(frozen=True)
class Staging:
    """Layout of a transposed operand in shared memory, in words of 4 bytes or of one element.

    A word holds `packed` elements, neighbours along the target loop. The tile is [target / packed][source]. Its lines
    are 4 bytes longer than the tile's width, so that a warp accesses every bank once both when it writes and when it
    reads.

    Attributes:
        packed: elements per word.
        word_bytes: size of a word in bytes.
        read: elements per access to global memory along the source loop.
    """

    packed: int
    word_bytes: int
    read: int

    def words(self, tile: int) -> int:
        """Returns the number of words of a tile."""
        return tile // self.packed * self.pitch(tile)

    def pitch(self, tile: int) -> int:
        """Returns the words per line, padded so that consecutive lines start in consecutive banks."""
        return tile + max(1, BANK_BYTES // self.word_bytes)


@dataclass(frozen=True)
class TransposeSchedule:
    """Parameters of the schedule `transpose`.

    Attributes:
        tile: elements along source and along target per block.
        threads: threads per block.
        written: elements per store to the result.
    """

    tile: int
    threads: int
    written: int


def transpose_of(function: ir.Operation, known: Mapping[ir.Value, Memory]) -> Transpose:
    """Returns the transpose that a function of linalg on tensors computes.

    Args:
        function: inputs first, the destination last.
        known: layout of its arguments in memory.

    Raises:
        NoTranspose: it does not compute one.
    """
    block = function.regions[0].blocks[0]
    generics = [op.operation for op in block.operations if op.operation.name == "linalg.generic"]
    *_, returned = block.operations
    if len(generics) != 1 or len(generics[0].results) != 1 or "reduction" in iterators(generics[0]):
        raise NoTranspose("it is not one op without reductions")
    (op,) = generics
    root, memory = root_before(function, returned.operands[0], known[block.arguments[len(block.arguments) - 1]])
    if root != op.results[0]:
        raise NoTranspose("its result is not that of its linalg.generic")
    sizes = loop_sizes(op)
    result = _along(memory, maps(op)[-1], len(sizes))
    operands: list[TransposeOperand | None] = []
    for position, operand in enumerate(op.operands):
        if not is_read(op, position):
            operands.append(None)
            continue
        view = memory_of(operand, known) if isinstance(operand.type, ir.RankedTensorType) else None
        if view is None:
            raise NoTranspose("it reads an operand that is not in memory")
        operands.append(_along(view, maps(op)[position], len(sizes)))
    return _merged(op, sizes, operands, result)


def choose(plan: Transpose) -> TransposeSchedule:
    """Chooses the schedule for a transpose by its sizes."""
    width = max(element_bytes(operand.element) for operand in (*plan.transposed, plan.result))
    tile = _TILES[min(width, 2 * BANK_BYTES)]
    threads = tile * tile * width // _BYTES_PER_THREAD
    written = _vector(plan, plan.result, plan.target)
    return TransposeSchedule(tile, max(_FEWEST_THREADS, min(_MOST_THREADS, threads)), written)


def staging(plan: Transpose, operand: TransposeOperand, schedule: TransposeSchedule) -> Staging:
    """Returns the layout of an operand in shared memory."""
    packed = max(1, BANK_BYTES // element_bytes(operand.element))
    if schedule.written % packed or plan.sizes[plan.target] % packed:
        packed = 1
    return Staging(packed, packed * element_bytes(operand.element), _vector(plan, operand, plan.source))


def blocks(plan: Transpose, schedule: TransposeSchedule) -> tuple[int, int, int]:
    """Returns the number of tiles along source, of tiles along target, and of batches."""
    along, across = (-(-plan.sizes[loop] // schedule.tile) for loop in (plan.source, plan.target))
    return along, across, math.prod(plan.sizes[loop] for loop in plan.batch)


def shared_bytes(plan: Transpose, schedule: TransposeSchedule) -> int:
    """Returns the shared memory of a block in bytes."""
    return sum(operand_bytes(plan, operand, schedule) for operand in plan.transposed)


def operand_bytes(plan: Transpose, operand: TransposeOperand, schedule: TransposeSchedule) -> int:
    """Returns the shared memory of one operand in bytes."""
    stage = staging(plan, operand, schedule)
    size = stage.words(schedule.tile) * stage.word_bytes
    return -(-size // ACCESS_BYTES) * ACCESS_BYTES


def _vector(plan: Transpose, operand: TransposeOperand, along: int) -> int:
    """Returns the maximum number of elements per access along a loop."""
    others = [stride for loop, stride in enumerate(operand.strides) if loop != along]
    width = element_bytes(operand.element)
    return math.gcd(ACCESS_BYTES // width, plan.sizes[along], operand.offset, operand.alignment // width, *others)


def _along(view: Memory, map_: ir.AffineMap, count: int) -> TransposeOperand:
    strides = [0] * count
    for expr, size, stride in zip(map_.results, view.shape, view.strides, strict=True):
        match expr.maybe_downcast():
            case ir.AffineDimExpr(position=position) if size > 1:
                strides[position] += stride
            case ir.AffineDimExpr() | ir.AffineConstantExpr(value=0):
                pass
            case _:
                raise NoTranspose("it has an index that is not a single loop or zero")
    return TransposeOperand(
        view.base, view.offset, tuple(strides), ir.ShapedType(view.base.type).element_type, view.alignment
    )


def _merged(
    op: ir.Operation, sizes: Sequence[int], operands: Sequence[TransposeOperand | None], result: TransposeOperand
) -> Transpose:
    """Merges the loops, sorts them by the result's strides, and finds the transposed operands."""
    order = sorted((loop for loop, size in enumerate(sizes) if size > 1), key=lambda loop: -result.strides[loop])
    everything = [operand for operand in (*operands, result) if operand is not None]
    if _reads_indices(op):
        raise NoTranspose("its body reads indices")
    runs: list[list[int]] = []
    for loop in order:
        if runs and all(item.strides[runs[-1][-1]] == item.strides[loop] * sizes[loop] for item in everything):
            runs[-1].append(loop)
        else:
            runs.append([loop])
    if not runs:
        raise NoTranspose("it has one element")
    lengths = tuple(math.prod(sizes[loop] for loop in run) for run in runs)
    target = len(runs) - 1

    def along(item: TransposeOperand) -> TransposeOperand:
        strides = tuple(item.strides[run[-1]] for run in runs)
        return TransposeOperand(
            item.base, item.offset, strides, item.element, item.alignment, 1 in strides and strides[target] != 1
        )

    merged = tuple(along(operand) if operand is not None else None for operand in operands)
    sources = {
        item.strides.index(1) for item in merged if item is not None and item.is_transposed and item.strides[target]
    }
    if len(sources) != 1:
        raise NoTranspose("expected operands contiguous along exactly one loop other than the result's")
    return Transpose(op, lengths, sources.pop(), target, merged, along(result))


def _reads_indices(op: ir.Operation) -> bool:
    return any(inner.operation.name == "linalg.index" for inner in op.regions[0].blocks[0].operations)
