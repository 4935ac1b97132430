"""Representative sizes for which tiles are chosen if sizes vary: several in the range, not only the greatest."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ....dialects import discardable
from ....passes.ir.functions import computed_extents

_Sizes = tuple[int, ...]


def typical_sizes(kernel: ir.Operation, sizes: Sequence[int]) -> tuple[_Sizes, ...]:
    """Returns the extents of some loops at representative sizes of a call; empty if these do not vary or are not known.

    Args:
        kernel: a kernel, possibly with `stepwell.typical`: the needed extents of its result at several sizes.
        sizes: extents of the loops over its result from the outermost on; one loop may be over several dimensions.
    """
    found = [_along(kernel, item, sizes) for item in discardable.TYPICAL.read(kernel, ())]
    known = [groups for groups in found if groups is not None]
    if len(known) < len(found):
        return ()
    return tuple(tuple(math.prod(count for _, count in group) for group in groups) for groups in known)


def loop_ends(kernel: ir.Operation, sizes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Returns where some loops end in a call: the entry of the table, and the number of iterations per unit of it.

    The entry is -1 for loops that always run to their end. Empty if the loops are not over whole dimensions.

    Args:
        kernel: a kernel, possibly with `stepwell.extents`: the entries of the needed extents of its result.
        sizes: extents of the loops over its result from the outermost on; one loop may be over several dimensions.
    """
    ends = computed_extents(kernel)
    groups = _along(kernel, ends, sizes) if max(ends, default=-1) >= 0 else None
    return tuple(
        (group[0][1], math.prod(size for size, _ in group[1:])) if group else (-1, 1) for group in groups or ()
    )


def chosen_tile(kernel: ir.Operation) -> tuple[int, ...]:
    """Returns the tile of a version of a kernel along the last two loops over rows; empty if none was chosen."""
    return tuple(discardable.TILE_ROWS.read(kernel, ()))


def _along(kernel: ir.Operation, values: Sequence[int], sizes: Sequence[int]) -> list[list[tuple[int, int]]] | None:
    """Returns the dimensions of a kernel's result that each loop is over: their sizes, and the value of each.

    None if the loops are not over whole dimensions, or if there are several results.
    """
    results = list(ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results)
    if len(results) != 1:
        return None
    dims = [item for item in zip(ir.RankedTensorType(results[0]).shape, values, strict=True) if item[0] != 1]
    groups = []
    for wanted in sizes:
        group, size = [], 1
        while size < wanted and dims:
            group.append(dims.pop(0))
            size *= group[-1][0]
        if size != wanted:
            return None
        groups.append(group)
    return groups


def tiles_in(sizes: Sequence[int], block: Sequence[int], tile: Sequence[int]) -> int:
    """Returns the number of tiles that cover elements cut into blocks; overhanging tiles count as whole ones."""
    return math.prod(
        size // part * -(-part // step) + -(-(size % part) // step)
        for size, part, step in zip(sizes, block, tile, strict=True)
    )


def count_tiles(
    typical: Sequence[_Sizes], block: Sequence[int], tile: Sequence[int], most: int, least: float = 0
) -> float:
    """Returns the number of tiles of a block or, if sizes vary, the average number of tiles of all blocks.

    Args:
        typical: extents of all blocks together at representative sizes; empty if sizes do not vary.
        block: the block's extents.
        tile: the tile's extents.
        most: elements of the largest tile: a size is weighted by the number of such tiles that would cover it.
        least: minimum number of tiles to count: the time spent waiting for weights, in units of tiles.
    """
    if not typical:
        return tiles_in(block, block, tile)
    ratios = [max(tiles_in(sizes, block, tile), least) / max(1.0, math.prod(sizes) / most) for sizes in typical]
    return sum(ratios) / len(ratios)
