"""Tiles of products with numbers of few bits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from stepwell.machines.block_tiles import (
    BlockWork,
    block_cycles,
    choose_block_panel,
    converts_blocks,
    fits_tiles,
    most_block_rows,
    scales_sums,
    spreads_blocks,
)
from stepwell.machines.families import FAMILIES
from stepwell.machines.machine import Machine

TILES = replace(FAMILIES["sapphirerapids"], matrix_rate=1024.0)
FLOATS, BYTES = BlockWork(4, 32, False), BlockWork(4, 32, True)


def test_few_rows_of_floats_scale_sums() -> None:
    assert scales_sums(FLOATS, 4) and not scales_sums(FLOATS, 8)
    assert scales_sums(BlockWork(4, 128, False), 8)
    assert scales_sums(BYTES, 100)


@pytest.mark.parametrize("name", ["zen3", "x86-64-v4", "sapphirerapids", "neoverse-n1"])
def test_sums_fit_the_registers(name: str) -> None:
    machine = FAMILIES[name]
    for vectors in (1, 2, 4):
        rows = most_block_rows(machine, BYTES, vectors)
        assert rows == 1 or rows * vectors + 2 * vectors < machine.vector_registers


def test_bytes_take_fewer_cycles_than_floats() -> None:
    for name in ("zen3", "sapphirerapids", "neoverse-v1"):
        machine = FAMILIES[name]
        assert block_cycles(machine, BYTES, 4, 2) < block_cycles(machine, FLOATS, 4, 2)


def test_a_panel_is_not_wider_than_the_columns() -> None:
    machine = FAMILIES["zen3"]
    assert choose_block_panel(machine, 5, BYTES) == 5
    assert choose_block_panel(machine, 4096, BYTES) == 2 * machine.lanes(4)
    assert choose_block_panel(machine, 4096, FLOATS) % machine.lanes(4) == 0


def test_many_rows_take_fewer_cycles_in_tiles() -> None:
    assert fits_tiles(TILES, BYTES, 16, 32)
    for work in (BYTES, BlockWork(4, 128, True)):
        vectors = 2 * block_cycles(TILES, work, 8, 2)
        assert block_cycles(TILES, replace(work, in_tiles=True), 16, 2) < vectors


def test_rows_that_vectors_take_in_one_tile() -> None:
    assert not fits_tiles(TILES, BYTES, 8, 32) and fits_tiles(TILES, BYTES, 9, 32)
    assert fits_tiles(TILES, BlockWork(4, 128, True), 8, 32)
    assert not fits_tiles(TILES, BlockWork(4, 128, True), 7, 32)


def test_many_rows_are_worth_spreading() -> None:
    assert spreads_blocks(TILES, BYTES, 32, 32)
    assert not spreads_blocks(TILES, BYTES, 16, 32)
    assert not spreads_blocks(TILES, BlockWork(8, 32, True), 32, 32)
    assert not spreads_blocks(FAMILIES["zen4"], BYTES, 32, 32)
    for work in (BYTES, BlockWork(4, 128, True)):
        tiles = replace(work, in_tiles=True)
        assert block_cycles(TILES, replace(tiles, bits=8), 16, 2) < block_cycles(TILES, tiles, 16, 2)


def test_many_rows_are_worth_converting_short_blocks() -> None:
    assert converts_blocks(TILES, BYTES, [128])
    assert converts_blocks(TILES, BYTES, [2, 64, 512])


@pytest.mark.parametrize(
    ("machine", "work", "rows"),
    [
        (FAMILIES["zen4"], BYTES, [512]),
        (TILES, FLOATS, [512]),
        (TILES, BYTES, [16]),
        (TILES, BYTES, [1, 256, 512]),
        (TILES, BYTES, []),
    ],
    ids=["no unit", "floats", "few rows", "a single row", "no rows"],
)
def test_no_conversion(machine: Machine, work: BlockWork, rows: list[int]) -> None:
    assert not converts_blocks(machine, work, rows)


@pytest.mark.parametrize(
    ("machine", "work", "rows", "columns"),
    [
        (FAMILIES["zen4"], BYTES, 16, 32),
        (TILES, FLOATS, 16, 32),
        (TILES, BlockWork(8, 16, True), 16, 32),
        (TILES, BYTES, 4, 32),
        (TILES, BYTES, 16, 24),
    ],
    ids=["no unit", "floats", "short blocks", "few rows", "part of a tile"],
)
def test_no_tiles(machine: Machine, work: BlockWork, rows: int, columns: int) -> None:
    assert not fits_tiles(machine, work, rows, columns)
