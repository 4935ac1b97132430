"""Schedules of Winograd convolutions: strips of tiles whose transformed values stay in the cache between the steps.

linalg.generic {input} ; linalg.generic {product} ; linalg.generic {output} ; linalg.generic {epilogue}
// -->
scf.for image, rows of tiles, columns of tiles         // one strip
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
from ..winograd.steps import Steps
from ..winograd.strips import cut_into_strips
from .base import Schedule, given_parameters
from .contraction import contraction

# What a second-level cache holds of a strip beside the weights, and what a strip may take in all.
_CACHED_BYTES, _MOST_BYTES = 1 << 20, 32 << 20

# Blocks of the transforms that are worth a thread's while.
_BLOCK_BYTES = 256 * 1024


def winograd(kernel: ir.Operation, target: Target) -> Schedule:
    """The schedule of a Winograd convolution.

    Its parameters are those of a contraction for the products, and the rows and columns of tiles of a strip and of a
    parallel block of the transforms.
    """
    steps = Steps.of(kernel)
    strip = _strip(steps)
    parameters = {"strip": strip, "part": _part(steps, strip), **given_parameters(kernel)}
    cut_into_strips(kernel, steps, parameters["strip"], parameters["part"])
    products = contraction(kernel, target)
    return Schedule("winograd", {**products.parameters, **parameters}, products.text)


def _strip(steps: Steps) -> list[int]:
    """Rows and columns of tiles: few enough to stay in the cache, many enough for what the weights cost to read."""
    _, rows, cols = steps.tiles
    points = steps.points**2
    tile_bytes = 4 * points * (steps.channels + steps.columns)
    weight_bytes = 4 * points * steps.channels * steps.columns

    def cost(shape: tuple[int, int]) -> tuple[float, int]:
        count = math.prod(shape)
        strips = -(-rows // shape[0]) * -(-cols // shape[1])
        weights = strips * weight_bytes * (1.0 if weight_bytes > _CACHED_BYTES else 0.3)
        spilled = max(0.0, 1 - _CACHED_BYTES / (count * tile_bytes))
        # Twelve rows or more fill the registers of a product; the last ones of a strip are computed twice.
        overhang = 1 + 4 / count
        work = strips * count * tile_bytes
        return (weights + 2 * work * spilled + work) * overhang, -shape[1]

    heights, widths = ({-(-size // cut) for cut in range(1, size + 1)} for size in (rows, cols))
    shapes = itertools.product(heights, widths)
    possible = [shape for shape in shapes if math.prod(shape) * tile_bytes <= _MOST_BYTES or shape[0] == 1]
    return list(min(possible, key=cost))


def _part(steps: Steps, strip: Sequence[int]) -> list[int]:
    """The tiles of a parallel block of the transforms."""
    tile_bytes = 4 * steps.points**2 * max(steps.channels, steps.columns)
    wanted = max(1, min(8, math.prod(strip) * tile_bytes // _BLOCK_BYTES))
    rows = -(-strip[0] // wanted)
    return [rows, -(-strip[1] // max(1, wanted // -(-strip[0] // rows)))]
