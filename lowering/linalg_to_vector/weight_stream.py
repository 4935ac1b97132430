"""Prefetches weights while the tiles before them are computed.

A packed weight is one stream of panels. All tiles of rows work on one panel before the next one is read, so each
tile prefetches its share of the data after the panel, a few cache lines at a time:

    scf.for %tile .. { scf.for %k .. { read %panel[%k] } }
    // -->
    scf.for %tile .. { scf.for %k .. { read %panel[%k]; memref.prefetch %weight[end of panel + share of %tile + %k] } }

If the number of rows varies, the minimum number of tiles share the next panel. All further tiles prefetch the last
share again, which is in the cache already.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import affine, bufferization, memref, tensor

from ...dialects.types import numpy_dtype
from ...passes.ir.values import shape_of
from ...passes.kernel.views import argument_strides
from ..builders.linear_forms import LinearForm, apply_linear
from .slices import whole

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
        stride: elements that each iteration of the tile's reduction loop prefetches; may be less than a line.
    """

    memory: ir.Value
    start: ir.Value
    line: int
    stride: int

    def fetch(self, iteration: LinearForm) -> None:
        """Prefetches the elements of one iteration."""
        base, terms = iteration
        ahead = tuple((value, factor * self.stride) for value, factor in terms)
        for first in range(0, self.stride, self.line):
            index = apply_linear((base * self.stride + first, ((self.start, 1), *ahead)))
            memref.prefetch(self.memory, [index], False, _LOCALITY, True)


def weight_stream(
    weight: ir.Value,
    block: ir.Block,
    rows: int,
    iterations: int,
    fewest: Sequence[int],
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
        fewest: minimum number of iterations of each loop over tiles if the number of rows varies, or 0 if there is
            only one tile; empty if it does not vary.
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
    if fewest and not any(fewest):
        loops = []
    counts = fewest if len(fewest) == len(loops) else [count for _, _, count in loops]
    tiles = math.prod(count for _, _, count in loops)
    if tiles == 1 and rows <= _FEW_ROWS and not is_long and not is_whole:
        return None
    sharing = max(min(tiles, _LEAST_SHARING), math.prod(counts))
    stride = -(-panel // (sharing * iterations))
    base, terms = _flat(shape, offsets)
    base += panel if tiles > 1 or is_whole else min(panel, _AHEAD_BYTES // size)
    share = step_share = stride * iterations
    shares: tuple[tuple[ir.Value, int], ...] = ()
    for (index, step, _), count in reversed(list(zip(loops, counts, strict=True))):
        shares = (*shares, (index, step_share // step))
        step_share *= count
    if sharing < tiles:
        shares = ((_at_most(apply_linear((0, shares)), (sharing - 1) * share), 1),)
    start = apply_linear((base, (*terms, *shares)))
    inside = _at_most(start, total - panel)
    flat = tensor.collapse_shape(ir.RankedTensorType.get([total], element), source, [list(range(len(shape)))])
    memory = bufferization.to_buffer(ir.MemRefType.get([total], element), flat, read_only=True)
    return WeightStream(memory, inside, line_bytes // size, stride)


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


def tile_loops(block: ir.Block, panel: set[ir.Value]) -> list[tuple[ir.Value, int, int]]:
    """Returns the loops around `block`, outermost first, whose tiles all work on one panel: index, step, iterations."""
    loops = []
    moves_panel = _arguments_behind(panel)
    loop = block.owner.operation
    while loop.name == "scf.for" and block.arguments[0] not in moves_panel:
        bounds = [value.owner.attributes["value"] for value in list(loop.operands)[:3]]
        lower, upper, step = (ir.IntegerAttr(bound).value for bound in bounds)
        loops.insert(0, (block.arguments[0], step, -(-(upper - lower) // step)))
        block = loop.block
        loop = block.owner.operation
    return loops


def _arguments_behind(values: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns the block arguments that `values` are computed from by index arithmetic."""
    found, pending = set(), list(values)
    while pending:
        value = pending.pop()
        if isinstance(value.owner, ir.Block):
            found.add(value)
        else:
            pending.extend(value.owner.operands)
    return found
