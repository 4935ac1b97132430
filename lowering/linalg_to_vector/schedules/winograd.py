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

from ....machines.convolutions import strip_ns
from ....machines.costs import transform_blocks
from ....machines.machine import Machine
from ...target import Target
from ..winograd.steps import WinogradSteps
from ..winograd.strips import cut_into_strips
from .base import Schedule, given_parameters
from .contraction import contraction
from .typical import chosen_tile, tiles_in, typical_sizes

# Maximum number of parallel blocks of the transforms of a strip.
_MOST_PARTS = 8


def winograd(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a Winograd convolution.

    Its parameters are those of a contraction for the products, and the rows and columns of tiles of a strip and of
    a parallel block of the transforms.
    """
    steps = WinogradSteps.of(kernel)
    chosen = chosen_tile(kernel)
    fits = len(chosen) == 2 and all(size <= most for size, most in zip(chosen, steps.tiles[1:], strict=True))
    strip = list(chosen) if fits else _strip(steps, target, _typical(kernel, steps))
    parameters = {"strip": strip, "part": _part(steps, target.machine, strip), **given_parameters(kernel)}
    cut_into_strips(kernel, steps, parameters["strip"], parameters["part"])
    products = contraction(kernel, target)
    return Schedule("winograd", {**products.parameters, **parameters}, products.text)


def _typical(kernel: ir.Operation, steps: WinogradSteps) -> list[tuple[int, ...]]:
    """Returns the rows and columns of tiles; if sizes vary, at several representative sizes."""
    results = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results
    batch, *images = ir.RankedTensorType(results[0]).shape[:3]
    found = typical_sizes(kernel, (batch, *images))
    return [tuple(-(-size // tile) for size, tile in zip(sizes[1:], steps.tile, strict=True)) for sizes in found] or [
        steps.tiles[1:]
    ]


def _strip(steps: WinogradSteps, target: Target, typical: Sequence[Sequence[int]]) -> list[int]:
    """Returns rows and columns of tiles: few enough to stay in the cache, enough to make up for reading the weights."""
    _, rows, cols = steps.tiles
    heights, widths = ({-(-size // cut) for cut in range(1, size + 1)} for size in (rows, cols))
    possible = {}
    for shape in itertools.product(heights, widths):
        each = strip_ns(target.machine, shape, math.prod(steps.points), steps.channels, steps.columns)
        if each is not None:
            strips = sum(tiles_in(sizes, sizes, shape) / math.prod(sizes) for sizes in typical)
            possible[shape] = strips * each, -shape[1]
    return list(min(possible, key=lambda shape: possible[shape]))


def _part(steps: WinogradSteps, machine: Machine, strip: Sequence[int]) -> list[int]:
    """Returns the tiles of a parallel block of the transforms: the whole strip if strips are parallel."""
    if steps.tiles != (1, *strip):
        return list(strip)
    tile_bytes = 4 * math.prod(steps.points) * max(steps.channels, steps.columns)
    wanted = max(1, min(_MOST_PARTS, transform_blocks(machine, math.prod(strip) * tile_bytes)))
    rows = -(-strip[0] // wanted)
    return [rows, -(-strip[1] // max(1, wanted // -(-strip[0] // rows)))]
