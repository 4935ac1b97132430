"""Schedules of Winograd convolutions: strips of tiles whose transformed values stay in the cache between the steps.

linalg.generic {input} ; linalg.generic {product} ; linalg.generic {output} ; linalg.generic {epilogue}
// -->
scf.forall images, rows of tiles, columns of tiles     // one strip; no loop around a single strip
                                                       // or, if sizes vary, scf.forall tiles
  scf.forall (blocks of tiles) { input }
  scf.forall (blocks of points, tiles, panels) { product }, as in a contraction
  scf.forall (blocks of tiles) { output; epilogue }
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mlir import ir

from ....machines.costs import transform_blocks
from ....machines.machine import Machine
from ....passes.ir.functions import computed_extents
from ...target import Target
from ..winograd.steps import WinogradSteps
from ..winograd.strips import cut_into_strips, varies
from .base import Schedule, given_parameters
from .contraction import contraction
from .typical import chosen_tile, tiles_in, typical_sizes

# Maximum number of parallel blocks of the transforms of a strip.
_MOST_PARTS = 8


def winograd(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a Winograd convolution.

    Its parameters are those of a contraction for the products, the rows and columns of tiles of a strip and of a
    parallel block of the transforms, and the images of a strip, which are several only if it has all of their tiles.
    """
    steps = WinogradSteps.of(kernel)
    if varies(kernel):
        count = [1, _run(kernel, steps, target)]
        default = {"images": 1, "strip": count, "part": count}
    else:
        strip = _strip(steps, target)
        # If the number of images varies, a strip of several would compute those that a call lacks.
        images = 1 if max(computed_extents(kernel), default=-1) >= 0 else _images(steps, target, strip)
        default = {"images": images, "strip": strip, "part": _part(steps, target.machine, [images, *strip])}
    parameters = {**default, **given_parameters(kernel)}
    cut_into_strips(kernel, steps, [parameters["images"], *parameters["strip"]], parameters["part"])
    products = contraction(kernel, target)
    return Schedule("winograd", {**products.parameters, **parameters}, products.text)


def _run(kernel: ir.Operation, steps: WinogradSteps, target: Target) -> int:
    """Returns the number of consecutive tiles of a strip, by the time at representative sizes if these are known."""
    chosen, most = chosen_tile(kernel), math.prod(steps.tiles)
    if chosen and chosen[-1] <= most:
        return chosen[-1]
    results = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value).results
    typical = typical_sizes(kernel, ir.RankedTensorType(results[0]).shape[:3])
    tiles = (1, *steps.tile)
    totals = [math.prod(-(-size // tile) for size, tile in zip(sizes, tiles, strict=True)) for sizes in typical]
    possible = {
        count: each * sum(-(-total // count) / total for total in totals or [most])
        for count, each in steps.strips.run_ns(target.machine, most).items()
    }
    return min(possible, key=lambda count: possible[count])


def _strip(steps: WinogradSteps, target: Target) -> list[int]:
    """Returns rows and columns of tiles: few enough to stay in the cache, enough to make up for reading the weights."""
    _, rows, cols = steps.tiles
    heights, widths = ({-(-size // cut) for cut in range(1, size + 1)} for size in (rows, cols))
    possible = {}
    for shape in itertools.product(heights, widths):
        each = steps.strips.strip_ns(target.machine, shape)
        if each is not None:
            possible[shape] = tiles_in((rows, cols), (rows, cols), shape) * each, -shape[1]
    return list(min(possible, key=lambda shape: possible[shape]))


def _images(steps: WinogradSteps, target: Target, strip: Sequence[int]) -> int:
    """Returns the images of a strip: several share a reading of the weights if these are most of the work."""
    batch, *tiles = steps.tiles
    if list(strip) != tiles:
        return 1
    possible = {}
    for images in sorted({-(-batch // cut) for cut in range(1, batch + 1)}):
        each = steps.strips.strip_ns(target.machine, (images * strip[0], strip[1]))
        if each is not None:
            possible[images] = -(-batch // images) * each
    return min(possible, key=lambda images: possible[images], default=1)


def _part(steps: WinogradSteps, machine: Machine, strip: Sequence[int]) -> list[int]:
    """Returns the tiles of a parallel block of the transforms: an image's part of a strip if strips are parallel."""
    images, *strip = strip
    if steps.tiles != (images, *strip):
        return list(strip)
    tile_bytes = 4 * math.prod(steps.points) * max(steps.channels, steps.columns)
    wanted = max(1, min(_MOST_PARTS, transform_blocks(machine, images * math.prod(strip) * tile_bytes)) // images)
    rows = -(-strip[0] // wanted)
    return [rows, -(-strip[1] // max(1, wanted // -(-strip[0] // rows)))]
