"""Extents, tile rows and blocks, from which the register-tiled schedules choose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir

from ....dialects import discardable
from ....dialects.discardable import KernelFacts
from ....dialects.types import numpy_dtype
from ....machines import caches, costs, matrix_units, tiles
from ....machines.block_tiles import BlockWork, block_cycles, fits_tiles, most_block_rows
from ....machines.machine import Machine
from ....machines.matrix_units import divisor
from ....passes.ir.rewriting import walk
from ...builders.linear_forms import factor_of
from ..matrix_tiles import row_dim
from ..packing import packing_of
from ..tile_reads import Indexing, chunks_of
from .typical import chosen_tile, loop_ends, typical_sizes

# Maximum number of rows; more rows only make the code longer, because enough multiply-adds are in flight.
_MOST_ROWS = 16

# Maximum fraction of an image that blocks may compute twice if its sizes vary.
_OVERLAP = 0.05


@dataclass(frozen=True)
class Extents:
    """The iteration space of one column group.

    Attributes:
        machine: the machine that the schedule is for.
        outer: extents of the outer (and feature group) dimensions.
        rows: outer dimensions that do not index the weight: a row of the weight serves all positions along them.
        panels: number of panels.
        lane: columns of one panel.
        reduction: extents of the reduced dimensions.
        element_bytes: size of one element in bytes.
        stride: distance of the elements read by neighbouring positions along the last row dimension.
        is_spread: whether neighbouring columns read the same elements, as those of one feature group do.
        typical: extents along the last two row dimensions at some representative sizes; empty if sizes do not vary.
        ends: where the loops over the outer dimensions end in a call, as `loop_ends` returns it; may be empty.
        tile: a tile along the last two row dimensions that was chosen before; empty if none was.
        block: work per block of a weight of few bits; None for other weights.
        grains: number of grains of a step of a matrix unit; 0 if vectors multiply.
        packs: whether the kernel packs each panel of the weight before its rows are multiplied.
    """

    machine: Machine
    outer: tuple[int, ...]
    rows: tuple[int, ...]
    panels: int
    lane: int
    reduction: tuple[int, ...]
    element_bytes: int
    stride: int = 1
    is_spread: bool = False
    typical: tuple[tuple[int, ...], ...] = ()
    ends: tuple[tuple[int, int], ...] = ()
    tile: tuple[int, ...] = ()
    block: BlockWork | None = None
    grains: int = 0
    packs: bool = False

    @property
    def weight_bytes(self) -> int:
        """Size in bytes of the padded weight that serves one row."""
        return self.element_bytes * self.panels * self.lane * math.prod(self.reduction)

    @property
    def weights(self) -> int:
        """Number of separate weights: a Winograd convolution has one per point."""
        return math.prod(size for dim, size in enumerate(self.outer) if dim not in self.rows)

    @property
    def is_panel_major(self) -> bool:
        """True if blocks that need the same panel follow each other.

        This holds if all rows stay in the second-level cache, and the weight is larger than the rows and than the
        first-level cache. Otherwise the blocks that need the same rows follow each other, in all kernels, so that a
        thread finds the rows that it wrote in its cache: that is worth reading the weight several times.
        """
        row_bytes = self.element_bytes * self.reduction[-1] * math.prod(self.outer)
        is_large = self.weight_bytes > max(caches.near_bytes(self.machine), row_bytes)
        return is_large and row_bytes <= caches.cached_bytes(self.machine)

    @property
    def flops(self) -> int:
        """Floating-point operations of the group."""
        return 2 * math.prod((*self.outer, self.panels, self.lane, *self.reduction))


@dataclass(frozen=True)
class ColumnGroupExtents:
    """A column group of a kernel.

    Attributes:
        number: its number in the tags set by the lowering.
        extents: its iteration space.
        has_epilogue: whether an op after the sum makes its result.
        operands: number of operands of the sum, the last of which takes it.
    """

    number: int
    extents: Extents
    has_epilogue: bool = True
    operands: int = 3


def groups_of(kernel: ir.Operation, machine: Machine) -> list[ColumnGroupExtents]:
    """Returns the column groups of a kernel, found by the tags that the lowering set."""
    groups = []
    for op in walk(kernel):
        if not discardable.CONTRACTION.is_on(op):
            continue
        loops = Indexing(op)
        sizes, parallel = loops.sizes, loops.parallel
        element = ir.RankedTensorType(op.results[0].type).element_type
        number = discardable.CONTRACTION.required(op)
        outer = tuple(sizes[: parallel - 2])
        fixed = {expr.position for expr in loops.exprs[1] if isinstance(expr, ir.AffineDimExpr)}
        rows = tuple(dim for dim in range(len(outer)) if dim not in fixed)
        # Grains are counted as fewer products of larger elements, and so are the numbers of a word.
        block = _block_work(op, loops, rows, machine)
        inner = 2 if block else int(discardable.GRAIN.is_on(op))
        reduction = tuple(sizes[parallel : len(sizes) - inner])
        extents = Extents(
            machine,
            outer,
            rows,
            sizes[parallel - 2],
            sizes[parallel - 1],
            reduction,
            numpy_dtype(element).itemsize,
            stride=max((factor_of(expr, rows[-1]) for expr in loops.exprs[0]), default=1) if rows else 1,
            is_spread=any("floordiv" in str(expr) for expr in loops.exprs[0]),
            # Without rows, there is a single tile at all sizes.
            typical=tuple(tuple(found[dim] for dim in rows[-2:]) for found in typical_sizes(kernel, outer) if rows),
            ends=loop_ends(kernel, outer),
            tile=chosen_tile(kernel),
            block=block,
            grains=_grains(op, loops, rows, machine),
            packs=packing_of(op) is not None,
        )
        groups.append(ColumnGroupExtents(number, extents, not discardable.ROOT.is_on(op), len(op.operands)))
    if all(group.extents.grains for group in groups):
        return groups
    return [replace(group, extents=replace(group.extents, grains=0)) for group in groups]


def _grains(op: ir.Operation, loops: Indexing, rows: Sequence[int], machine: Machine) -> int:
    """Returns the grains of a step of the matrix unit; 0 if there is none, or vectors are as fast."""
    if not (rows and discardable.GRAIN.is_on(op) and matrix_units.has_matrix_unit(machine)):
        return 0
    is_tall = loops.sizes[rows[-1]] >= matrix_units.LEAST_ROWS and row_dim(loops) == rows[-1]
    grains = divisor(loops.sizes[-2], matrix_units.LINE_BYTES // matrix_units.GRAIN_BYTES)
    return grains if is_tall and grains >= matrix_units.LEAST_GRAINS else 0


def _block_work(op: ir.Operation, loops: Indexing, rows: Sequence[int], machine: Machine) -> BlockWork | None:
    if not discardable.BLOCK_BITS.is_on(op):
        return None
    is_bytes = isinstance(ir.RankedTensorType(op.operands[0].type).element_type, ir.IntegerType)
    work = BlockWork(8 // loops.sizes[-2], math.prod(loops.sizes[-3:]), is_bytes)
    count = loops.sizes[rows[-1]] if rows and row_dim(loops) == rows[-1] else 0
    return replace(work, in_tiles=fits_tiles(machine, work, count, loops.sizes[loops.parallel - 1]))


def registers_per_row(extents: Extents) -> int:
    """Returns the number of vector registers of one row of a panel."""
    lanes = extents.machine.lanes(extents.element_bytes)
    return sum(-(-chunk.lanes // lanes) for chunk in chunks_of(extents.lane, lanes))


def most_rows(extents: Extents) -> int:
    """Returns the number of rows that fit the registers beside one row of the weight and the broadcast element."""
    if extents.grains:
        return matrix_units.MOST_ROWS
    vectors = registers_per_row(extents)
    if extents.block is not None:
        return most_block_rows(extents.machine, extents.block, vectors)
    return rows_of_registers(vectors, extents.machine)


def tile_step_cycles(extents: Extents, rows: int, streamed: int) -> float:
    """Returns the cycles of one reduction step of a tile of some rows.

    Args:
        extents: the iteration space.
        rows: rows of the tile.
        streamed: registers of the weight that come from the second-level cache.
    """
    if extents.grains:
        return matrix_units.step_cycles(rows, extents.lane, extents.grains, math.prod(extents.reduction))
    vectors = registers_per_row(extents)
    if extents.block is None:
        return tiles.step_cycles(extents.machine, rows, vectors, streamed)
    return block_cycles(extents.machine, extents.block, rows, vectors) / extents.block.words


def rows_of_registers(vectors: int, machine: Machine) -> int:
    """Returns the number of rows of `vectors` registers that fit beside one row of the weight and a broadcast."""
    return tiles.most_rows(machine, vectors, _MOST_ROWS)


def wanted_blocks(extents: Extents, kernel: ir.Operation) -> int:
    """Returns the wanted number of parallel blocks of a column group; 1 if other cores would not help."""
    facts = discardable.KERNEL.read(kernel, KernelFacts())
    flops, moved = facts.flops, facts.bytes
    if flops is not None and moved is not None and not costs.pays_for_threads(extents.machine, flops, moved):
        return 1
    return costs.product_blocks(extents.machine, extents.flops)


def even_count(steps: int, most: int, others: int = 1) -> int:
    """Returns the best number of parts of a run of steps, about `most`, so that two or more threads get equal work.

    Args:
        steps: number of steps.
        most: wanted number of parts.
        others: number of blocks that each part is cut into along other dimensions.
    """

    def unevenness(count: int) -> tuple[float, int]:
        part, blocks = -(-steps // count), count * others
        # An overhanging part repeats some work of the part before it.
        return max(part * count / steps * (1 if blocks % 2 == 0 else 1 + 1 / blocks), most / (2 * count)), -count

    return min(range(1, max(1, min(steps, most)) + 1), key=unevenness)


def cut_rows(extents: Extents, tile: Sequence[int], block: Sequence[int], parts: int, others: int = 1) -> list[int]:
    """Cuts the last two row dimensions of a block into about `parts` parts in all, the outer one first.

    Successive parts, which one thread gets, are therefore successive rows of an image, in all kernels.

    Args:
        extents: the iteration space.
        tile: the register tile.
        block: the block.
        parts: wanted number of parts.
        others: number of blocks that each part is cut into along other dimensions.
    """
    rows = list(block)
    for dim in extents.rows[-2:]:
        steps = -(-extents.outer[dim] // tile[dim])
        count = even_count(steps, parts, others)
        rows[dim] = min(rows[dim], tile[dim] * -(-steps // count))
        parts, others = parts // count, others * count
    return rows


def whole_tiles(extents: Extents, tile: Sequence[int], block: Sequence[int]) -> list[int]:
    """Returns blocks near the given ones that are made of whole tiles and hardly overlap, if image sizes vary.

    The last block is moved back to end at the edge of the image. If few rows are needed, this overlap may cost one
    more tile: for 23 rows, [0, 16) and [14, 30) take four tiles of eight, [0, 30) takes three.
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
