"""Cycles of register tiles that multiply with numbers of few bits, and the widths of panels that follow from them.

Code unpacks the numbers of a block in registers, multiplies them with each row of the tile, and adds the scaled sum of
the block to the sums over all blocks. The counts below are those of vector instructions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .machine import Machine
from .matrix_units import BRAIN_BYTES, LEAST_GRAINS, LINE_BYTES, ROWS, has_matrix_unit

_GRAIN = 4
"""Numbers in a lane of products of bytes."""

_UNPACKED, _SCALED = 3, 1
"""Instructions per number of floats: shift, mask and conversion; multiplication with the scale."""

_FINISHED, _KEPT = 3, 2
"""Instructions per sum of a block: conversion, factor and scale; and the load and store of a sum over all blocks."""

_WIDENED = 2
"""Instructions per sum of 16 bits."""

_MOST_ROWS = 8
"""Maximum rows of a tile: rows of a whole number of pages share a set of the first-level cache, which has 8 ways."""

_LEAST_LONG_ROWS = 8
"""Minimum rows of a product in tiles of a matrix unit whose blocks take several products: eight rows of blocks of 128
take 0.78 of the time of vectors on Sapphire Rapids, six as long. Eight rows of shorter blocks take as long, too; with
more, vectors need two tiles."""

_NOT_HIDDEN = 0.3
"""Part of the work of each unit that does not overlap with that of the busiest."""

_STORED = 3
"""Cycles per row of a tile of sums, which is stored and then loaded by vector code (measured there)."""

_CONVERTED = 8
"""Instructions per register of numbers that become bf16: shift, mask, conversion, scaling, two of rounding, half of an
interleaving, and the store and load of the panel."""

_PRODUCT_SHARE = 0.35
"""Part of a matrix unit's peak that products of bf16 with converted panels reach: measured on Sapphire Rapids with 512
rows and 1,024 x 1,024 numbers, while other processes used the core."""

_BYTE_PRODUCTS = 3
"""Registers for a mask, a broadcast and a product of bytes; a multiply-add needs only the broadcast."""

_VECTORS = (2, 4)
"""Registers of a row of a panel: with one, every product would need a broadcast of its own."""

_NEAR = 1.08
"""A panel that takes at most this many times the least cycles is as good, if it is narrower."""

_USUAL_ROWS = (1, 4, 8, 32)
"""Numbers of rows that stand for all."""


@dataclass(frozen=True)
class BlockWork:
    """Work per block of numbers.

    Attributes:
        bits: bits of a number.
        size: numbers of a block.
        is_bytes: whether rows hold bytes; floats otherwise.
        in_tiles: whether a matrix unit multiplies.
    """

    bits: int
    size: int
    is_bytes: bool
    in_tiles: bool = False

    @property
    def words(self) -> int:
        """Number of 32-bit words of a column."""
        return self.size * self.bits // 32


def scales_sums(work: BlockWork, rows: int) -> bool:
    """Returns whether a tile scales the sums of blocks: fewer instructions than scaling every number, for few rows."""
    return work.is_bytes or rows * (_FINISHED + _KEPT) < work.size * _SCALED


def block_cycles(machine: Machine, work: BlockWork, rows: int, vectors: int) -> float:
    """Returns the cycles in which a tile goes through a block.

    Args:
        machine: the machine.
        work: the block.
        rows: rows of the tile.
        vectors: registers of a row.
    """
    if work.in_tiles:
        return _tile_cycles(machine, work, rows, vectors)
    if work.is_bytes:
        steps = work.size // _GRAIN
        unpacked = 0 if work.bits == 8 else 2 * steps - work.words
        multiplied, added = _byte_products(machine, work)
        latency = machine.fma_latency if has_dots(machine) else 1
    else:
        steps, latency = work.size, machine.fma_latency
        unpacked, multiplied, added = _UNPACKED * steps, steps, 0.0
    finished = _FINISHED
    if not scales_sums(work, rows):
        unpacked, finished = unpacked + _SCALED * steps, 0
    instructions = vectors * (unpacked + rows * (multiplied + added + finished))
    loads = vectors * (work.words + 1) + rows * (steps + 2) + _KEPT * rows * vectors
    # The sums of two successive blocks are independent.
    chain = steps * latency / 2
    products = vectors * rows * multiplied
    busy = instructions / machine.vector_units, products / machine.fma_units, loads / machine.loads, chain
    return max(busy) + _NOT_HIDDEN * sum(busy)


def fits_tiles(machine: Machine, work: BlockWork, rows: int, columns: int) -> bool:
    """Returns whether a matrix unit multiplies the blocks, faster than vectors do.

    Args:
        machine: the machine.
        work: the block.
        rows: number of rows.
        columns: columns of a panel.
    """
    grains = work.size // _GRAIN
    is_whole = LEAST_GRAINS <= grains <= ROWS or grains % ROWS == 0
    fits = has_matrix_unit(machine) and work.is_bytes and is_whole and columns % ROWS == 0
    return fits and rows >= (_LEAST_LONG_ROWS if grains > ROWS else _MOST_ROWS + 1)


def _tile_cycles(machine: Machine, work: BlockWork, rows: int, vectors: int) -> float:
    """Returns the cycles in which a matrix unit goes through a block, and vectors unpack it and scale its sums."""
    steps = work.size // _GRAIN
    unpacked = 0 if work.bits == 8 else 2 * steps - work.words
    instructions = vectors * (unpacked + rows * (_FINISHED + 1))
    stores = vectors * ((steps if unpacked else 0) + rows * _STORED)
    loads = vectors * (work.words + 1) + rows * 2 + 2 * rows * vectors
    products = vectors * rows * -(-steps // ROWS)
    busy = instructions / machine.vector_units, stores / machine.stores, loads / machine.loads, products
    return max(busy) + _NOT_HIDDEN * sum(busy)


def converts_blocks(machine: Machine, work: BlockWork, rows: Sequence[int]) -> bool:
    """Returns whether panels are converted to bf16 for a matrix unit, instead of rows being rounded to bytes.

    Args:
        machine: the machine.
        work: the block, of rows that may be rounded.
        rows: numbers of rows at some representative sizes. A program that also takes a single row is not slowed down
            for others: it may be one of generation, whose rows come one by one.
    """
    if not (has_matrix_unit(machine) and work.is_bytes) or min(rows, default=0) <= 1:
        return False
    vectors = choose_block_panel(machine, ROWS * _VECTORS[-1], work) // machine.lanes(4)
    converted = sum(converted_cycles(machine, work, count) for count in rows)
    return converted < sum(_column_cycles(machine, work, count, vectors) for count in rows)


def spreads_blocks(machine: Machine, work: BlockWork, rows: int, columns: int) -> bool:
    """Returns whether the numbers of a panel are stored as bytes for all tiles of rows, instead of by each.

    Args:
        machine: the machine.
        work: the block.
        rows: maximum number of rows.
        columns: columns of a panel.
    """
    return work.bits < 8 and rows > ROWS and fits_tiles(machine, work, rows, columns)


def converted_cycles(machine: Machine, work: BlockWork, rows: int) -> float:
    """Returns the cycles per register of columns in which a block is converted, and multiplied with rows of bf16."""
    products = -(-rows // ROWS) * ROWS * max(1, work.size * BRAIN_BYTES // LINE_BYTES)
    return work.size * _CONVERTED / machine.vector_units + products / _PRODUCT_SHARE


def _byte_products(machine: Machine, work: BlockWork) -> tuple[float, float]:
    """Returns the multiplications of a column's block with a row of bytes, and the other instructions they need."""
    steps = work.size // _GRAIN
    if has_dots(machine):
        return steps, 0.0
    if work.bits == 8:
        return 2 * steps, 2 * steps
    fit = ((1 << 15) - 1) // (2 * ((1 << work.bits) - 1) * 127)
    return steps, steps + _WIDENED * math.ceil(steps / fit) - 1


