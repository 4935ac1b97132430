"""For which sizes tiles are chosen: where sizes vary, for some in the range, not the greatest alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ....passes.kernel.demand import TYPICAL
from ....passes.kernel.versions import TILE

Sizes = tuple[int, ...]


def typical_sizes(kernel: ir.Operation, sizes: Sequence[int]) -> tuple[Sizes, ...]:
    """The extents of some loops at typical sizes of a call; none where these do not vary, or nobody knows how.

    Args:
        kernel: a kernel, maybe with `stepwell.typical`: how much of its result is needed, at several sizes.
        sizes: the extents of the loops over its result from the outermost on; one may be over several dimensions.
    """
    results = list(ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results)
    if TYPICAL not in kernel.attributes or len(results) != 1:
        return ()
    shape = ir.RankedTensorType(results[0]).shape
    found = [
        _along(shape, list(ir.DenseI64ArrayAttr(item)), sizes) for item in ir.ArrayAttr(kernel.attributes[TYPICAL])
    ]
    known = [item for item in found if item is not None]
    return tuple(known) if len(known) == len(found) else ()


def chosen_tile(kernel: ir.Operation) -> tuple[int, ...]:
    """The tile that a version of a kernel is for, along the last two loops over rows; empty where none was chosen."""
    return tuple(ir.DenseI64ArrayAttr(kernel.attributes[TILE])) if TILE in kernel.attributes else ()


def _along(shape: Sequence[int], needed: Sequence[int], sizes: Sequence[int]) -> Sizes | None:
    dims = [(size, count) for size, count in zip(shape, needed, strict=True) if size != 1]
    found = []
    for wanted in sizes:
        size = count = 1
        while size < wanted and dims:
            more, some = dims.pop(0)
            size, count = size * more, count * some
        if size != wanted:
            return None
        found.append(count)
    return tuple(found)


def tiles_in(sizes: Sequence[int], block: Sequence[int], tile: Sequence[int]) -> int:
    """How many tiles cover the first of some elements, which are cut into blocks; those that overhang count."""
    return math.prod(
        size // part * -(-part // step) + -(-(size % part) // step)
        for size, part, step in zip(sizes, block, tile, strict=True)
    )


def count_tiles(
    typical: Sequence[Sizes], block: Sequence[int], tile: Sequence[int], most: int, least: float = 0
) -> float:
    """How many tiles a block takes; where sizes vary, how many all blocks do, on average.

    Args:
        typical: the extents of all blocks together at typical sizes; none where sizes do not vary.
        block: the block's extents.
        tile: those of a tile.
        most: the elements of the largest tile: a size counts by how many such tiles it might do with.
        least: what few tiles wait for takes as long as so many.
    """
    if not typical:
        return tiles_in(block, block, tile)
    ratios = [max(tiles_in(sizes, block, tile), least) / max(1.0, math.prod(sizes) / most) for sizes in typical]
    return sum(ratios) / len(ratios)
