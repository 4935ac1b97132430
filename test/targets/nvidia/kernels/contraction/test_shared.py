"""Shared-memory layouts: every chunk has its own offset, and simultaneous reads of a warp have no bank conflicts."""

import pytest
from stepwell.machines.gpus import BANK_BYTES, BANKS
from stepwell.targets.nvidia.instructions.integers import Int
from stepwell.targets.nvidia.kernels.contraction.shared import SharedTile


def conflicts(addresses: list[int], width: int) -> int:
    """Returns the number of extra passes that bank conflicts add to a warp's access.

    Args:
        addresses: byte address of each lane.
        width: bytes that each lane reads.
    """
    lanes = max(1, BANKS * BANK_BYTES // width)
    passes = 0
    for first in range(0, len(addresses), lanes):
        words = {address // 4 + word for address in addresses[first : first + lanes] for word in range(-(-width // 4))}
        banks = [sum(word % BANKS == bank for word in words) for bank in range(BANKS)]
        passes += max(banks) - 1
    return passes


def offset(tile, row, chunk):
    found = tile.offset(Int(row), Int(chunk)).known
    assert found is not None
    return found


@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("kind", [SharedTile.swizzled, SharedTile.plain])
def test_chunks_have_places_of_their_own(row_bytes, kind):
    tile = kind(64, row_bytes)
    places = {offset(tile, row, chunk) for row in range(64) for chunk in range(row_bytes // 16)}
    assert places == set(range(0, tile.bytes, 16))


@pytest.mark.parametrize("row_bytes", [32, 64, 128, 256, 512])
def test_one_chunk_of_eight_rows_is_read_at_once(row_bytes):
    tile = SharedTile.swizzled(64, row_bytes)
    for first in range(0, 64, 8):
        for chunk in range(row_bytes // 16):
            assert conflicts([offset(tile, first + lane, chunk) for lane in range(8)], 16) == 0


def test_without_a_swizzle_eight_rows_meet_in_one_bank():
    tile = SharedTile.plain(64, 128)
    assert conflicts([offset(tile, lane, 0) for lane in range(8)], 16) == 7


@pytest.mark.parametrize("first", [0, 8, 24])
def test_eight_floats_of_four_rows_are_read_at_once(first):
    tile = SharedTile.crossed(16, 256)
    places = {offset(tile, row, chunk) for row in range(16) for chunk in range(16)}
    assert places == set(range(0, tile.bytes, 16))
    lanes = [tile.element(Int(lane % 4), Int(first + lane // 4), 4).known for lane in range(32)]
    assert conflicts(lanes, 4) == 0


def test_the_order_of_chunks_repeats_after_a_period():
    for row_bytes in (32, 64, 128):
        tile = SharedTile.swizzled(64, row_bytes)
        assert tile.period == 8
        for row in range(32):
            assert offset(tile, row + tile.period, 1) == offset(tile, row, 1) + tile.period * row_bytes
