"""Instruction streams for contractions: loads, products and stores in order, then the tokens that the order needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .blocking import LEFT, RIGHT, SUM_BUFFERS, Blocks, CubeContraction, best
from .isa import Box, CubeProgram, Engine, Instruction, Load, Multiply, Store, tiles
from .machine import CubeMachine
from .timeline import timeline

_TRIED = 8
"""Number of the best blocks, by the estimate, that are emitted to count their cycles."""
_VIEWS = {LEFT: 0, RIGHT: 1}
_RESULT = 2


def emit_best(contraction: CubeContraction, machine: CubeMachine) -> tuple[Blocks, CubeProgram]:
    """Returns the blocks that take the fewest cycles, and the stream for them."""
    tried = [(blocks, emit(contraction, blocks, machine)) for blocks in best(contraction, machine, _TRIED)]
    return min(tried, key=lambda item: timeline(item[1], machine).cycles)


def emit(contraction: CubeContraction, blocks: Blocks, machine: CubeMachine) -> CubeProgram:
    """Returns the stream that computes a contraction by blocks that fit."""
    views = contraction.left, contraction.right, contraction.result
    stream = with_tokens(list(_Emitter(contraction, blocks).in_order()))
    return CubeProgram(machine.name, contraction.sizes, views, stream)


def _ranges(extent: int, block: int) -> list[tuple[int, int]]:
    """Returns the start and size of each block along a dimension."""
    return [(start, min(block, extent - start)) for start in range(0, extent, block)]


class _Emitter:
    """Emits instructions in an order in which they are correct one after the other, without tokens."""

    def __init__(self, contraction: CubeContraction, blocks: Blocks) -> None:
        self._contraction, self._blocks = contraction, blocks
        self._depth = _ranges(contraction.k, blocks.k)
        self._elements = contraction.left.element, contraction.right.element
        self._bytes = {
            side: blocks.block_bytes(side, element) for side, element in zip((LEFT, RIGHT), self._elements, strict=True)
        }
        self._base = {LEFT: 0, RIGHT: blocks.slots(LEFT, len(self._depth)) * self._bytes[LEFT]}
        self._loads = {LEFT: 0, RIGHT: 0}
        self._stores = 0

    def in_order(self) -> Iterator[Instruction]:
        """Yields the instructions of all products."""
        rows = _ranges(self._contraction.m, self._blocks.m)
        columns = _ranges(self._contraction.n, self._blocks.n)
        for batch in range(self._contraction.batch):
            if self._blocks.outer == LEFT:
                order = [(row, column, column is columns[0]) for row in rows for column in columns]
            else:
                order = [(row, column, row is rows[0]) for column in columns for row in rows]
            for row, column, is_first in order:
                yield from self._block(batch, row, column, is_first)

    def _block(
        self, batch: int, row: tuple[int, int], column: tuple[int, int], is_first: bool
    ) -> Iterator[Instruction]:
        """Yields the instructions for one block of the result; `is_first` if its outer operand is a new one."""
        sums = self._stores % SUM_BUFFERS * self._blocks.sum_bytes
        for number, depth in enumerate(self._depth):
            boxes = {
                LEFT: _box(LEFT, batch * self._contraction.m, row, depth),
                RIGHT: _box(RIGHT, batch * self._contraction.k, depth, column),
            }
            addresses = {}
            for side, box in boxes.items():
                is_kept = side == self._blocks.outer and self._blocks.panels > 0
                if is_first or not is_kept:
                    self._loads[side] += 1
                    addresses[side] = self._slot(side, self._loads[side] - 1)
                    yield Load(box, addresses[side])
                else:
                    addresses[side] = self._slot(side, self._loads[side] - len(self._depth) + number)
            shape = tiles(row[1]), tiles(depth[1]), tiles(column[1])
            yield Multiply(addresses[LEFT], addresses[RIGHT], sums, shape, self._elements, starts=number == 0)
        yield Store(Box(_RESULT, batch * self._contraction.m + row[0], row[1], *column), sums)
        self._stores += 1

    def _slot(self, side: str, number: int) -> int:
        """Returns the address of the block that the `number`-th load of an operand fills."""
        return self._base[side] + number % self._blocks.slots(side, len(self._depth)) * self._bytes[side]


def _box(side: str, first: int, rows: tuple[int, int], columns: tuple[int, int]) -> Box:
    return Box(_VIEWS[side], first + rows[0], rows[1], *columns)


@dataclass
class _Uses:
    """Last accesses to a block in a scratchpad, as places in the stream: the write, and the reads since, by engine."""

    writer: tuple[Engine, int] | None = None
    readers: dict[Engine, int] = field(default_factory=dict)


def with_tokens(stream: Sequence[Instruction]) -> list[Instruction]:
    """Returns a stream with the tokens that make its engines keep the order of accesses to each block.

    An instruction waits for another engine only if it has not yet waited for a later instruction of that engine. The
    waits of one engine for another are therefore in the order of the signals, and each signal has one wait.
    """
    uses: dict[tuple[str, int], _Uses] = {}
    known = {(engine, other): -1 for engine in Engine for other in Engine}
    waits: list[list[Engine]] = [[] for _ in stream]
    signals: list[list[Engine]] = [[] for _ in stream]
    for place, item in enumerate(stream):
        needed: dict[Engine, int] = {}
        for space, address, is_write in _accesses(item):
            use = uses.setdefault((space, address), _Uses())
            before = [use.writer] if use.writer is not None else []
            before += use.readers.items() if is_write else []
            for engine, earlier in before:
                needed[engine] = max(earlier, needed.get(engine, -1))
            if is_write:
                uses[space, address] = _Uses((item.engine, place))
            else:
                use.readers[item.engine] = place
        for engine, earlier in needed.items():
            if engine != item.engine and earlier > known[item.engine, engine]:
                known[item.engine, engine] = earlier
                waits[place].append(engine)
                signals[earlier].append(item.engine)
    tokens = zip(stream, waits, signals, strict=True)
    return [replace(item, wait=tuple(sorted(wait)), signal=tuple(sorted(signal))) for item, wait, signal in tokens]


def _accesses(item: Instruction) -> list[tuple[str, int, bool]]:
    """Returns the blocks that an instruction uses: scratchpad, address, and whether it writes."""
    if isinstance(item, Load):
        return [("operands", item.address, True)]
    if isinstance(item, Store):
        return [("sums", item.address, False)]
    return [("operands", item.left, False), ("operands", item.right, False), ("sums", item.sums, True)]
