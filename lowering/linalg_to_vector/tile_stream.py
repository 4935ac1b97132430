"""Prefetches the operands and results of a tile's epilogue while the tile's sums are computed.

%sums = scf.for %k .. { .. }
%0 = read %residual[tile]; write %out[tile]
// -->
%sums = scf.for %k .. { ..; memref.prefetch %residual[row %k of the tile], %out[row %k of the tile] }
%0 = read %residual[tile]; write %out[tile]
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

# A smaller tensor is in the cache anyway.
_LEAST_BYTES = 512 * 1024

# Maximum number of reduction steps; after more, the epilogue's waiting time does not matter.
_MOST_STEPS = 1024

# The same for tensors that the tile only writes: their stores wait while the next tile runs.
_MOST_STEPS_BEFORE_WRITING = 256

_FIRST_LEVEL = 3
"""The hint of `memref.prefetch` for data that should stay in all levels of the cache."""


@dataclass(frozen=True)
class TileStream:
    """A tensor of which a tile reads or writes a part.

    Attributes:
        memory: the whole tensor.
        offsets: offsets of the part.
        part: extents of the part; the last but one is 1, the last is contiguous.
        line: elements per cache line.
        rows: number of rows of the part that one iteration of the tile's reduction loop prefetches.
        is_written: whether the part is written.
    """

    memory: ir.Value
    offsets: Sequence[LinearForm]
    part: Sequence[int]
    line: int
    rows: int
    is_written: bool

    def fetch(self, iteration: LinearForm) -> None:
        """Prefetches the rows of one iteration; iterations after the last row prefetch that row again."""
        count = math.prod(self.part[:-1])
        base, terms = iteration
        for number in range(self.rows):
            row = apply_linear((base * self.rows + number, tuple((item, self.rows * by) for item, by in terms)))
            bounds = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(count - 1)]
            row = affine.AffineMinOp(ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, bounds)), [row]).result
            for column in range(0, self.part[-1], self.line):
                indices = [apply_linear(offset) for offset in self._indices(row, column)]
                memref.prefetch(self.memory, indices, self.is_written, _FIRST_LEVEL, True)

    def _indices(self, row: ir.Value, column: int) -> list[LinearForm]:
        """Returns the index of a row of the part, with rows counted over all dimensions but the last."""
        forms: list[LinearForm] = []
        inner = count = math.prod(self.part[:-1])
        for size, (base, terms) in zip(self.part[:-1], self.offsets[:-1], strict=True):
            inner //= size
            expr = ir.AffineExpr.get_floor_div(ir.AffineExpr.get_dim(0), inner)
            expr = expr if inner * size == count else ir.AffineExpr.get_mod(expr, size)
            offset = affine.apply(ir.AffineMap.get(1, 0, [expr]), [row])
            forms.append((base, (*terms, (offset, 1)) if size > 1 else terms))
        base, terms = self.offsets[-1]
        return [*forms, (base + column, terms)]


def tile_streams(contraction: linalg.GenericOp, steps: int, iterations: int, line_bytes: int) -> list[TileStream]:
    """Returns the operands and results of the contraction's epilogue that are worth prefetching.

    Args:
        contraction: the op on a tile, at the insertion point.
        steps: number of steps of its reduction.
        iterations: number of iterations of its loop.
        line_bytes: size of a cache line.
    """
    if steps > _MOST_STEPS:
        return []
    root = _root(contraction)
    *read, written = root.operands
    wanted = [(operand, False) for operand in read if root != contraction]
    if steps <= _MOST_STEPS_BEFORE_WRITING:
        wanted.append((_unfilled(written), True))
    streams = []
    for operand, is_written in wanted:
        if operand == contraction.results[0] or shape_of(operand) != shape_of(contraction.results[0]):
            continue
        source, offsets = whole(operand)
        kind = ir.RankedTensorType(source.type)
        size = numpy_dtype(kind.element_type).itemsize
        if math.prod(shape_of(_carried(source))) * size < _LEAST_BYTES:
            continue
        layout = ir.StridedLayoutAttr.get_fully_dynamic(kind.rank)
        memory = bufferization.to_buffer(
            ir.MemRefType.get(kind.shape, kind.element_type, layout), source, read_only=True
        )
        part = shape_of(operand)
        rows = -(-math.prod(part[:-1]) // iterations)
        streams.append(TileStream(memory, offsets, part, line_bytes // size, rows, is_written))
    return streams


def _unfilled(tile: ir.Value) -> ir.Value:
    """Returns the tile from before the fill with start values: the fill itself does not touch memory."""
    if isinstance(tile.owner, ir.Block) or tile.owner.name != "linalg.fill":
        return tile
    return tile.owner.operands[1]


def _carried(value: ir.Value) -> ir.Value:
    """Returns the tensor that the surrounding loops carry and of which `value` is a slice."""
    while True:
        if not isinstance(value.owner, ir.Block):
            if value.owner.name != "tensor.extract_slice":
                return value
            value = value.owner.operands[0]
            continue
        loop, position = value.owner.owner.operation, ir.BlockArgument(value).arg_number
        inputs, skipped = len(loop.operands) - len(loop.results), len(value.owner.arguments) - len(loop.results)
        if loop.name not in ("scf.for", "scf.forall") or position < skipped:
            return value
        value = loop.operands[inputs + position - skipped]


def _root(contraction: linalg.GenericOp) -> linalg.GenericOp:
    """Returns the op that works on the sums, if there is one, or else the contraction."""
    for use in contraction.results[0].uses:
        if isinstance(use.owner, linalg.GenericOp):
            return use.owner
    return contraction
