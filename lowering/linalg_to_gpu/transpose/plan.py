"""What a kernel that turns tensors around does: batches of transposes of matrices, and how they are cut into tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from ....runtime.errors import StepwellError
from ..elements import root_before
from ..launch import Memory
from ..rows.axes import element_bytes
from ..rows.generics import is_read, iterators, loop_sizes, maps
from ..views import memory_of

_VECTOR_BYTES, _WORD_BYTES, _BANKS = 16, 4, 32
# By the size of an element: eight threads write 128 neighbouring bytes.
_TILES = {1: 128, 2: 64, 4: 64, 8: 32}
_BYTES_PER_THREAD = 64
_FEWEST_THREADS, _MOST_THREADS = 64, 256


class NoTranspose(StepwellError):
    """A kernel transposes nothing; the message says why."""


@dataclass(frozen=True)
class Operand:
    """A tensor in memory, along the loops of the kernel.

    Attributes:
        base: the function's argument.
        offset: of the first element, in elements.
        strides: of every loop.
        element: the type in memory.
        alignment: what its address is a multiple of, in bytes.
        is_turned: whether it is contiguous along another loop than the result: it goes through shared memory.
    """

    base: ir.Value
    offset: int
    strides: tuple[int, ...]
    element: ir.Type
    alignment: int
    is_turned: bool = False


@dataclass(frozen=True)
class Transpose:
    """A kernel of one op that reads some operands along `source`, and writes along `target`.

    Attributes:
        op: the linalg.generic.
        sizes: of the loops, neighbours merged where that is possible.
        source: the loop along which the turned operands are contiguous.
        target: the loop along which the result is contiguous.
        operands: what the op reads, by its position; None where its body does not.
        result: what it writes.
    """

    op: ir.Operation
    sizes: tuple[int, ...]
    source: int
    target: int
    operands: tuple[Operand | None, ...]
    result: Operand

    @property
    def batch(self) -> tuple[int, ...]:
        """The other loops."""
        return tuple(loop for loop in range(len(self.sizes)) if loop not in (self.source, self.target))

    @property
    def turned(self) -> list[Operand]:
        """The operands that go through shared memory."""
        return [operand for operand in self.operands if operand is not None and operand.is_turned]


@dataclass(frozen=True)
class Staging:
    """How one turned operand goes through shared memory, in words of 4 bytes or of one element.

    A word holds `packed` elements, neighbours along the target loop; the tile is [target / packed][source], its lines
    4 bytes longer than the tile is wide, so that a warp meets every bank once on both ways.

    Attributes:
        packed: elements of a word.
        word_bytes: the size of a word.
        read: elements of one access to global memory along the source loop.
    """

    packed: int
    word_bytes: int
    read: int

    def words(self, tile: int) -> int:
        """The words of a tile."""
        return tile // self.packed * self.pitch(tile)

    def pitch(self, tile: int) -> int:
        """The words of a line: as many more than the tile is wide as make lines begin in the bank after the last's."""
        return tile + max(1, _WORD_BYTES // self.word_bytes)


@dataclass(frozen=True)
class TransposeSchedule:
    """The numbers of the schedule `transpose`.

    Attributes:
        tile: how many elements along source and target a block turns around.
        threads: threads of a block.
        written: elements of one access to the result.
    """

    tile: int
    threads: int
    written: int


def transpose_of(function: ir.Operation, known: Mapping[ir.Value, Memory]) -> Transpose:
    """The transpose that a function of linalg on tensors is.

    Args:
        function: inputs first, the destination last.
        known: how its arguments lie in memory.

    Raises:
        NoTranspose: it is none.
    """
    block = function.regions[0].blocks[0]
    generics = [op.operation for op in block.operations if op.operation.name == "linalg.generic"]
    *_, returned = block.operations
    if len(generics) != 1 or len(generics[0].results) != 1 or "reduction" in iterators(generics[0]):
        raise NoTranspose("it is not one op without reductions")
    (op,) = generics
    root, memory = root_before(function, returned.operands[0], known[block.arguments[len(block.arguments) - 1]])
    if root != op.results[0]:
        raise NoTranspose("it does more than one op")
    sizes = loop_sizes(op)
    result = _along(memory, maps(op)[-1], len(sizes))
    operands: list[Operand | None] = []
    for position, operand in enumerate(op.operands):
        if not is_read(op, position):
            operands.append(None)
            continue
        view = memory_of(operand, known) if isinstance(operand.type, ir.RankedTensorType) else None
        if view is None:
            raise NoTranspose("it reads what is not memory")
        operands.append(_along(view, maps(op)[position], len(sizes)))
    return _merged(op, sizes, operands, result)


def choose(plan: Transpose) -> TransposeSchedule:
    """The schedule for a transpose, by its sizes."""
    width = max(element_bytes(operand.element) for operand in (*plan.turned, plan.result))
    tile = _TILES[min(width, 2 * _WORD_BYTES)]
    threads = tile * tile * width // _BYTES_PER_THREAD
    written = _vector(plan, plan.result, plan.target)
    return TransposeSchedule(tile, max(_FEWEST_THREADS, min(_MOST_THREADS, threads)), written)


def staging(plan: Transpose, operand: Operand, schedule: TransposeSchedule) -> Staging:
    """How an operand goes through shared memory."""
    packed = max(1, _WORD_BYTES // element_bytes(operand.element))
    if schedule.written % packed or plan.sizes[plan.target] % packed:
        packed = 1
    return Staging(packed, packed * element_bytes(operand.element), _vector(plan, operand, plan.source))


def blocks(plan: Transpose, schedule: TransposeSchedule) -> tuple[int, int, int]:
    """Tiles along source, tiles along target, and batches."""
    along, across = (-(-plan.sizes[loop] // schedule.tile) for loop in (plan.source, plan.target))
    return along, across, math.prod(plan.sizes[loop] for loop in plan.batch)


def shared_bytes(plan: Transpose, schedule: TransposeSchedule) -> int:
    """The shared memory of a block."""
    return sum(operand_bytes(plan, operand, schedule) for operand in plan.turned)


def operand_bytes(plan: Transpose, operand: Operand, schedule: TransposeSchedule) -> int:
    """The shared memory for one operand."""
    stage = staging(plan, operand, schedule)
    size = stage.words(schedule.tile) * stage.word_bytes
    return -(-size // _VECTOR_BYTES) * _VECTOR_BYTES


def _vector(plan: Transpose, operand: Operand, along: int) -> int:
    """How many elements along a loop one access may take."""
    others = [stride for loop, stride in enumerate(operand.strides) if loop != along]
    width = element_bytes(operand.element)
    return math.gcd(_VECTOR_BYTES // width, plan.sizes[along], operand.offset, operand.alignment // width, *others)


def _along(view: Memory, map_: ir.AffineMap, count: int) -> Operand:
    strides = [0] * count
    for expr, size, stride in zip(map_.results, view.shape, view.strides, strict=True):
        match expr.maybe_downcast():
            case ir.AffineDimExpr(position=position) if size > 1:
                strides[position] += stride
            case ir.AffineDimExpr() | ir.AffineConstantExpr(value=0):
                pass
            case _:
                raise NoTranspose("it indexes in another way than by loops")
    return Operand(view.base, view.offset, tuple(strides), ir.ShapedType(view.base.type).element_type, view.alignment)


def _merged(op: ir.Operation, sizes: Sequence[int], operands: Sequence[Operand | None], result: Operand) -> Transpose:
    """Loops as few as possible, those of the result outermost first, and what is turned."""
    order = sorted((loop for loop, size in enumerate(sizes) if size > 1), key=lambda loop: -result.strides[loop])
    everything = [operand for operand in (*operands, result) if operand is not None]
    if _indexes(op):
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

    def along(item: Operand) -> Operand:
        strides = tuple(item.strides[run[-1]] for run in runs)
        return Operand(
            item.base, item.offset, strides, item.element, item.alignment, 1 in strides and strides[target] != 1
        )

    turned = tuple(along(operand) if operand is not None else None for operand in operands)
    sources = {item.strides.index(1) for item in turned if item is not None and item.is_turned and item.strides[target]}
    if len(sources) != 1:
        raise NoTranspose("nothing, or not everything, is turned the same way")
    return Transpose(op, lengths, sources.pop(), target, turned, along(result))


def _indexes(op: ir.Operation) -> bool:
    return any(inner.operation.name == "linalg.index" for inner in op.regions[0].blocks[0].operations)
