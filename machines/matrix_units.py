"""Tiles of a matrix unit (AMX): their shapes, and the cycles of products of bytes in them.

A tile register has up to 16 rows of up to 64 bytes. A product adds a tile of the input, whose rows are grains of four
bytes (or of two bfloat16) along the reduction, times a tile of the weight, with as many rows as the input's tile has
grains, to a tile of 32-bit sums. (Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter on AMX.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .machine import Machine

ROWS, LINE_BYTES = 16, 64
"""Maximum rows of a tile register, and the size of each in bytes."""

GRAIN_BYTES = 4
"""Bytes of neighbours along the reduction that one lane multiplies: four numbers of 8 bits, or two of 16."""

BRAIN_BYTES = 2
"""Size of a bfloat16, of which a lane multiplies two."""

REGISTERS = 8
"""Number of tile registers."""

_PALETTE, _ROW_BYTES_AT, _ROWS_AT = 1, 16, 48
"""Palette of the configuration of tile registers, and where it holds their bytes per row (u16) and their rows (u8)."""

_LOADED = 2
"""Rows of a tile that are loaded per cycle."""

_STORED = 4
"""Cycles per row of a tile of sums, which is stored, and loaded by the vector code that follows."""

MOST_ROWS = 64
"""Maximum rows of the tiles that share a tile of the weight."""

LEAST_ROWS = 6
"""Minimum rows of a product for which the unit is used: with fewer, reading the weights takes most of the time."""

LEAST_GRAINS = 8
"""Minimum grains of a step: with fewer, the unit is no faster than vectors."""


def takes_rows(machine: Machine, rows: int) -> bool:
    """Returns whether a matrix unit multiplies this many rows."""
    return has_matrix_unit(machine) and rows >= LEAST_ROWS


def has_matrix_unit(machine: Machine) -> bool:
    """Returns whether a machine multiplies bytes in tiles."""
    return machine.matrix_rate > 0


def configuration(shapes: Sequence[tuple[int, int]]) -> bytes:
    """Returns the configuration of the tile registers by the rows of each and their bytes; 0 for unused ones."""
    config = bytearray(LINE_BYTES)
    config[0] = _PALETTE
    for number, (rows, size) in enumerate(shapes):
        config[_ROWS_AT + number] = rows
        config[_ROW_BYTES_AT + 2 * number : _ROW_BYTES_AT + 2 * number + 2] = size.to_bytes(2, "little")
    return bytes(config)


def even_parts(size: int, most: int) -> tuple[list[int], int]:
    """Returns the starts and the length of the fewest parts of equal length, at most `most`; the last may overlap."""
    count = -(-size // most)
    part = -(-size // count)
    return [min(number * part, size - part) for number in range(count)], part


def divisor(number: int, limit: int) -> int:
    """Returns the greatest divisor of `number` that is at most `limit` (at least 1)."""
    most = max(1, limit)
    lower = [item for item in range(1, min(math.isqrt(number), most) + 1) if number % item == 0]
    return max(item for part in lower for item in (part, number // part) if item <= most)


def choose_tile(sizes: Sequence[int], lanes: int, grains: int) -> tuple[list[int], int]:
    """Returns the rows of the fastest tile along each of some dimensions, and its columns, which divide `lanes`.

    Args:
        sizes: extents along the row dimensions; the rows of a register lie along the last one.
        lanes: columns of a panel.
        grains: number of grains of a step.
    """
    *others, last = sizes

    def cycles(tile: tuple[tuple[int, ...], int]) -> tuple[float, int]:
        (*outer, rows), columns = tile
        heights, widths = even_parts(rows, ROWS), even_parts(columns, LINE_BYTES // GRAIN_BYTES)
        down, across = math.prod(outer) * len(heights[0]), len(widths[0])
        products = down * across * max(heights[1], ROWS // 2)
        loads = (down * heights[1] + across * grains) / _LOADED
        count = math.prod(-(-size // part) for size, part in zip(sizes, (*outer, rows), strict=True))
        return count * (lanes // columns) * (max(products, loads) + loads / 4), -math.prod(outer) * rows

    heights = sorted({min(last, ROWS * count) for count in range(1, REGISTERS)})
    wide = [part for part in range(1, lanes + 1) if lanes % part == 0 and part % (LINE_BYTES // GRAIN_BYTES) == 0] or [
        lanes
    ]
    shapes = [
        ((*[1] * (len(others) - 1), *[part] * bool(others), rows), columns)
        for part in range(1, min(REGISTERS, others[-1] if others else 1) + 1)
        for rows in heights
        for columns in wide
        if fits(part * -(-rows // ROWS), -(-columns // (LINE_BYTES // GRAIN_BYTES)))
    ]
    shape, columns = min(shapes, key=cycles)
    return list(shape), columns


def fits(down: int, across: int) -> bool:
    """Returns whether the sums, the tiles of the input and one tile of the weight fit the registers."""
    return down * across + down + 1 <= REGISTERS


def step_cycles(rows: int, lanes: int, grains: int, depth: int) -> float:
    """Returns the cycles of one grain of a tile of some rows and a panel of `lanes` columns.

    Args:
        rows: rows of the tile.
        lanes: columns of the panel.
        grains: number of grains of a step.
        depth: number of grains of the whole reduction.
    """
    across = -(-lanes // (LINE_BYTES // GRAIN_BYTES))
    products = across * max(rows, ROWS // 2)
    return products / grains + _STORED * rows * across / depth
