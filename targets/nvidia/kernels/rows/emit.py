"""Code of a row kernel: the threads that share a row read it once into registers and write it once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, scf, vector

from .....machines.gpus import WARP
from ...instructions import memory
from ...instructions.integers import Int, both, constant
from ...instructions.loops import when
from . import exchange
from .axes import Axes
from .elements import COLUMN, ROW, LaneKey, RowElements
from .schedule import RowSchedule
from .space import RowSpace, Written

Visit = Callable[[int, ir.Value | None, list[ir.Value]], list[ir.Value]]


def shared_bytes(space: RowSpace, axes: Axes, schedule: RowSchedule) -> int:
    """Returns the shared memory of a block in bytes."""
    return sum(_exchanged_bytes(_types(space, axes, step), axes, schedule) for step in space.reductions)


def emit(
    space: RowSpace, axes: Axes, schedule: RowSchedule, pointers: dict[ir.Value, ir.Value], shared: ir.Value | None
) -> None:
    """Writes the body of a GPU kernel at the insertion point.

    Args:
        space: the kernel.
        axes: its dimensions.
        schedule: the distribution of rows over threads.
        pointers: addresses of the function's arguments in global memory.
        shared: shared memory of `shared_bytes` bytes, or None if that is 0.
    """
    _RowKernel(space, axes, schedule, pointers, shared).emit()


def _types(space: RowSpace, axes: Axes, step: Sequence[ir.Operation]) -> list[ir.Type]:
    """Returns the types of a thread's partial results for the reductions of one step."""
    lanes = 1 if axes.along_columns else axes.lanes
    return [space.combiners[op.results[0]].type for op in step for _ in range(lanes)]


