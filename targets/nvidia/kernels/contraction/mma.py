"""Products on the tensor cores by `mma.sync`: each warp holds its tile of sums in registers, as 16 x 8 fragments.

One step multiplies 32 bytes of depth: 16 elements of 2 bytes, 8 of tf32, 32 of one byte. `ldmatrix` loads fragments
from shared memory, transposed for lines along rows. It can transpose elements of two bytes only. For lines along rows
of float32, each lane reads one element at a time instead (`SharedTile.crossed`). Lines along rows of bytes do not
occur: their copies transpose them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, gpu

from .....machines.gpus import WARP
from ...instructions.inline_ptx import await_copies, load_matrices, multiply_matrices, round_to_tf32
from ...instructions.integers import Int
from ...instructions.memory import element_pointer, load
from .copies import OperandTile
from .shared import SharedTile
from .sums import ROWS, Scratch, SumRun, scratch_bytes
from .tiles import Tiling

_STEP_BYTES, _COLUMNS = 32, 8
"""Bytes of depth and number of columns of a product by `mma` (PTX ISA, "Matrix fragments"); it has `ROWS` rows."""


@dataclass(frozen=True)
class MmaTypes:
    """Operand types of a tensor-core product.

    Attributes:
        element_bytes: size of an operand's element in shared memory.
        form: the instruction's shape and types.
        integer: whether the sums are 32-bit integers.
    """

    element_bytes: int
    form: str
    integer: bool = False


KINDS = {
    "f16": MmaTypes(2, "m16n8k16.row.col.f32.f16.f16.f32"),
    "bf16": MmaTypes(2, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    "tf32": MmaTypes(4, "m16n8k8.row.col.f32.tf32.tf32.f32"),
    "s8.s8": MmaTypes(1, "m16n8k32.row.col.s32.s8.s8.s32", integer=True),
    "s8.u8": MmaTypes(1, "m16n8k32.row.col.s32.s8.u8.s32", integer=True),
    "u8.s8": MmaTypes(1, "m16n8k32.row.col.s32.u8.s8.s32", integer=True),
    "u8.u8": MmaTypes(1, "m16n8k32.row.col.s32.u8.u8.s32", integer=True),
    "f8E4M3FN": MmaTypes(1, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    "f8E5M2": MmaTypes(1, "m16n8k32.row.col.f32.e5m2.e5m2.f32"),
}


class _Side:
    """One operand as a warp reads it: fragments of 16 rows for the left-hand side, pairs of 8 columns for the right."""

    def __init__(self, tile: OperandTile, shared: ir.Value, address: Int, base: int, first: Int, lane: Int) -> None:
        self.tile, self._shared, self._address, self._base = tile, shared, address, base
        self._first, self._lane = first, lane

    def prepare(self, fragments: int, swapped: bool) -> None:
        """Computes the addresses of `fragments` fragments.

        Args:
            fragments: number of fragments of 16 rows.
            swapped: whether the second matrix of a fragment is ahead in depth rather than in rows.
        """
        tile, lane = self.tile, self._lane
        matrix, line = divmod(lane, 8)
        low, high = matrix % 2, matrix // 2
        ahead, down = (low, high) if swapped else (high, low)
        steps = tile.depth * tile.element_bytes // _STEP_BYTES
        if tile.by_depth:
            row = self._first + down * 8 + line
            self._bases = [tile.layout.offset(row, ahead + 2 * step) + self._base for step in range(steps)]
        elif tile.element_bytes == 2:
            depth, chunk = ahead * 8 + line, self._first // 8 + down
            starts = range(0, 2 * fragments, 2)
            self._bases = [tile.layout.offset(depth, chunk + start) + self._base for start in starts]
        else:
            rows = [self._first + lane // 4 + 8 * half for half in range(2 * fragments)]
            self._bases = [tile.layout.element(lane % 4, row, 4) + self._base for row in rows]
        self._swapped = swapped

    def fragment(self, stage: Int, number: int, step: int) -> list[ir.Value]:
        """Returns the four registers of a fragment."""
        tile = self.tile
        if tile.by_depth:
            constant = number * ROWS * tile.layout.row_bytes
            return load_matrices(self._address + stage + self._bases[step], 4, offset=constant)
        if tile.element_bytes == 2:
            constant = step * 16 * tile.layout.row_bytes
            return load_matrices(self._address + stage + self._bases[number], 4, transposed=True, offset=constant)
        return self._scalars(stage, number, step)

    def _scalars(self, stage: Int, number: int, step: int) -> list[ir.Value]:
        places = [(half, ahead) for ahead in range(2) for half in range(2)]
        if self._swapped:
            places = [(half, ahead) for half in range(2) for ahead in range(2)]
        byte, i32 = ir.IntegerType.get_signless(8), ir.IntegerType.get_signless(32)
        loaded = []
        for half, ahead in places:
            base = element_pointer(self._shared, byte, stage + self._bases[2 * number + half])
            constant = Int((step * 8 + ahead * 4) * self.tile.layout.row_bytes)
            loaded.append(load(i32, element_pointer(base, byte, constant), 4))
        return loaded


class MmaProducts:
    """The products of one block.

    Attributes:
        column: the first column of the warp.
    """

    def __init__(
        self,
        tiling: Tiling,
        kind: MmaTypes,
        lhs: OperandTile,
        rhs: OperandTile,
        shared: ir.Value,
        address: Int,
        rhs_base: int,
        thread: Int,
    ) -> None:
        """Computes the addresses of the thread's reads.

        Args:
            tiling: tile sizes; those of a warp are multiples of 16.
            kind: operand types.
            lhs: the left-hand side in shared memory, at the start of a stage.
            rhs: the right-hand side.
            shared: shared memory.
            address: 32-bit address of shared memory.
            rhs_base: offset of the right-hand side in a stage.
            thread: index of the thread in the block.
        """
        self._warp, self._lane = divmod(thread, WARP)
        self._shared = shared
        warp_column, warp_row = divmod(self._warp, tiling.rows // tiling.warp_rows)
        self._row, self.column = warp_row * tiling.warp_rows, warp_column * tiling.warp_columns
        self._kind, self._tiling = kind, tiling
        self._lhs = _Side(lhs, shared, address, 0, self._row, self._lane)
        self._rhs = _Side(rhs, shared, address, rhs_base, self.column, self._lane)
        self._down, self._across = tiling.warp_rows // ROWS, tiling.warp_columns // _COLUMNS
        self._lhs.prepare(self._down, swapped=False)
        self._rhs.prepare(self._across // 2, swapped=True)

    @staticmethod
    def layout(lines: int, line_bytes: int, by_depth: bool, element_bytes: int) -> SharedTile:
        """Returns the layout of a tile in shared memory."""
        if not by_depth and element_bytes == 4:
            return SharedTile.crossed(lines, line_bytes)
        return SharedTile.swizzled(lines, line_bytes)

    def initial(self) -> list[ir.Value]:
        """Returns the initial sums, which are zero."""
        kind = ir.IntegerType.get_signless(32) if self._kind.integer else ir.F32Type.get()
        return [arith.constant(kind, 0 if self._kind.integer else 0.0)] * (4 * self._down * self._across)

    def multiply(self, stage: Int, sums: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the sums plus the products of the tiles in a stage."""
        new = list(sums)
        for step in range(self._tiling.depth * self._kind.element_bytes // _STEP_BYTES):
            rights = [self._rhs.fragment(stage, pair, step) for pair in range(self._across // 2)]
            lefts = [self._lhs.fragment(stage, number, step) for number in range(self._down)]
            if self._kind.element_bytes == 4:
                rights, lefts = ([[*map(round_to_tf32, part)] for part in side] for side in (rights, lefts))
            for number in range(self._down):
                for column in range(self._across):
                    right = rights[column // 2][column % 2 * 2 : column % 2 * 2 + 2]
                    place = 4 * (number * self._across + column)
                    sums_of = new[place : place + 4]
                    new[place : place + 4] = multiply_matrices(self._kind.form, lefts[number], right, sums_of)
        return new

    def results(self, sums: Sequence[ir.Value], width: int) -> Iterator[SumRun]:
        """Yields the sums in runs of neighbours, through shared memory; columns are relative to `column`."""
        await_copies(0)
        gpu.barrier()
        columns = self._tiling.warp_columns
        base = self._warp * scratch_bytes(columns)
        scratch = Scratch(columns, self._shared, base, self._lane, max(4, width))
        for number in range(self._down):

            def pair(across: int, half: int, number: int = number) -> list[ir.Value]:
                place = 4 * (number * self._across + across) + 2 * half
                return list(sums[place : place + 2])

            for row, column, values in scratch.runs(pair):
                yield self._row + number * ROWS + row, column, values
