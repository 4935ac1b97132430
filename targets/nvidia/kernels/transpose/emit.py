"""Code of a transpose: reads a tile along one loop, transposes it in shared memory, and writes it along another.

Accesses to global memory have 16 bytes if sizes permit. In shared memory, a word is 4 bytes; smaller elements that are
neighbours along the target loop are packed. The tile is [target][source], and a line is 4 bytes longer than the tile's
width. A warp writes n words of n lines with each group of 32 / n threads, and reads one column's words of 32 lines.
Both accesses touch all 32 banks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir
from mlir.dialects import gpu, vector

from .....machines.gpus import BANK_BYTES, BANKS, WARP
from ...emission.bodies import evaluate
from ...instructions import memory
from ...instructions.integers import Int, both
from ...instructions.loops import when
from ..rows.axes import element_bytes
from .plan import Staging, Transpose, TransposeOperand, TransposeSchedule, blocks, operand_bytes, staging


def emit(plan: Transpose, schedule: TransposeSchedule, pointers: dict[ir.Value, ir.Value], shared: ir.Value) -> None:
    """Writes the body of a GPU kernel at the insertion point.

    Args:
        plan: the transpose.
        schedule: tile sizes.
        pointers: addresses of the function's arguments in global memory.
        shared: shared memory.
    """
    _Kernel(plan, schedule, pointers, shared).emit()


class _Kernel:
    def __init__(
        self, plan: Transpose, schedule: TransposeSchedule, pointers: dict[ir.Value, ir.Value], shared: ir.Value
    ) -> None:
        self._plan, self._schedule, self._pointers = plan, schedule, pointers
        self._tiles: dict[TransposeOperand, ir.Value] = {}
        used = 0
        for operand in plan.transposed:
            self._tiles[operand] = memory.element_pointer(shared, ir.IntegerType.get_signless(8), Int(0), used)
            used += operand_bytes(plan, operand, schedule)

    def emit(self) -> None:
        """Reads a tile of every transposed operand, then writes a tile of the result."""
        self._locate()
        for operand in self._plan.transposed:
            self._read(operand, staging(self._plan, operand, self._schedule))
        gpu.barrier()
        self._write()

    def _locate(self) -> None:
        """Computes the block's tile and batch indices."""
        self._warp, self._lane = divmod(memory.thread_number(), WARP)
        source_tiles, target_tiles, _ = blocks(self._plan, self._schedule)
        rest, source = (
            divmod(memory.block_number(), source_tiles) if source_tiles > 1 else (memory.block_number(), Int(0))
        )
        batch, target = divmod(rest, target_tiles) if target_tiles > 1 else (rest, Int(0))
        self._source, self._target = source * self._schedule.tile, target * self._schedule.tile
        self._batch: dict[int, Int] = {}
        for position, loop in reversed(list(enumerate(self._plan.batch))):
            self._batch[loop] = batch % self._plan.sizes[loop] if position else batch
            batch = batch // self._plan.sizes[loop] if position else batch

    def _pieces(self, across: int, down: int, width: int, most: int) -> Iterator[tuple[Int, Int]]:
        """Yields the starts of this thread's pieces of a tile.

        Args:
            across: size of the tile in the direction in which lanes are adjacent.
            down: size of the tile in the other direction.
            width: elements of one thread in the direction across.
            most: maximum number of adjacent lanes.

        Yields:
            The index across and down.
        """
        lanes = min(most, across // width)
        y, x = divmod(self._lane, lanes)
        rows, columns = WARP // lanes, lanes * width
        parts = (across // columns) * (down // rows)
        for part in range(0, parts, self._schedule.threads // WARP):
            line, column = divmod(self._warp + part, across // columns)
            yield column * columns + x * width, line * rows + y

    def _read(self, operand: TransposeOperand, stage: Staging) -> None:
        """Copies a tile of an operand from global to shared memory."""
        tile, sizes = self._schedule.tile, self._plan.sizes
        loaded = []
        word_bytes = stage.word_bytes
        most = BANKS * BANK_BYTES // max(stage.read * word_bytes, BANK_BYTES)
        for across, down in list(self._pieces(tile, tile // stage.packed, stage.read, most)):
            source, target = self._source + across, self._target + down * stage.packed
            # Past the ends, the last elements are read again; they are never written to the result.
            source = source.where(self._inside(source, self._plan.source), sizes[self._plan.source] - stage.read)
            target = target.where(self._inside(target, self._plan.target), sizes[self._plan.target] - stage.packed)
            first = self._address(operand, source, target)
            lines = [
                self._load(operand, first, row * operand.strides[self._plan.target], stage.read)
                for row in range(stage.packed)
            ]
            loaded.append((across, down, lines))
        for across, down, lines in loaded:
            place = memory.element_pointer(
                self._tiles[operand], _word(operand, stage), down * stage.pitch(tile) + across
            )
            for number in range(stage.read):
                word = _packed([line[number] for line in lines])
                memory.store(word, memory.element_pointer(place, word.type, Int(0), number), word_bytes)

    def _write(self) -> None:
        tile, plan = self._schedule.tile, self._plan
        written = self._schedule.written
        stage = staging(plan, plan.transposed[0], self._schedule)
        # Each word that a lane reads is on a different line.
        most = BANKS * BANK_BYTES // max(stage.word_bytes, BANK_BYTES) // (written // stage.packed)
        for down, across in list(self._pieces(tile, tile, written, most)):
            source, target = self._source + across, self._target + down
            has = both(self._inside(source, plan.source), self._inside(target, plan.target))
            columns = [
                None if operand is None else self._elements(operand, across, down, source, target, has)
                for operand in plan.operands
            ]
            results = []
            for number in range(written):
                results.append(evaluate(plan.op, [None if column is None else column[number] for column in columns]))
            with when(has):
                value = (
                    vector.from_elements(ir.VectorType.get([written], results[0].type), results)
                    if written > 1
                    else results[0]
                )
                pointer = self._address(plan.result, source, target)
                memory.store(value, pointer, written * element_bytes(plan.result.element))

    def _elements(
        self, operand: TransposeOperand, across: Int, down: Int, source: Int, target: Int, has: ir.Value | None
    ) -> list[ir.Value]:
        """Returns the elements of an operand for one store of the thread."""
        written, plan = self._schedule.written, self._plan
        if operand in self._tiles:
            stage = staging(plan, operand, self._schedule)
            kind, step = _word(operand, stage), stage.pitch(self._schedule.tile)
            place = memory.element_pointer(self._tiles[operand], kind, (down // stage.packed) * step + across)
            words = [
                memory.load(
                    kind,
                    memory.element_pointer(place, kind, Int(0), number * step),
                    stage.word_bytes,
                )
                for number in range(written // stage.packed)
            ]
            return [item for word in words for item in _unpacked(word, operand.element, stage.packed)]
        sizes = plan.sizes
        source = source.where(has, sizes[plan.source] - 1)
        target = target.where(has, sizes[plan.target] - written)
        stride = operand.strides[plan.target]
        first = self._address(operand, source, target)
        return [self._load(operand, first, number * stride, 1)[0] for number in range(written if stride else 1)] * (
            1 if stride else written
        )

    def _inside(self, index: Int, loop: int) -> ir.Value | None:
        """Returns whether an index is in a loop's bounds; None if all indices are."""
        return index.below(self._plan.sizes[loop]) if self._plan.sizes[loop] % self._schedule.tile else None

    def _address(self, operand: TransposeOperand, source: Int, target: Int) -> ir.Value:
        offset = source * operand.strides[self._plan.source] + target * operand.strides[self._plan.target]
        for loop, index in self._batch.items():
            offset = offset + index * operand.strides[loop]
        return memory.element_pointer(self._pointers[operand.base], operand.element, offset, operand.offset)

    def _load(self, operand: TransposeOperand, first: ir.Value, offset: int, count: int) -> list[ir.Value]:
        pointer = memory.element_pointer(first, operand.element, Int(0), offset)
        kind = ir.VectorType.get([count], operand.element) if count > 1 else operand.element
        value = memory.load(kind, pointer, count * element_bytes(operand.element))
        return [vector.extract(value, [], [number]) for number in range(count)] if count > 1 else [value]


def _word(operand: TransposeOperand, stage: Staging) -> ir.Type:
    return ir.VectorType.get([stage.packed], operand.element) if stage.packed > 1 else operand.element


def _packed(items: Sequence[ir.Value]) -> ir.Value:
    return items[0] if len(items) == 1 else vector.from_elements(ir.VectorType.get([len(items)], items[0].type), items)


def _unpacked(word: ir.Value, element: ir.Type, packed: int) -> list[ir.Value]:
    return [word] if packed == 1 else [vector.extract(word, [], [number]) for number in range(packed)]
