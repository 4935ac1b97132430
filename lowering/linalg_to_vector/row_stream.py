"""Prefetches rows of a right-hand side that is read in place, while the panel before is used.

The rows of a panel are far apart, possibly one per page, so hardware prefetchers do not predict them. Code that
works on a panel therefore prefetches the next panel, about a row in each step:

    scf.for %tile .. { scf.for %k .. { read %x[%k, %panel] } }
    // -->
    scf.for %tile .. { scf.for %k .. { read %x[%k, %panel]; memref.prefetch %x[share of %tile + %k, %panel + 1] } }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import affine, bufferization, linalg, memref

from ...dialects.types import numpy_dtype
from ...passes.ir.values import shape_of
from ..builders.linear_forms import LinearForm, apply_linear
from .slices import whole
from .tile_counts import tile_loops

# A smaller tensor enters the cache quickly and stays there; hardware prefetchers predict rows with a smaller stride.
_LEAST_BYTES, _LEAST_STRIDE = 256 * 1024, 512

# Prefetches into the second-level cache: the prefetched data is as large as the data in use.
_LOCALITY = 2


@dataclass(frozen=True)
class RowStream:
    """Part of the next panel that a tile prefetches.

    Attributes:
        memory: the whole right-hand side, [.., row, panel, lane].
        places: index of the start of the tile's panel.
        first: first row that this tile prefetches.
        rows: number of rows that each iteration of the tile's reduction loop prefetches.
        line: elements per cache line.
    """

    memory: ir.Value
    places: Sequence[LinearForm]
    first: LinearForm
    rows: int
    line: int

    def fetch(self, iteration: LinearForm) -> None:
        """Prefetches the rows of one iteration."""
        *outer, rows, panels, lanes = ir.MemRefType(self.memory.type).shape
        base, terms = iteration
        start, others = self.first
        for number in range(self.rows):
            steps = tuple((value, factor * self.rows) for value, factor in terms)
            row = _at_most(rows - 1, (start + base * self.rows + number, (*others, *steps)))
            beside, values = self.places[-2]
            panel = _at_most(panels - 1, (beside + 1, values))
            for column in range(0, lanes, self.line):
                around = [apply_linear(place) for place in self.places[: len(outer)]]
                memref.prefetch(self.memory, [*around, row, panel, apply_linear((column, ()))], False, _LOCALITY, True)


def row_stream(contraction: linalg.GenericOp, block: ir.Block, iterations: int, line_bytes: int) -> RowStream | None:
    """Returns the prefetching of the next panel by the tile at the insertion point; None if it would not help.

    Args:
        contraction: the op on a tile, which reduces one dimension.
        block: body of the innermost loop over tiles.
        iterations: number of iterations of the tile's reduction loop.
        line_bytes: size of a cache line.
    """
    source, offsets = whole(contraction.operands[1])
    shape, part = shape_of(source), shape_of(contraction.operands[1])
    kind = ir.RankedTensorType(source.type)
    size = numpy_dtype(kind.element_type).itemsize
    if len(shape) < 3 or math.prod(shape) * size < _LEAST_BYTES or shape[-2] * shape[-1] * size < _LEAST_STRIDE:
        return None
    if part != (*[1] * (len(shape) - 3), shape[-3], 1, shape[-1]):
        return None
    loops = tile_loops(block, {value for _, terms in offsets for value, _ in terms})
    rows = -(-shape[-3] // (math.prod(loop.count for loop in loops) * iterations))
    share, terms = rows * iterations, ()
    for loop in reversed(loops):
        terms = (*terms, (loop.index, share // loop.step))
        share *= loop.count
    layout = ir.StridedLayoutAttr.get_fully_dynamic(kind.rank)
    memory = bufferization.to_buffer(ir.MemRefType.get(kind.shape, kind.element_type, layout), source, read_only=True)
    return RowStream(memory, offsets, (0, terms), rows, line_bytes // size)


def _at_most(limit: int, place: LinearForm) -> ir.Value:
    bounds = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(limit)]
    return affine.AffineMinOp(ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, bounds)), [apply_linear(place)]).result
