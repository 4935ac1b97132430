"""Order in which the tiles of a result are computed."""

from __future__ import annotations

from ...instructions.integers import Int

# Tile rows whose blocks run concurrently, so that their reads of both operands hit in the L2 cache.
_GROUP = 8


def grouped(tile: Int, down: int, across: int) -> tuple[Int, Int]:
    """Returns tile row and tile column: column by column within a group of rows, then the next group."""
    height = max(size for size in range(1, min(_GROUP, down) + 1) if down % size == 0)
    group, inside = divmod(tile, height * across)
    column, row = divmod(inside, height)
    return group * height + row, column