def has_dots(machine: Machine) -> bool:
    """Returns whether one instruction adds up the four products of a lane; a measured rate is only near four."""
    return machine.byte_rate > _GRAIN - 1


def most_block_rows(machine: Machine, work: BlockWork, vectors: int) -> int:
    """Returns the number of rows whose block sums fit the registers beside numbers, words, and those for products."""
    if work.in_tiles:
        return ROWS
    rest = machine.vector_registers - 2 * vectors - (_BYTE_PRODUCTS if work.is_bytes else 1)
    return max(1, min(_MOST_ROWS, rest // vectors))


def choose_block_panel(machine: Machine, columns: int, work: BlockWork) -> int:
    """Returns the panel width with the lowest number of cycles per column, over usual numbers of rows.

    It does not depend on the rows of one product, as programs for different numbers of rows share packed weights.
    """

    def cycles(vectors: int) -> float:
        return sum(_column_cycles(machine, work, rows, vectors) / rows for rows in _USUAL_ROWS)

    least = min(map(cycles, _VECTORS))
    vectors = next(item for item in _VECTORS if cycles(item) <= _NEAR * least)
    return min(columns, machine.lanes(4) * vectors)


def _column_cycles(machine: Machine, work: BlockWork, rows: int, vectors: int) -> float:
    columns = machine.lanes(4) * vectors
    bits = 8 if spreads_blocks(machine, work, rows, columns) else work.bits
    work = replace(work, bits=bits, in_tiles=fits_tiles(machine, work, rows, columns))
    tiles = -(-rows // most_block_rows(machine, work, vectors))
    return tiles * block_cycles(machine, work, -(-rows // tiles), vectors) / vectors
