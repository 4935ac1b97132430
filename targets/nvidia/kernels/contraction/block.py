"""Block of a contraction whose threads both copy and multiply (`fma`, `mma`): its tile, copies and products.

block -> (batch element, tile row, tile column)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from .....machines.gpus import SMALLEST_ASYNC_BYTES
from ...instructions.integers import Int
from ...instructions.memory import block_number, shared_address, shared_memory, thread_number
from .access import OperandAccess
from .copies import AsyncCopies, OperandSlice, OperandTile, ReadOperand, StagedCopies, read_global
from .fma import FmaProducts
from .mma import KINDS, MmaProducts, MmaTypes
from .multistage import accumulate
from .order import grouped
from .shared import CHUNK
from .tiles import CopyUnit, Problem, Tiling

# Registers per unit that a thread copies: its address, and a predicate for units smaller than a chunk.
_PLACE_REGISTERS, _GUARD_REGISTERS, _REGISTER_BYTES = 2, 1, 4
_FLOAT = MmaTypes(4, "")


@dataclass(frozen=True)
class OperandSource:
    """An operand.

    Attributes:
        access: access function of the operand.
        element: element type in memory.
        pointer: address of an operand in memory, else None.
        read: for a computed operand, a function that computes a vector of its elements at an offset.
    """

    access: OperandAccess
    element: ir.Type
    pointer: ir.Value | None = None
    read: ReadOperand | None = None


# Takes (batch element, row, column, the sums from there on); row and column may lie past the end of the result.
_Finish = Callable[[Int, Int, Int, list[ir.Value]], None]


@dataclass(frozen=True)
class BlockGeometry:
    """Launch geometry of a kernel."""

    blocks: int
    threads: int
    shared_bytes: int


def geometry(problem: Problem, tiling: Tiling, element_bytes: int) -> BlockGeometry:
    """Returns the launch geometry of a problem."""
    tiles = math.ceil(problem.rows / tiling.rows) * math.ceil(problem.columns / tiling.columns)
    return BlockGeometry(tiles * problem.batch, tiling.threads, tiling.stages * tiling.stage_bytes(element_bytes))


def emit(
    problem: Problem,
    tiling: Tiling,
    compute: str,
    lhs: OperandSource,
    rhs: OperandSource,
    finish: _Finish,
    width: int = 4,
) -> BlockGeometry:
    """Builds a block's work at the insertion point.

    Args:
        problem: sizes of the contraction.
        tiling: tile sizes.
        compute: type of the multiplication: `f32` (by `fma`), or one of `mma.KINDS`.
        lhs: the left-hand side.
        rhs: the right-hand side.
        finish: consumer of the sums.
        width: number of neighbouring sums to pass to `finish` at once, if a thread has them.

    Returns:
        The launch geometry.
    """
    thread = thread_number()
    batch, row, column = _tile_of_block(problem, tiling, block_number())
    row, column = row * tiling.rows, column * tiling.columns
    shared = shared_memory()
    address = shared_address(shared)
    bytes = 4 if compute == "f32" else KINDS[compute].element_bytes
    left = _tile(lhs, tiling.rows, tiling, bytes, is_lhs=True)
    right = _tile(rhs, tiling.columns, tiling, bytes, is_lhs=False)
    rhs_base = left.layout.bytes
    if tiling.method == "fma":
        products = FmaProducts(tiling, left, right, shared, rhs_base, thread)
    else:
        products = MmaProducts(tiling, KINDS[compute], left, right, shared, address, rhs_base, thread)
    element = shared_element(compute)
    copies = [
        _copies(lhs, left, OperandSlice(row, batch, thread, tiling.threads), element, shared, address, 0),
        _copies(rhs, right, OperandSlice(column, batch, thread, tiling.threads), element, shared, address, rhs_base),
    ]
    tiles = Int(math.ceil(problem.depth / tiling.depth))
    stage_bytes = tiling.stage_bytes(bytes)
    sums = products.initial()
    sums = accumulate(copies, tiles, tiling.depth, tiling.stages, stage_bytes, sums, products.multiply)
    first = column + products.column
    columns: dict[int, Int] = {}
    for at, across, values in products.results(sums, width):
        # Equal columns get the same value, so that code that depends only on the column is emitted once.
        place = columns.setdefault(id(across), first + across)
        finish(batch, row + at, place, values)
    return geometry(problem, tiling, bytes)


def _tile_of_block(problem: Problem, tiling: Tiling, block: Int) -> tuple[Int, Int, Int]:
    down, across = math.ceil(problem.rows / tiling.rows), math.ceil(problem.columns / tiling.columns)
    batch, tile = divmod(block, down * across) if problem.batch > 1 else (Int(0), block)
    return batch, *grouped(tile, down, across)


def _tile(source: OperandSource, rows: int, tiling: Tiling, bytes: int, is_lhs: bool) -> OperandTile:
    by_depth = source.access.by_depth or bytes == 1
    lines, line = (rows, tiling.depth) if by_depth else (tiling.depth, rows)
    if tiling.method == "fma":
        layout = FmaProducts.layout(lines, line * bytes, by_depth, is_lhs)
    else:
        layout = MmaProducts.layout(lines, line * bytes, by_depth, bytes)
    return OperandTile(rows, tiling.depth, bytes, by_depth, layout)


def _copies(
    source: OperandSource,
    tile: OperandTile,
    part: OperandSlice,
    element: ir.Type,
    shared: ir.Value,
    address: Int,
    base: int,
) -> tuple[AsyncCopies | StagedCopies, Int]:
    access, read, pointer = source.access, source.read, source.pointer
    if pointer is not None:
        if _is_async(access, source.element, element, tile.by_depth):
            return AsyncCopies(access, tile, part, pointer, element), address + base
        read = read_global(pointer, _moved(source.element), element, access.element_bytes)
    assert read is not None
    return StagedCopies(access, tile, part, read, element, shared), Int(base)


def _is_async(access: OperandAccess, stored: ir.Type, wanted: ir.Type, by_depth: bool) -> bool:
    """Returns whether `cp.async` can copy an operand: unconverted, not transposed, in units of at least 4 bytes."""
    wide = access.vector * access.element_bytes >= SMALLEST_ASYNC_BYTES
    return _moved(stored) == wanted and by_depth == access.by_depth and wide


def copy_unit_of(access: OperandAccess, element: ir.Type | None, compute: str) -> CopyUnit:
    """Returns how a thread copies an operand with the given element type in memory (None: the operand is computed)."""
    bytes = 4 if compute == "f32" else KINDS[compute].element_bytes
    by_depth, wanted = access.by_depth or bytes == 1, shared_element(compute)
    width = min(access.vector, CHUNK // bytes)
    place = _PLACE_REGISTERS + (0 if width * bytes == CHUNK else _GUARD_REGISTERS)
    if element is not None and _is_async(access, element, wanted, by_depth):
        return CopyUnit(width, place)
    # Elements wait in registers between the read and the write to shared memory.
    return CopyUnit(width, place + math.ceil(width * bytes / _REGISTER_BYTES))


def shared_element(compute: str) -> ir.Type:
    """Returns the element type in shared memory of an operand of the multiplication."""
    if KINDS.get(compute, _FLOAT).integer:
        return ir.IntegerType.get_signless(8)
    return _moved(ir.Type.parse("f32" if compute == "tf32" else compute))


def _moved(element: ir.Type) -> ir.Type:
    """Returns the type in which elements are moved: LLVM has no 8-bit floats."""
    is_short = isinstance(element, ir.FloatType) and element.width == 8
    return ir.IntegerType.get_signless(8) if is_short else element
