"""Layout of packed weights: panels of columns, as the micro-kernel reads them.

The columns of a weight (output features) are cut into panels. Within a panel the columns are innermost and the
reduction is outside them, so the micro-kernel reads its weight as one contiguous stream. All panels of one width form a
column group; the groups follow one another in one flat tensor. All layouts here are channels-last.

Bytes are multiplied four at a time: ui8 inputs with i8 weights, summed in i32. In packed byte weights of products and
of convolutions that are not depthwise, four neighbours along the reduction are adjacent in each column.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class ColumnGroup:
    """Panels of equal width.

    Attributes:
        start: the first column.
        panels: number of panels.
        width: number of columns per panel.
    """

    start: int
    panels: int
    width: int

    @property
    def size(self) -> int:
        """The number of columns."""
        return self.panels * self.width


def column_groups(columns: int, panel: int) -> tuple[ColumnGroup, ...]:
    """Cuts `columns` into panels of width `panel`, and one narrower panel for the remainder."""
    full, rest = divmod(columns, panel)
    groups = [ColumnGroup(0, full, panel)] if full else []
    return tuple([*groups, ColumnGroup(full * panel, 1, rest)] if rest else groups)


def grain_of(dtype: np.dtype) -> int:
    """The number of neighbours along the reduction that are adjacent in a packed weight."""
    return 4 if dtype.itemsize == 1 else 1


SHORT_FLOATS = frozenset((np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)))
"""Types of floats whose products are summed in float32."""


PACKED, BY_ROWS, BY_COLUMNS = "packed", "rows", "columns"
"""Orders in which a weight is stored."""


def pack(weight: np.ndarray, panel: int) -> np.ndarray:
    """Packs a weight [groups, columns, *reduction] flat, as the ops of this module take it."""
    count, columns = weight.shape[:2]
    flat = weight.reshape(count, columns, -1, grain_of(weight.dtype))
    parts = [
        flat[:, group.start : group.start + group.size]
        .reshape(count, group.panels, group.width, *flat.shape[2:])
        .swapaxes(2, 3)
        for group in column_groups(columns, panel)
    ]
    return np.concatenate([np.ascontiguousarray(part).reshape(-1) for part in parts])


def unpack(packed: np.ndarray, count: int, columns: int, panel: int, grain: int = 0) -> np.ndarray:
    """The weight [groups, columns, reduction] that `packed` holds; `grain` is 0 for that of the element type."""
    depth, grain = packed.size // (count * columns), grain or grain_of(packed.dtype)
    parts, offset = [], 0
    for group in column_groups(columns, panel):
        size = count * group.size * depth
        tiles = packed[offset : offset + size].reshape(count, group.panels, depth // grain, group.width, grain)
        parts.append(tiles.swapaxes(2, 3).reshape(count, group.size, depth))
        offset += size
    return np.concatenate(parts, axis=1)
