"""Attention on Hopper: the copy engine feeds warp groups that multiply directly from shared memory (`wgmma`).

    warp group 0, one thread:   query; for tiles of keys, the last first: keys -> ring, values -> ring
    the other warp groups:      scores 0 = query @ keys 0; weights 0 = softmax
                                for t = 1 ...: scores t = query @ keys t    | both asynchronous;
                                               sums += weights t-1 @ values | overlaps with the softmax of t

Each multiplying warp group has 64 rows. Weights are used as left-hand side directly from registers. If there are two or
more groups, they take turns in starting products, so that the products of one group overlap with the softmax of
another. Tiles are processed from last to first, because the last ones are those that a row may see only in part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, gpu, scf

from .....machines.gpus import WARP
from ...emission.launch import LaunchContext
from ...instructions import memory
from ...instructions.bulk_copies import copy_box, prefetch_map, publish_barriers
from ...instructions.inline_ptx import not_before
from ...instructions.integers import Int
from ...instructions.loops import repeat, when
from ...instructions.ring import Ring
from ...instructions.warp_groups import (
    ALIGNMENT,
    GROUP,
    Turns,
    await_products,
    matrix_descriptor,
    multiply_group,
    specialised,
)
from ..contraction.boxes import BoxedTile, boxed_tile
from ..contraction.wgmma import FORMS
from .boxed import GROUP_ROWS, ITEMS, operands, whole
from .fragments import DEPTH, SHARING, by_row, columns_of, left_fragment, row_of, rows_of, runs
from .problem import Attention
from .rows import AttentionRows, RowValues, smaller
from .softmax import number

_State = Sequence[ir.Value]


class WarpGroups(AttentionRows):
    """A block of one warp group that starts copies of tiles, and others that multiply them."""

    items = ITEMS
    lines = "q"

    def __init__(self, attention: Attention, sizes: tuple[int, int, int, int], launch: LaunchContext) -> None:
        """Prepares for `sizes`: multiplying warp groups, keys per tile, stages, and blocks."""
        super().__init__(attention, launch)
        self._groups, self.keys, self._stages, self._blocks = sizes
        self.threads, self.rows = GROUP * (self._groups + 1), GROUP_ROWS * self._groups
        described = operands(attention, self.rows, self.keys)
        self._query, self._key, self._value = (boxed_tile(launch, *operand) for operand in described)
        self._depth, self._width = (whole(attention.sizes[name], DEPTH) for name in "dv")
        self._form = FORMS[str(attention.query.element)].types

    def thread_rows(self) -> list[Int]:
        return rows_of(self.thread - GROUP, 1)

    def thread_keys(self) -> tuple[Int, list[int]]:
        return columns_of(self.thread, self.keys)

    def across(self) -> list[int]:
        return SHARING

    def results(self, sums: Sequence[ir.Value]) -> list[tuple[int, Int, list[ir.Value]]]:
        return runs(sums, self.thread, self._width)

    @property
    def padded(self) -> bool:
        return self._width > self.sizes["v"]

    def emit(self) -> int:
        """Writes the body at the insertion point; returns the number of blocks."""
        raw = memory.shared_address(memory.shared_memory())
        at = (raw + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
        tiles = [(1, self._query), (self._stages, self._key), (self._stages, self._value)]
        barriers = at + sum(stages * boxed.bytes for stages, boxed in tiles)
        rings = []
        for stages, boxed in tiles:
            rings.append(Ring(stages, boxed.bytes, at, barriers))
            at, barriers = at + stages * boxed.bytes, barriers + Ring.barrier_bytes(stages)
        self._rings = rings
        with when(self.thread.equals(0)):
            for ring, (_, boxed) in zip(rings, tiles, strict=True):
                prefetch_map(boxed.map)
                ring.make(self._groups * (GROUP // WARP))
            publish_barriers()
        gpu.barrier()
        specialised(self.thread, self._groups, self._copy, self._multiply)
        return self._blocks or self.row_blocks

    def _each(self, body: Callable[[_State], list[ir.Value]]) -> None:
        """Builds `body` for each row tile; the loop state is stage and parity of keys, and parity of queries.

        If a block processes several row tiles, the ring continues from one to the next.
        """
        carried = [Int(0).ir] * 3
        if not self._blocks:
            self.place(memory.block_number())
            body(carried)
            return
        loop = scf.ForOp(memory.block_number().ir, Int(self.row_blocks).ir, Int(self._blocks).ir, carried)
        with ir.InsertionPoint(loop.body):
            self.place(Int(loop.induction_variable))
            scf.yield_(body(list(loop.inner_iter_args)))

    def _tiles(self) -> tuple[Int, Int, Int]:
        """Returns the last tile of keys, the first one seen only in part by some rows (or the last), and the first."""
        first, whole, end = self.tiles_seen()
        last = end - 1
        # A block that sees no keys still processes one tile, which is fully masked.
        return last, smaller(whole, last), smaller(first, last)

    def _copy(self) -> None:
        queries, keys, values = self._rings

        def rows(carried: _State) -> list[ir.Value]:
            *places, turn = carried
            last, _, first = self._tiles()
            query = queries.begin(Int(0), Int(turn))
            self._copy_boxes(self._query, (self.first, Int(0)), queries.tiles(Int(0)), query)

            def step(number: Int, carried: _State) -> list[ir.Value]:
                stage, parity = map(Int, carried)
                key = (last - number) * self.keys
                corners = [(keys, self._key, (key, Int(0))), (values, self._value, (Int(0), key))]
                for ring, boxed, corner in corners:
                    self._copy_boxes(boxed, corner, ring.tiles(stage), ring.begin(stage, parity))
                return [part.ir for part in keys.after(stage, parity)]

            return [*repeat(last - first + 1, places, step), (Int(turn) ^ 1).ir]

        with when(self.thread.equals(0)):
            self._each(rows)

    def _copy_boxes(self, boxed: BoxedTile, corner: tuple[Int, Int], target: Int, barrier: Int) -> None:
        for offset, place in boxed.boxes(self.item, *corner):
            copy_box(target + offset, boxed.map, place, barrier)

    def _multiply(self) -> None:
        self._group = self.thread // GROUP - 1
        self._turns = Turns(self._group, self._groups)
        self._turns.begin()
        self._each(self._rows)
        self._turns.end()

    def _rows(self, carried: _State) -> list[ir.Value]:
        queries, keys, values = self._rings
        last, whole, first = self._tiles()
        length, band = self.sizes["k"], self.attention.band
        stage, parity, turn = map(Int, carried)
        queries.await_tiles(Int(0), turn)
        keys.await_tiles(stage, parity)
        products = await_products(0, self._scores_of(stage))
        self._leave(keys, stage)
        state = [number(self.attention.start)] * 2 + [number(0.0)] * 2
        masked = band is not None or length % self.keys != 0
        weights, _, state = self.softmax(last * self.keys, by_row(products, self.keys), state, masked)
        sums = [number(0.0)] * (self._width // 2)
        # The keys are one stage ahead of the values.
        ahead = [part.ir for part in keys.after(stage, parity)]
        carried = [*state, *sums, *self._fragments(weights), *ahead, stage.ir, parity.ir]
        if band is not None:
            carried = repeat(last - whole, carried, self._turn(last - 1, True))
        if not self.attention.hides_before:
            carried = repeat(whole - first, carried, self._turn(whole - 1, False))
        self._leave(queries, Int(0))
        state, sums, fragments, (*ahead, last_stage, last_parity) = self._parts(carried)
        values.await_tiles(Int(last_stage), Int(last_parity))
        sums = await_products(0, self._sums_of(fragments, Int(last_stage), sums))
        self._leave(values, Int(last_stage))
        self.write(state, sums)
        return [*ahead, (turn ^ 1).ir]

    def _turn(self, start: Int, masked: bool) -> Callable[[Int, _State], list[ir.Value]]:
        """Builds the step for one tile of keys and the values of the tile before it; tiles count down from `start`."""
        _, keys, values = self._rings

        def turn(step: Int, carried: _State) -> list[ir.Value]:
            state, sums, fragments, places = self._parts(carried)
            stage, parity, value_stage, value_parity = map(Int, places)
            keys.await_tiles(stage, parity)
            self._turns.take()
            products = self._scores_of(stage)
            values.await_tiles(value_stage, value_parity)
            sums = self._sums_of(fragments, value_stage, sums)
            self._turns.pass_on()
            products = await_products(1, products)
            found, factors, state = self.softmax((start - step) * self.keys, by_row(products, self.keys), state, masked)
            # Otherwise ptxas would wait for the sums before it computes the exponentials.
            self._leave(keys, not_before(stage, arith.addf(*state[2:])))
            kept = await_products(0, [*sums, *(item for row in found for item in row)])
            self._leave(values, value_stage)
            sums, per_row = kept[: len(sums)], len(found[0])
            weights = [kept[len(sums) :][place * per_row :][:per_row] for place in range(2)]
            sums = [arith.mulf(item, factors[row_of(place, self._width)]) for place, item in enumerate(sums)]
            following = [part.ir for part in keys.after(stage, parity)]
            return [*state, *sums, *self._fragments(weights), *following, stage.ir, parity.ir]

        return turn

    def _parts(self, carried: _State) -> tuple[_State, _State, _State, _State]:
        """Splits the loop state: softmax state, sums, weights as fragments, stages and parities of keys and values."""
        ends = [4, 4 + self._width // 2, len(carried) - 4]
        return carried[: ends[0]], carried[ends[0] : ends[1]], carried[ends[1] : ends[2]], carried[ends[2] :]

    def _scores_of(self, stage: Int) -> list[ir.Value]:
        """Starts the products of the query and a stage's keys."""
        query, key = self._query, self._key
        left = matrix_descriptor(self._rings[0].tiles_at + query.row_offset(self._group, GROUP_ROWS), query.panel_bytes)
        right = matrix_descriptor(self._rings[1].tiles(stage), key.panel_bytes)
        steps = [(query.step_offset(step), key.step_offset(step)) for step in range(self._depth // DEPTH)]
        transposed = not query.by_depth, not key.by_depth
        return multiply_group(f"m64n{self.keys}k{DEPTH}.{self._form}", left, right, steps, None, transposed)

    def _sums_of(self, fragments: _State, stage: Int, sums: _State) -> list[ir.Value]:
        """Starts adding the products of weights and a stage's values to the sums."""
        value = self._value
        right = matrix_descriptor(self._rings[2].tiles(stage), value.panel_bytes)
        count = self.keys // DEPTH
        lefts = [fragments[4 * step : 4 * step + 4] for step in range(count)]
        steps = [(0, value.step_offset(step)) for step in range(count)]
        form = f"m64n{self._width}k{DEPTH}.{self._form}"
        return multiply_group(form, lefts, right, steps, sums, (False, not value.by_depth))

    def _fragments(self, weights: RowValues) -> list[ir.Value]:
        element, steps = self.attention.query.element, range(self.keys // DEPTH)
        return [item for step in steps for item in left_fragment(weights, 0, step, element)]

    def _leave(self, ring: Ring, stage: Int) -> None:
        with when((self.thread % WARP).equals(0)):
            ring.leave(stage)