def _exchanged_bytes(types: Sequence[ir.Type], axes: Axes, schedule: RowSchedule) -> int:
    """Returns the shared memory in bytes for combining values of these types."""
    if schedule.share == 1:
        return 0
    if not axes.along_columns:
        return exchange.bytes_between_columns(types, schedule.threads, schedule.threads // schedule.share)
    return exchange.bytes_between_warps(types, schedule.threads) if schedule.share > WARP else 0


class _RowKernel:
    """Emits one kernel; every thread has one group of rows and several groups of columns."""

    def __init__(
        self,
        space: RowSpace,
        axes: Axes,
        schedule: RowSchedule,
        pointers: dict[ir.Value, ir.Value],
        shared: ir.Value | None,
    ) -> None:
        self._space, self._axes, self._schedule, self._shared = space, axes, schedule, shared
        self._elements = RowElements(space, axes, pointers)
        self._row_lanes, self._column_lanes = (1, axes.lanes) if axes.along_columns else (axes.lanes, 1)
        self._rows, self._columns = space.extent(space.rows), space.extent(tuple(space.columns))
        self._step = schedule.share * self._column_lanes
        self._used = self._groups = 0
        self._held: list[tuple[int, ir.Value | None]] = []

    def emit(self) -> None:
        """Reduces step by step, then writes."""
        self._locate()
        for step in self._space.reductions:
            self._reduce(step)
        self._write()

    def _locate(self) -> None:
        """Computes this thread's row and first column."""
        self._thread, block = memory.thread_number(), memory.block_number()
        share = self._schedule.share
        if self._axes.along_columns:
            inside, self._first = divmod(self._thread, share)
            self._x, self._y = inside, self._first
            row = block * (self._schedule.threads // share) + inside
        else:
            across = self._schedule.threads // share
            self._y, self._x = divmod(self._thread, across)
            self._first = self._y
            row = (block * across + self._x) * self._row_lanes
        self._first = self._first * self._column_lanes
        self._has_row = None
        if self._rows % self._schedule.rows_per_block(self._axes):
            self._has_row = row.below(self._rows)
            row = row.where(self._has_row, self._rows - self._row_lanes)
        self._elements.place(ROW, 0, row)

    def _row_keys(self) -> list[LaneKey]:
        return [(0, lane) for lane in range(self._row_lanes)]

    def _column_keys(self, group: int) -> list[LaneKey]:
        return [(group, lane) for lane in range(self._column_lanes)]

    def _sweep(self, state: list[ir.Value], visit: Visit) -> list[ir.Value]:
        """Visits all of this thread's groups of columns."""
        if self._schedule.held:
            if not self._held:
                self._held = [self._group(Int(0), number) for number in range(self._schedule.held)]
            for group, valid in self._held:
                state = visit(group, valid, state)
            return state
        total, unroll = -(-self._columns // self._step), self._schedule.unroll
        turns = self._columns // self._step // unroll
        state = self._loop(turns, state, visit) if turns else state
        for number in range(turns * unroll, total):
            group, valid = self._group(Int(0), number)
            state = visit(group, valid, state)
        return state

    def _loop(self, turns: int, state: list[ir.Value], visit: Visit) -> list[ir.Value]:
        loop = scf.ForOp(constant(0), constant(turns), constant(1), state)
        with ir.InsertionPoint(loop.body), self._elements.loop(loop.operation):
            inner = list(loop.inner_iter_args)
            start = Int(loop.induction_variable) * (self._schedule.unroll * self._step)
            for number in range(self._schedule.unroll):
                group, _ = self._group(start, number, is_whole=True)
                inner = visit(group, None, inner)
            scf.YieldOp(inner)
        return list(loop.results)

    def _group(self, start: Int, number: int, is_whole: bool = False) -> tuple[int, ir.Value | None]:
        """Returns the number of a new group of columns, and whether it exists (None: always)."""
        self._groups += 1
        index, valid = start + self._first + number * self._step, None
        if not is_whole and (number + 1) * self._step > self._columns:
            valid = index.below(self._columns)
            index = index.where(valid, self._columns - self._column_lanes)
        self._elements.place(COLUMN, self._groups, index)
        return self._groups, valid

    def _reduce(self, step: Sequence[ir.Operation]) -> None:
        """Computes all reductions of one step in one pass over the columns."""
        combiners = [self._space.combiners[op.results[0]] for op in step]
        rows, lanes = self._row_keys(), self._column_lanes

        def visit(group: int, valid: ir.Value | None, state: list[ir.Value]) -> list[ir.Value]:
            made = []
            for combiner in combiners:
                for row in rows:
                    for column in self._column_keys(group):
                        sum_ = state[len(made)]
                        term = self._elements.inside(combiner.term, (row, column))
                        new = combiner.combine(sum_, term)
                        made.append(new if valid is None else arith.select(valid, new, sum_))
            return made

        starts = [combiner.start() for combiner in combiners for _ in range(len(rows) * lanes)]
        sums = self._sweep(starts, visit)
        each = [combiner for combiner in combiners for _ in rows]
        partial = [
            exchange.tree(sums[number * lanes : (number + 1) * lanes], combiner.combine)
            for number, combiner in enumerate(each)
        ]
        totals = self._exchange(partial, [combiner.combine for combiner in each])
        for number, (total, combiner) in enumerate(zip(totals, each, strict=True)):
            op, row = step[number // len(rows)], rows[number % len(rows)]
            start = self._elements.start(op, (row, (0, 0)))
            self._elements.bind(op.results[0], row, combiner.combine(start, total))

    def _exchange(self, values: list[ir.Value], combines: list[exchange.CombineValues]) -> list[ir.Value]:
        """Combines the values of the threads that share a row."""
        share, threads, first = self._schedule.share, self._schedule.threads, self._used
        if share == 1:
            return values
        used = _exchanged_bytes([value.type for value in values], self._axes, self._schedule)
        self._used += used
        shared = self._shared if self._shared is not None else self._thread.ir
        if not self._axes.along_columns:
            across = threads // share
            return exchange.across_columns(values, combines, shared, first, self._thread, threads, across)
        pairs = zip(values, combines, strict=True)
        values = [exchange.across_lanes(value, combine, min(share, WARP)) for value, combine in pairs]
        if not used:
            return values
        return exchange.across_warps(values, combines, shared, first, self._thread, threads, share // WARP)

    def _write(self) -> None:
        written = self._space.written
        if COLUMN not in self._sides(written):
            is_first = self._y.equals(0) if self._schedule.share > 1 else None
            self._store(written, [(0, 0)], both(is_first, self._has_row))
            return

        def visit(group: int, valid: ir.Value | None, state: list[ir.Value]) -> list[ir.Value]:
            self._store(written, self._column_keys(group), both(valid, self._has_row))
            return state

        self._sweep([], visit)

    def _sides(self, written: Written) -> set[str]:
        pairs = enumerate(written.access.strides)
        return {COLUMN if dim in self._space.columns else ROW for dim, stride in pairs if stride}

    def _store(self, written: Written, columns: Sequence[LaneKey], condition: ir.Value | None) -> None:
        """Writes this thread's part of the result in a group of columns."""
        places = [(row, column) for row in self._row_keys() for column in columns]
        values = [self._elements.at(written.value, place) for place in places]
        axis = (self._axes.columns if self._axes.along_columns else self._axes.rows)[-1]
        with when(condition):
            if len(values) > 1 and written.access.strides[axis[-1]] == 1:
                kind = ir.VectorType.get([len(values)], values[0].type)
                self._elements.store(written.access, vector.from_elements(kind, values), places[0])
                return
            for value, place in zip(values, places, strict=True):
                self._elements.store(written.access, value, place)
