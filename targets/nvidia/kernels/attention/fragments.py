"""Layout of tensor-core products over a warp, and reuse of weights as operands of the next product.

Of 16 rows of sums, lane l holds rows l / 4 and l / 4 + 8, and two neighbours of every 8 columns. The left-hand side of
the next product has the same layout. Two groups of 8 columns of weights therefore form one fragment without an
exchange.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, vector

from .....machines.gpus import WARP
from ...instructions.integers import Int
from .rows import RowValues

ROWS, COLUMNS, DEPTH = 16, 8, 16
"""Rows and columns of a fragment of sums; depth of a product of 16-bit elements."""
SHARING = [2, 1]
"""Bits of the lane number in which the lanes of one row differ."""


def rows_of(thread: Int, down: int) -> list[Int]:
    """Returns the rows of a thread in a block whose warps have `down` times 16 rows each."""
    warp, lane = divmod(thread, WARP)
    first = warp * (ROWS * down) + lane // 4
    return [first + tile * ROWS + half * 8 for tile in range(down) for half in range(2)]


def columns_of(thread: Int, columns: int) -> tuple[Int, list[int]]:
    """Returns the first of a thread's columns, and the offsets of all its columns from the first."""
    return thread % 4 * 2, [tile * COLUMNS + place for tile in range(columns // COLUMNS) for place in range(2)]


def row_of(place: int, columns: int) -> int:
    """Returns the thread's row of a sum; the sums of 16 rows by `columns` columns are consecutive."""
    across = columns // COLUMNS
    return place // (4 * across) * 2 + place % 4 // 2


def by_row(sums: Sequence[ir.Value], columns: int) -> RowValues:
    """Groups the sums by row."""
    found: RowValues = [[] for _ in range(4 * len(sums) // columns)]
    for place, item in enumerate(sums):
        found[row_of(place, columns)].append(item)
    return found


def runs(sums: Sequence[ir.Value], thread: Int, columns: int) -> list[tuple[int, Int, list[ir.Value]]]:
    """Returns the sums as (row of the thread, first column, neighbouring sums)."""
    first, across = thread % 4 * 2, columns // COLUMNS
    return [
        (row_of(place, columns), first + place // 4 % across * COLUMNS, list(sums[place : place + 2]))
        for place in range(0, len(sums), 2)
    ]


def left_fragment(weights: RowValues, tile: int, step: int, element: ir.Type) -> list[ir.Value]:
    """Returns 16 neighbouring columns of 16 rows of weights, as the left-hand side of a product."""
    pairs = [(half, 2 * step + ahead) for ahead in range(2) for half in range(2)]
    return [_packed(weights[2 * tile + half][2 * column : 2 * column + 2], element) for half, column in pairs]


def _packed(pair: Sequence[ir.Value], element: ir.Type) -> ir.Value:
    """Packs two neighbours into a register as 16-bit floats."""
    single = vector.from_elements(ir.VectorType.get([2], ir.F32Type.get()), pair)
    half = arith.truncf(ir.VectorType.get([2], element), single)
    word = vector.bitcast(ir.VectorType.get([1], ir.IntegerType.get_signless(32)), half)
    return vector.extract(word, [], [0])
