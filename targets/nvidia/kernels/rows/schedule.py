"""Schedule of a row kernel: the number of threads that share a row, and the part of it that each keeps in registers."""

from __future__ import annotations

from dataclasses import dataclass

from .....machines.gpus import BLOCK_THREADS, WARP
from .axes import Axes
from .space import RowSpace

# Minimum number of threads of a block of adjacent rows, and the usual number of threads: choices, one and two warps for
# each of the four schedulers of a multiprocessor.
_FEWEST_THREADS = 128
_THREADS = 256
# Elements of a row in a thread's registers; a thread has 64 registers if the block has the maximum of 1024 threads.
_MOST_HELD = 32
_HELD = 16
"""Elements per thread from which more threads share a row: half of the maximum, a choice."""
# Minimum number of neighbouring threads with 16-byte reads that use whole lines of 128 bytes.
_LINE_THREADS = 8
# Vectors that a thread reads before it uses the first one, in a loop over a long row.
_UNROLL = 4


@dataclass(frozen=True)
class RowSchedule:
    """Parameters of the schedule `rows`.

    Attributes:
        threads: threads per block.
        share: threads that share a row.
        held: groups of columns that a thread keeps in registers, its whole part of a row; 0 to read it in each pass.
        unroll: unroll factor of the loop over groups of columns, if they are not held.
    """

    threads: int
    share: int
    held: int
    unroll: int = _UNROLL

    def rows_per_block(self, axes: Axes) -> int:
        """Returns the number of rows per block."""
        return self.threads // self.share * (1 if axes.along_columns else axes.lanes)

    def blocks(self, space: RowSpace, axes: Axes) -> int:
        """Returns the number of blocks for all rows."""
        return -(-space.extent(space.rows) // self.rows_per_block(axes))


def choose(space: RowSpace, axes: Axes, multiprocessors: int) -> RowSchedule:
    """Returns a schedule with enough blocks to fill the device, and rows in registers if they fit."""
    columns = space.extent(tuple(space.columns))
    if axes.along_columns:
        return _side_by_side(space.extent(space.rows), columns, axes.lanes, multiprocessors)
    return _one_below_another(space.extent(space.rows), columns, axes.lanes, multiprocessors)


def _side_by_side(rows: int, columns: int, lanes: int, multiprocessors: int) -> RowSchedule:
    vectors = -(-columns // lanes)
    share = _power_of_two(-(-columns // _HELD))
    if WARP < share <= 2 * WARP:
        share = WARP  # a single warp needs no shared memory and still has the row in registers
    share = min(share, _power_of_two(vectors), BLOCK_THREADS)
    while rows * share < multiprocessors * _THREADS and share < min(vectors, BLOCK_THREADS):
        share *= 2
    threads = max(share, _THREADS)
    while threads > max(share, WARP) and -(-rows * share // threads) < 2 * multiprocessors:
        threads //= 2
    groups = -(-vectors // share)
    return RowSchedule(threads, share, groups if groups * lanes <= _MOST_HELD else 0)


def _one_below_another(rows: int, columns: int, lanes: int, multiprocessors: int) -> RowSchedule:
    vectors = -(-rows // lanes)
    across = WARP
    while across > _LINE_THREADS and -(-vectors // across) < multiprocessors:
        across //= 2
    share = _power_of_two(-(-columns * lanes // _MOST_HELD))
    while across * share < _FEWEST_THREADS and share < columns:
        share *= 2
    # Blocks consist of whole warps, even for short rows.
    across = _FEWEST_THREADS if share == 1 else max(across, WARP // share)
    share = min(share, BLOCK_THREADS // across)
    groups = -(-columns // share)
    return RowSchedule(across * share, share, groups if groups * lanes <= _MOST_HELD else 0)


def _power_of_two(number: int) -> int:
    """Returns the smallest power of two that is at least `number`."""
    return 1 << max(0, number - 1).bit_length()
