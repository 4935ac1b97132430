"""Schedules of Winograd convolutions: strips of tiles whose transformed values stay in the cache between the steps.

linalg.generic {input} ; linalg.generic {product} ; linalg.generic {output} ; linalg.generic {epilogue}
// -->
scf.forall image, rows of tiles, columns of tiles      // one strip; no loop around a single strip
  scf.forall (blocks of tiles) { input }
  scf.forall (blocks of points, tiles, panels) { product }, as in a contraction
  scf.forall (blocks of tiles) { output; epilogue }
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mlir import ir

from ...target import Target
from ..winograd.steps import WinogradSteps
from ..winograd.strips import cut_into_strips
from .base import Schedule, given_parameters
from .contraction import contraction, tile_cycles
from .typical import chosen_tile, tiles_in, typical_sizes

# Approximate throughput of one core per nanosecond: cycles of vector multiplication, elements made by a transform.
_CYCLES, _TRANSFORMED = 2.6, 16.0

# Time in nanoseconds per byte of weights that another strip has read before: from a second-level cache of
# _CACHED_WEIGHT_BYTES, and for the bytes beyond its size.
_WEIGHT_NS, _FAR_WEIGHT_NS, _CACHED_WEIGHT_BYTES = 0.002, 0.05, 1 << 21

# Time in nanoseconds per byte that a strip keeps between its steps, for every doubling beyond the part of a
# second-level cache available for it.
_SPILLED_NS, _CACHED_BYTES = 0.0225, 1 << 19

# Addresses that are a multiple of this many bytes apart share a few lines of the first-level cache: transforms then
# take twice as long.
_PAGE_BYTES = 4096

# Maximum size of a strip in bytes; a larger one would show in a program's memory use.
_MOST_BYTES = 16 << 20

# Minimum bytes of a block of the transforms that is worth a thread.
_BLOCK_BYTES = 64 * 1024


def winograd(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a Winograd convolution.

    Its parameters are those of a contraction for the products, and the rows and columns of tiles of a strip and of
    a parallel block of the transforms.
    """
    steps = WinogradSteps.of(kernel)
    chosen = chosen_tile(kernel)
    fits = len(chosen) == 2 and all(size <= most for size, most in zip(chosen, steps.tiles[1:], strict=True))
    strip = list(chosen) if fits else _strip(steps, target, _typical(kernel, steps))
    parameters = {"strip": strip, "part": _part(steps, strip), **given_parameters(kernel)}
    cut_into_strips(kernel, steps, parameters["strip"], parameters["part"])
    products = contraction(kernel, target)
    return Schedule("winograd", {**products.parameters, **parameters}, products.text)


def _typical(kernel: ir.Operation, steps: WinogradSteps) -> list[tuple[int, ...]]:
    """Returns the rows and columns of tiles; if sizes vary, at several representative sizes."""
    results = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results
    batch, *images = ir.RankedTensorType(results[0]).shape[:3]
    found = typical_sizes(kernel, (batch, *images))
    return [tuple(-(-size // steps.tile) for size in sizes[1:]) for sizes in found] or [steps.tiles[1:]]


def _strip(steps: WinogradSteps, target: Target, typical: Sequence[Sequence[int]]) -> list[int]:
    """Returns rows and columns of tiles: few enough to stay in the cache, enough to make up for reading the weights."""
    _, rows, cols = steps.tiles
    heights, widths = ({-(-size // cut) for cut in range(1, size + 1)} for size in (rows, cols))
    possible = {}
    for shape in itertools.product(heights, widths):
        each = strip_nanoseconds(shape, steps.points, steps.channels, steps.columns, target)
        if each is not None:
            strips = sum(tiles_in(sizes, sizes, shape) / math.prod(sizes) for sizes in typical)
            possible[shape] = strips * each, -shape[1]
    return list(min(possible, key=lambda shape: possible[shape]))


def strip_nanoseconds(shape: tuple[int, int], points: int, channels: int, columns: int, target: Target) -> float | None:
    """Returns the time of a strip in nanoseconds; None if it would take too much memory.

    Args:
        shape: rows and columns of tiles.
        points: number of points at which a tile is evaluated, in each direction.
        channels: channels of the input.
        columns: channels of the result.
        target: the machine.
    """
    tile_bytes = 4 * points**2 * (channels + columns)
    weight_bytes = 4 * points**2 * channels * columns
    # A product's register tile is two registers wide; nearly all registers hold sums.
    height = (target.vector_registers - 3) // 2
    count = math.prod(shape)
    if count * tile_bytes > _MOST_BYTES and count > height:
        return None
    # Rows are distributed evenly over the register tiles: 22 rows are two tiles of 11.
    tiles = -(-count // height)
    panels = -(-columns // (target.vector_bytes // 2))
    step = tile_cycles(-(-count // tiles), 2, 2 * target.vector_bytes, channels)
    products = points**2 * panels * channels * tiles * step / _CYCLES
    transforms = 0.0
    for size in (channels, columns):
        is_aliased = 4 * count * size % _PAGE_BYTES == 0
        transforms += count * points**2 * size * (1 + is_aliased) / _TRANSFORMED
    spilled = count * tile_bytes * _SPILLED_NS * math.log2(max(1, count * tile_bytes / _CACHED_BYTES))
    fetched = weight_bytes * _WEIGHT_NS + max(0, weight_bytes - _CACHED_WEIGHT_BYTES) * _FAR_WEIGHT_NS
    return products + transforms + spilled + fetched


def _part(steps: WinogradSteps, strip: Sequence[int]) -> list[int]:
    """Returns the tiles of a parallel block of the transforms: the whole strip if strips are parallel."""
    if steps.tiles != (1, *strip):
        return list(strip)
    tile_bytes = 4 * steps.points**2 * max(steps.channels, steps.columns)
    wanted = max(1, min(8, math.prod(strip) * tile_bytes // _BLOCK_BYTES))
    rows = -(-strip[0] // wanted)
    return [rows, -(-strip[1] // max(1, wanted // -(-strip[0] // rows)))]
