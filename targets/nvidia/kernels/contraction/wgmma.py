"""Contractions on Hopper: the copy engine feeds warp groups that multiply directly from shared memory.

    warp group 0, one thread:   for tile in the block's tiles: for k:  await empty[stage]; full[stage] <- copied boxes
    the other warp groups:      for tile in the block's tiles: for k:  await full[stage]; sums += products; empty[stage]
                                                               then:   write the sums, while later tiles are copied

Blocks are persistent: one per multiprocessor, each with a loop over its tiles; the ring of stages continues from tile
to tile. Every multiplying warp group has 64 rows. Together these groups hold most of the block's registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu, scf

from .....machines.gpus import WARP
from ...instructions.bulk_copies import copy_box, prefetch_map, publish_barriers
from ...instructions.integers import Int, constant
from ...instructions.loops import repeat, when
from ...instructions.memory import block_number, shared_address, shared_memory, thread_number
from ...instructions.ring import Ring
from ...instructions.warp_groups import ALIGNMENT, GROUP, await_products, matrix_descriptor, multiply_group, specialised
from .boxes import BoxedTile
from .order import grouped
from .sums import ROWS, Scratch, SumRun, scratch_bytes
from .tiles import Problem, Tiling

_GROUP_ROWS = 64
"""Rows of the product of a warp group: M of `wgmma` (PTX ISA)."""
_Finish = Callable[[Int, Int, Int, list[ir.Value]], None]


@dataclass(frozen=True)
class ProductForm:
    """Types and depth of a wgmma product.

    Attributes:
        element_bytes: size of an operand's element.
        depth: depth of one product.
        types: sums, left-hand side and right-hand side, by their PTX names.
        can_transpose: whether operands may be transposed, with lines along rows.
        integer: whether the sums are 32-bit integers.
    """

    element_bytes: int
    depth: int
    types: str
    can_transpose: bool = False
    integer: bool = False


FORMS = {
    "f16": ProductForm(2, 16, "f32.f16.f16", can_transpose=True),
    "bf16": ProductForm(2, 16, "f32.bf16.bf16", can_transpose=True),
    "tf32": ProductForm(4, 8, "f32.tf32.tf32"),
    "s8.s8": ProductForm(1, 32, "s32.s8.s8", integer=True),
    "s8.u8": ProductForm(1, 32, "s32.s8.u8", integer=True),
    "u8.s8": ProductForm(1, 32, "s32.u8.s8", integer=True),
    "u8.u8": ProductForm(1, 32, "s32.u8.u8", integer=True),
    "f8E4M3FN": ProductForm(1, 32, "f32.e4m3.e4m3"),
    "f8E5M2": ProductForm(1, 32, "f32.e5m2.e5m2"),
}


def shared_bytes(tiling: Tiling, element_bytes: int) -> int:
    """Returns the dynamic shared memory of a block in bytes."""
    scratch = tiling.warps * 4 * scratch_bytes(tiling.warp_columns)
    stages = tiling.stages * tiling.stage_bytes(element_bytes) + Ring.barrier_bytes(tiling.stages)
    return ALIGNMENT + stages + scratch


@dataclass(frozen=True)
class _Place:
    batch: Int
    row: Int
    column: Int


def emit(
    problem: Problem,
    tiling: Tiling,
    compute: str,
    lhs: BoxedTile,
    rhs: BoxedTile,
    finish: _Finish,
    width: int,
    blocks: int,
) -> None:
    """Builds a block's work at the insertion point.

    Args:
        problem: sizes of the contraction.
        tiling: tile sizes; a warp group has 64 rows and all columns.
        compute: type of the multiplication, one of `FORMS`.
        lhs: the left-hand side as the copy engine reads it.
        rhs: the right-hand side.
        finish: takes (batch element, row, column, the sums from there on); these may lie past the end of the result.
        width: number of neighbouring sums to pass to `finish` at once, 4 or 8.
        blocks: number of blocks.
    """
    thread = thread_number()
    shared = shared_memory()
    raw = shared_address(shared)
    start = (raw + (ALIGNMENT - 1)) // ALIGNMENT * ALIGNMENT
    stage_bytes = lhs.bytes + rhs.bytes
    ring = Ring(tiling.stages, stage_bytes, start, start + tiling.stages * stage_bytes)
    with when(thread.equals(0)):
        for boxed in (lhs, rhs):
            prefetch_map(boxed.map)
        ring.make(tiling.warps * 4)
        publish_barriers()
    gpu.barrier()

    def copy() -> None:
        with when(thread.equals(0)):
            _copy(problem, tiling, ring, lhs, rhs, blocks)

    def multiply() -> None:
        scratch = start - raw + tiling.stages * stage_bytes + Ring.barrier_bytes(tiling.stages)
        worker = _Worker(problem, tiling, FORMS[compute], ring, (lhs, rhs), thread - GROUP, (shared, scratch))
        worker.work(finish, width, blocks)

    specialised(thread, tiling.warps, copy, multiply)


def _copy(problem: Problem, tiling: Tiling, ring: Ring, lhs: BoxedTile, rhs: BoxedTile, blocks: int) -> None:
    def tile(place: _Place, carried: Sequence[ir.Value]) -> list[ir.Value]:
        def step(number: Int, carried: Sequence[ir.Value]) -> list[ir.Value]:
            stage, parity = map(Int, carried)
            full = ring.begin(stage, parity)
            depth, target = number * tiling.depth, ring.tiles(stage)
            for boxed, row, offset in ((lhs, place.row, 0), (rhs, place.column, lhs.bytes)):
                for box_offset, corner in boxed.boxes(place.batch, row, depth):
                    copy_box(target + (offset + box_offset), boxed.map, corner, full)
            return [part.ir for part in ring.after(stage, parity)]

        return repeat(Int(math.ceil(problem.depth / tiling.depth)), carried, step)

    _each_tile(problem, tiling, blocks, tile)


class _Worker:
    """A multiplying warp group, from the view of one of its threads."""

    def __init__(
        self,
        problem: Problem,
        tiling: Tiling,
        form: ProductForm,
        ring: Ring,
        operands: tuple[BoxedTile, BoxedTile],
        thread: Int,
        scratch: tuple[ir.Value, Int],
    ) -> None:
        self._problem, self._tiling, self._form, self._ring = problem, tiling, form, ring
        self._operands = operands
        self._warp, self._lane = divmod(thread, WARP)
        self._group = thread // GROUP
        shared, base = scratch
        self._scratch = shared, base + self._warp * scratch_bytes(tiling.columns)
        self._count = tiling.columns // 2

    def work(self, finish: _Finish, width: int, blocks: int) -> None:
        """Loops over the block's tiles."""

        def tile(place: _Place, carried: Sequence[ir.Value]) -> list[ir.Value]:
            *sums, stage, parity = self._sum_up(carried)
            columns: dict[int, Int] = {}
            for row, column, values in self._runs(sums, width):
                # Equal columns get the same value, so that code that depends only on the column is emitted once.
                across = columns.setdefault(id(column), place.column + column)
                finish(place.batch, self._operands[0].place(place.row, row), across, values)
            return [stage, parity]

        _each_tile(self._problem, self._tiling, blocks, tile)

    def _sum_up(self, carried: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the sums of a tile, then the ring's next stage and parity."""
        stage, parity = map(Int, carried)
        zero = constant(0) if self._form.integer else arith.constant(ir.F32Type.get(), 0.0)
        sums = self._multiply(stage, parity, [zero] * self._count)

        def step(number: Int, carried: Sequence[ir.Value]) -> list[ir.Value]:
            del number
            *sums, last, stage, parity = carried
            sums = self._multiply(Int(stage), Int(parity), sums)
            # Waits for the products of the previous stage only; those of this stage continue.
            await_products(1)
            self._leave(Int(last))
            return [*sums, stage, *(part.ir for part in self._ring.after(Int(stage), Int(parity)))]

        steps = Int(math.ceil(self._problem.depth / self._tiling.depth) - 1)
        following = [part.ir for part in self._ring.after(stage, parity)]
        *sums, last, stage_after, parity_after = repeat(steps, [*sums, stage.ir, *following], step)
        await_products(0)
        self._leave(Int(last))
        return [*sums, stage_after, parity_after]

    def _multiply(self, stage: Int, parity: Int, sums: Sequence[ir.Value]) -> list[ir.Value]:
        lhs, rhs = self._operands
        self._ring.await_tiles(stage, parity)
        tiles = self._ring.tiles(stage)
        left = matrix_descriptor(tiles + lhs.row_offset(self._group, _GROUP_ROWS), lhs.panel_bytes)
        right = matrix_descriptor(tiles + lhs.bytes, rhs.panel_bytes)
        count = self._tiling.depth // self._form.depth
        steps = [(lhs.step_offset(number), rhs.step_offset(number)) for number in range(count)]
        form = f"m64n{self._tiling.columns}k{self._form.depth}.{self._form.types}"
        transposed = (not lhs.by_depth, not rhs.by_depth) if self._form.can_transpose else None
        return multiply_group(form, left, right, steps, sums, transposed)

    def _leave(self, stage: Int) -> None:
        with when(self._lane.equals(0)):
            self._ring.leave(stage)

    def _runs(self, sums: Sequence[ir.Value], width: int) -> Iterator[SumRun]:
        def pair(across: int, half: int) -> list[ir.Value]:
            place = 4 * across + 2 * half
            return list(sums[place : place + 2])

        shared, base = self._scratch
        scratch = Scratch(self._tiling.columns, shared, base, self._lane, width)
        for row, column, values in scratch.runs(pair):
            yield self._warp * ROWS + row, column, values


def _each_tile(
    problem: Problem,
    tiling: Tiling,
    blocks: int,
    body: Callable[[_Place, Sequence[ir.Value]], Sequence[ir.Value]],
) -> None:
    """Builds `body(place, (stage, parity))` for every tile of the block; `body` returns the next stage and parity."""
    down, across = math.ceil(problem.rows / tiling.rows), math.ceil(problem.columns / tiling.columns)
    total = down * across * problem.batch
    loop = scf.ForOp(block_number().ir, Int(total).ir, Int(blocks).ir, [Int(0).ir, Int(0).ir])
    with ir.InsertionPoint(loop.body):
        tile = Int(loop.induction_variable)
        batch, inside = divmod(tile, down * across) if problem.batch > 1 else (Int(0), tile)
        row, column = grouped(inside, down, across)
        place = _Place(batch, row * tiling.rows, column * tiling.columns)
        scf.yield_(list(body(place, list(loop.inner_iter_args))))
