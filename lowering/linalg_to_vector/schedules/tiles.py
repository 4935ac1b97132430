"""What the register-tiled schedules choose by: extents, rows of a tile, blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects.types import numpy_dtype
from ....passes.rewriting import walk
from ...target import Target
from ..tile_reads import Indexing, chunks_of, linear_form
from .typical import chosen_tile, typical_sizes

# What may be taken for granted in the first-level cache and in the second-level one.
CACHE_BYTES = 32 * 1024, 1024 * 1024

# More rows than this only make code longer: there are multiply-adds enough in flight.
_MOST_ROWS = 16

# The least work of a parallel block, a microsecond or two on one core: blocks are shared out in runs, so that small
# ones cost little. More blocks than that need not be; they keep the threads of most machines equally busy.
_BLOCK_FLOPS, _BLOCKS = 200_000, 32

# What share of an image blocks may do twice, where its sizes vary.
_OVERLAP = 0.05

# What a small kernel works on; see `wanted_blocks`.
_SMALL_BYTES = 750_000


@dataclass(frozen=True)
class Extents:
    """The iteration space of one column group.

    Attributes:
        outer: extents of the outer (and feature group) dimensions.
        rows: which of them the weight does not depend on: a row of the weight serves all places along these.
        panels: the number of panels.
        lane: the columns of one panel.
        reduction: extents of the reduced dimensions.
        element_bytes: the size of one element.
        stride: how far apart neighbouring places along the last row dimension read.
        is_spread: whether neighbouring columns share what they read, as those of one feature group do.
        typical: where sizes vary, the extents along the last two row dimensions at some of them.
        tile: where that was chosen before, the tile along these two; else empty.
    """

    outer: tuple[int, ...]
    rows: tuple[int, ...]
    panels: int
    lane: int
    reduction: tuple[int, ...]
    element_bytes: int
    stride: int = 1
    is_spread: bool = False
    typical: tuple[tuple[int, ...], ...] = ()
    tile: tuple[int, ...] = ()

    @property
    def weight_bytes(self) -> int:
        """The size of the weight, padded."""
        return self.element_bytes * self.panels * self.lane * math.prod(self.reduction)

    @property
    def is_panel_major(self) -> bool:
        """Whether all rows stay in the second-level cache, and the weight neither in the first nor is it the smaller.

        Then whatever needs a panel comes one after the other, in however many blocks. Otherwise what needs a row does,
        in all kernels, so that a thread finds in its cache what it wrote there: that is worth reading the weight too.
        """
        row_bytes = self.element_bytes * self.reduction[-1] * math.prod(self.outer)
        return self.weight_bytes > max(CACHE_BYTES[0], row_bytes) and row_bytes <= CACHE_BYTES[1]

    @property
    def flops(self) -> int:
        """Floating-point operations of the group."""
        return 2 * math.prod((*self.outer, self.panels, self.lane, *self.reduction))


@dataclass(frozen=True)
class Group:
    """A column group of a kernel: its number in the tags that the lowering left, and its extents."""

    number: int
    extents: Extents


def groups_of(kernel: ir.Operation) -> list[Group]:
    """The column groups of a kernel, by the tags that the lowering left."""
    groups = []
    for op in walk(kernel):
        if "stepwell.contraction" not in op.attributes:
            continue
        loops = Indexing(op)
        sizes, parallel = loops.sizes, loops.parallel
        element = ir.RankedTensorType(op.results[0].type).element_type
        number = ir.IntegerAttr(op.attributes["stepwell.contraction"]).value
        outer = tuple(sizes[: parallel - 2])
        fixed = {expr.position for expr in loops.exprs[1] if isinstance(expr, ir.AffineDimExpr)}
        rows = tuple(dim for dim in range(len(outer)) if dim not in fixed)
        # What is multiplied in grains counts as so many products fewer of larger elements.
        reduction = tuple(sizes[parallel : -1 if "stepwell.grain" in op.attributes else None])
        extents = Extents(
            outer,
            rows,
            sizes[parallel - 2],
            sizes[parallel - 1],
            reduction,
            numpy_dtype(element).itemsize,
            stride=max((_factor(expr, rows[-1]) for expr in loops.exprs[0]), default=1) if rows else 1,
            is_spread=any("floordiv" in str(expr) for expr in loops.exprs[0]),
            # Without rows there is one tile at all sizes.
            typical=tuple(tuple(found[dim] for dim in rows[-2:]) for found in typical_sizes(kernel, outer) if rows),
            tile=chosen_tile(kernel),
        )
        groups.append(Group(number, extents))
    return groups


def _factor(expr: ir.AffineExpr, dim: int) -> int:
    """By how much an expression grows with a dimension."""
    zeros: dict[int, int | ir.Value] = dict.fromkeys(range(64), 0)
    return linear_form(expr, zeros | {dim: 1})[0] - linear_form(expr, zeros)[0]


def registers_per_row(extents: Extents, target: Target) -> int:
    """How many vector registers one row of a panel takes."""
    lanes = target.lanes(extents.element_bytes)
    return sum(-(-chunk.lanes // lanes) for chunk in chunks_of(extents.lane, lanes))


def most_rows(extents: Extents, target: Target) -> int:
    """How many rows fit the registers beside one row of the weight and what is being broadcast."""
    return rows_of_registers(registers_per_row(extents, target), target)


def rows_of_registers(vectors: int, target: Target) -> int:
    """How many rows of so many registers fit beside one row of the weight and what is being broadcast."""
    registers, per_row = target.vector_registers, vectors + target.multiplies_by_lane
    return max(1, min(_MOST_ROWS, registers // 2, (registers - vectors - 1) // per_row))


def divisor(number: int, limit: int) -> int:
    """The greatest divisor of `number` that is at most `limit` (at least 1)."""
    most = max(1, limit)
    lower = [item for item in range(1, min(math.isqrt(number), most) + 1) if number % item == 0]
    return max(item for part in lower for item in (part, number // part) if item <= most)


def wanted_blocks(extents: Extents, kernel: ir.Operation) -> int:
    """Into how many parallel blocks a column group should be cut; 1 where other cores would not help.

    Of a small kernel, what is read is in the cache of the core that made it. Another core gets it from there at about
    25 bytes per nanosecond, which its part of the work, at 150 operations per nanosecond, must be worth.
    """
    cost = ir.DictAttr(kernel.attributes["stepwell.kernel"]) if "stepwell.kernel" in kernel.attributes else {}
    flops, moved = (ir.IntegerAttr(cost[name]).value if name in cost else None for name in ("flops", "bytes"))
    if flops is not None and moved is not None and moved < _SMALL_BYTES and flops / 300 < 500 + moved / 50:
        return 1
    return max(1, min(_BLOCKS, extents.flops // _BLOCK_FLOPS))


def even_count(steps: int, most: int, others: int = 1) -> int:
    """Into how many parts of about `most` a run of steps is best cut, so that two or more threads get the same.

    Args:
        steps: how many steps there are.
        most: how many parts there should be.
        others: into how many each of these parts is cut by other means.
    """

    def unevenness(count: int) -> tuple[float, int]:
        part, blocks = -(-steps // count), count * others
        # A part that overhangs does again what the one before it did.
        return max(part * count / steps * (1 if blocks % 2 == 0 else 1 + 1 / blocks), most / (2 * count)), -count

    return min(range(1, max(1, min(steps, most)) + 1), key=unevenness)


def cut_rows(extents: Extents, tile: Sequence[int], block: Sequence[int], parts: int, others: int = 1) -> list[int]:
    """Cuts the last two row dimensions of a block to about so many parts in all, the outer one first.

    So the parts of one thread, which follow each other, are rows of an image that follow each other, in all kernels.

    Args:
        extents: the iteration space.
        tile: the register tile.
        block: the block.
        parts: how many parts there should be.
        others: into how many each of these parts is cut along other dimensions.
    """
    rows = list(block)
    for dim in extents.rows[-2:]:
        steps = -(-extents.outer[dim] // tile[dim])
        count = even_count(steps, parts, others)
        rows[dim] = min(rows[dim], tile[dim] * -(-steps // count))
        parts, others = parts // count, others * count
    return rows


def whole_tiles(extents: Extents, tile: Sequence[int], block: Sequence[int]) -> list[int]:
    """Where rows and columns of an image vary, blocks near the given ones that are of whole tiles and hardly overlap.

    The last block is moved back into the image, by less than a tile or more. Where few rows are needed, it would do a
    tile more for that: [0, 16) and [14, 30) do four tiles of eight for 23 rows, [0, 30) does three.
    """
    found, inner = list(block), extents.rows[-2:]
    if not extents.typical or any(extents.outer[dim] == 1 for dim in inner):
        return found
    for dim in inner:
        size, step = extents.outer[dim], tile[dim]
        parts = [part for part in range(step, size, step) if -size % part <= _OVERLAP * size]
        if block[dim] < size:
            found[dim] = min([*parts, size], key=lambda part: abs(math.log(part / block[dim])))
    return found
