"""Prefetches weights while the tiles before them are computed.

A packed weight is one stream of panels. All tiles of rows work on one panel before the next one is read, so each
tile prefetches its share of the data after the panel, a few cache lines at a time:

    scf.for %tile .. { scf.for %k .. { read %panel[%k] } }
    // -->
    scf.for %tile .. { scf.for %k .. { read %panel[%k]; memref.prefetch %weight[end of panel + share of %tile + %k] } }

If the number of rows varies, the tiles of a call share the next panel if their number is known at run time, which is
computed at the start of the kernel; otherwise the minimum number of tiles do. All further tiles prefetch the last share
again, which is in the cache already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import affine, arith, bufferization, memref, tensor

from ...dialects.types import numpy_dtype
from ...passes.ir.values import constant_index, shape_of
from ...passes.kernel.views import argument_strides
from ..builders.linear_forms import LinearForm, apply_linear
from .slices import whole
from .tile_counts import TileCounts, TileLoop, tile_loops

# Minimum size of a weight in bytes; a smaller one enters the cache quickly, and stays there.
_LEAST_BYTES = 64 * 1024

# Prefetch distance in bytes (a page) in a panel with a single tile, which uses the panel as fast as it arrives.
_AHEAD_BYTES = 4096

# Number of rows up to which a tile reads its panel as fast as the hardware prefetcher works.
_FEW_ROWS = 4

# Minimum number of tiles that share the prefetching of a panel: a single tile takes too little time for a whole panel.
_LEAST_SHARING = 2

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")

# Prefetches into the second-level cache: the first level holds the data that the tile works on.
_LOCALITY = 2


@dataclass(frozen=True)
class WeightStream:
    """Part of the weights after its panel that a tile prefetches.

    Attributes:
        memory: all weights, flat.
        start: first element that this tile prefetches.
        line: elements per cache line.
        stride: maximum number of elements that each iteration of the tile's reduction loop prefetches; may be less than
            a line.
        stride_in_call: number of these elements in a call; None if it does not vary.
    """

    memory: ir.Value
    start: ir.Value
    line: int
    stride: int
    stride_in_call: ir.Value | None = None

    def fetch(self, iteration: LinearForm) -> None:
        """Prefetches the elements of one iteration."""
        if self.stride_in_call is not None:
            self._fetch_in_call(apply_linear(iteration), self.stride_in_call)
            return
        base, terms = iteration
        ahead = tuple((value, factor * self.stride) for value, factor in terms)
        for first in range(0, self.stride, self.line):
            index = apply_linear((base * self.stride + first, ((self.start, 1), *ahead)))
            memref.prefetch(self.memory, [index], False, _LOCALITY, True)

    def _fetch_in_call(self, iteration: ir.Value, stride: ir.Value) -> None:
        """Prefetches as many lines as an iteration may need; those beyond its share are its last line again."""
        first = arith.AddIOp(self.start, arith.MulIOp(iteration, stride).result).result
        last = arith.SubIOp(stride, constant_index(1)).result
        for offset in range(0, self.stride, self.line):
            ahead = arith.MinUIOp(constant_index(offset), last).result
            memref.prefetch(self.memory, [arith.AddIOp(first, ahead).result], False, _LOCALITY, True)


def weight_stream(
    weight: ir.Value,
    block: ir.Block,
    rows: int,
    iterations: int,
    varying: TileCounts,
    line_bytes: int,
    *,
    is_long: bool = False,
    is_whole: bool = False,
) -> WeightStream | None:
    """Returns the prefetching of the next weights by the tile at the insertion point; None if it would not help.

    Args:
        weight: the tile's operand, a part of a packed weight.
        block: body of the innermost loop over tiles.
        rows: number of rows of the tile.
        iterations: total number of iterations of the tile's reduction loop.
        varying: iterations of the loops over tiles if the number of rows varies.
        line_bytes: size of a cache line.
        is_long: whether an iteration takes so long that the hardware prefetcher, which stops at the end of a page, is
            not ahead of it.
        is_whole: whether all of the next part is read at once, before its first tile.
    """
    source, offsets = whole(weight)
    shape, part = shape_of(source), shape_of(weight)
    element = ir.RankedTensorType(source.type).element_type
    size = numpy_dtype(element).itemsize
    total, panel = math.prod(shape), math.prod(part)
    if total * size < _LEAST_BYTES or panel == total or not _is_contiguous(part, shape) or _is_strided(source):
        return None
    loops = tile_loops(block, {value for _, terms in offsets for value, _ in terms})
    if varying.is_single:
        loops = []
    counts = varying.fewest if len(varying.fewest) == len(loops) else [loop.count for loop in loops]
    tiles = math.prod(loop.count for loop in loops)
    if tiles == 1 and rows <= _FEW_ROWS and not is_long and not is_whole:
        return None
    sharing = max(min(tiles, _LEAST_SHARING), math.prod(counts))
    stride = -(-panel // (sharing * iterations))
    base, terms = _flat(shape, offsets)
    base += panel if tiles > 1 or is_whole else min(panel, _AHEAD_BYTES // size)
    stride_in_call = None
    if sharing < tiles and varying.are_known(loops):
        sharing_in_call, number = varying.in_call(loops, block)
        with ir.InsertionPoint.after(sharing_in_call.owner):
            each = arith.MulIOp(sharing_in_call, constant_index(iterations)).result
            stride_in_call = arith.CeilDivUIOp(constant_index(panel), each).result
            stride_in_call = arith.MinUIOp(stride_in_call, constant_index(stride)).result
            share = arith.MulIOp(stride_in_call, constant_index(iterations)).result
        shares: tuple[tuple[ir.Value, int], ...] = ((arith.MulIOp(number, share).result, 1),)
    else:
        shares = _shares(loops, counts, stride * iterations)
        if sharing < tiles:
            shares = ((_at_most(apply_linear((0, shares)), (sharing - 1) * stride * iterations), 1),)
    start = apply_linear((base, (*terms, *shares)))
    inside = _at_most(start, total - panel)
    flat = tensor.collapse_shape(ir.RankedTensorType.get([total], element), source, [list(range(len(shape)))])
    memory = bufferization.to_buffer(ir.MemRefType.get([total], element), flat, read_only=True)
    return WeightStream(memory, inside, line_bytes // size, stride, stride_in_call)


def _shares(loops: Sequence[TileLoop], counts: Sequence[int], share: int) -> tuple[tuple[ir.Value, int], ...]:
    """Returns the terms of the first element that a tile prefetches, after the panel."""
    shares: tuple[tuple[ir.Value, int], ...] = ()
    for loop, count in reversed(list(zip(loops, counts, strict=True))):
        shares = (*shares, (loop.index, share // loop.step))
        share *= count
    return shares


def _at_most(index: ir.Value, last: int) -> ir.Value:
    bounds = [ir.AffineExpr.get_dim(0), ir.AffineExpr.get_constant(last)]
    return affine.AffineMinOp(ir.AffineMapAttr.get(ir.AffineMap.get(1, 0, bounds)), [index]).result


def _is_contiguous(part: Sequence[int], whole: Sequence[int]) -> bool:
    """Returns whether a part of these sizes is contiguous in the whole: leading sizes of 1, then whole dimensions."""
    pairs = itertools.dropwhile(lambda pair: pair[0] == 1, zip(part, whole, strict=True))
    next(pairs, None)
    return all(inner == outer for inner, outer in pairs)


def _is_strided(value: ir.Value) -> bool:
    """Returns whether a tensor may be a part of a larger one, which no flat view of memory holds without a copy."""
    while not isinstance(value.owner, ir.Block):
        if isinstance(value.owner.opview, tensor.ExtractSliceOp):
            if not _is_contiguous_slice(value.owner.opview):
                return True
        elif value.owner.name not in _RESHAPES:
            return False
        value = value.owner.operands[0]
    function = value.owner.owner
    return function.name == "func.func" and argument_strides(function)[ir.BlockArgument(value).arg_number] is not None


def _is_contiguous_slice(slice: tensor.ExtractSliceOp) -> bool:
    steps_are_one = all(step == 1 for step in slice.static_strides)
    return steps_are_one and _is_contiguous(list(slice.static_sizes), shape_of(slice.source))


def _flat(shape: Sequence[int], offsets: Sequence[LinearForm]) -> LinearForm:
    base, stride = 0, 1
    terms: tuple[tuple[ir.Value, int], ...] = ()
    for size, (start, values) in zip(reversed(shape), reversed(offsets), strict=True):
        base += start * stride
        terms = (*terms, *((value, factor * stride) for value, factor in values))
        stride *= size
    return base, terms
