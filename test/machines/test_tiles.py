"""Tests of the cycles of register tiles."""

from stepwell.machines.families import REFERENCE
from stepwell.machines.tiles import panels_together, tile_cycles


def _cycles(rows: int, *, is_first: bool) -> float:
    together = panels_together(REFERENCE, rows, vectors=2, panels=16)
    return tile_cycles(REFERENCE, rows, 2, row_bytes=128, depth=128, panels=together, is_first=is_first)


def test_a_first_tile_of_one_row_reads_more_panels_at_once_than_one_of_two_rows():
    assert _cycles(1, is_first=True) < 0.8 * _cycles(2, is_first=True)


def test_later_tiles_find_the_panels_near():
    assert _cycles(3, is_first=False) < 0.8 * _cycles(3, is_first=True)
