"""Tiles for the versions of a kernel, each of which suits some of the sizes best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ..dialects.registry import view_of
from ..dialects.stepwell.contraction import MatmulOp
from ..dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedMatmulOp
from ..dialects.stepwell.panels import column_groups
from ..dialects.stepwell.winograd import WinogradConvOp
from ..dialects.types import numpy_dtype
from ..machines.convolutions import WinogradStrips
from ..machines.paces import paces_of
from ..machines.tiles import depthwise_cycles, panels_together, tile_cycles, waiting_cycles
from ..passes.ir.functions import body_of
from ..passes.ir.values import shape_of
from ..sizes.expressions import Expression, evaluate_all
from .linalg_to_vector.schedules import depthwise
from .linalg_to_vector.schedules.tiles import rows_of_registers
from .stepwell_to_linalg.convolution import depthwise_panel
from .target import Target

# Weights from beyond the second-level cache, measured with the products of MiniLM for 1 to 40 tokens on an EPYC 9005:
# - the fraction by which a tile takes longer because it prefetches them, by the least number of tiles that share them;
# - the cycles by which a register of them takes longer than one from that cache;
# - times relative to reading them in two streams: in one, and if tiles are so short that prefetches arrive late.
_FETCHING, _FAR, _ONE_STREAM, _LATE = {1: 0.4, 2: 0.1}, 0.6, 2.0, 4.5

_MISMATCH = 1 << 40
"""Cost added per tile by which the number of tiles is below `fewest`, or above one for a plan for a single tile."""

_SCALE = 64
"""Scale of the integer costs: units per cycle."""


@dataclass(frozen=True)
class TileCost:
    """A tile and its cost.

    Attributes:
        rows: extents along the last two loops over rows; of a Winograd convolution, 1 and a number of tiles.
        each: cost of one tile.
        first: additional cost of the first tile, which brings the weights nearer.
        least: minimum cost of all tiles together.
        fewest: minimum number of tiles that the plan is meant for; they share the fetching of the weights.
        is_alone: whether the plan is meant for a single tile only.
    """

    rows: tuple[int, int]
    each: int
    least: int = 0
    first: int = 0
    fewest: int = 1
    is_alone: bool = False

    def cost(self, row_counts: np.ndarray) -> np.ndarray:
        """Returns the costs of covering the given numbers of rows, [sizes, 2]."""
        first, second = row_counts.T
        return np.asarray(evaluate_all(self.expression(("first", "second")), {"first": first, "second": second}))

    def expression(self, rows: Sequence[Expression]) -> Expression:
        """Returns the cost of covering these numbers of rows."""
        first, second = (["ceildiv", item, step] for item, step in zip(rows, self.rows, strict=True))
        count: Expression = ["*", first, second] if rows[0] != 1 else second
        found: Expression = ["*", count, self.each]
        if self.first:
            found = ["+", found, self.first]
        if self.least:
            found = ["max", found, self.least]
        if self.is_alone:
            return ["+", found, ["*", ["+", count, -1], _MISMATCH]]
        if self.fewest == 1:
            return found
        missing = ["+", self.fewest, ["*", ["min", count, self.fewest], -1]]
        return ["+", found, ["*", missing, _MISMATCH]]


def plans_of(
    kernel: ir.Operation, target: Target, row_counts: np.ndarray, *, is_resident: bool = False
) -> list[TileCost]:
    """Returns the tiles that versions of a kernel may have.

    Args:
        kernel: a kernel of stepwell ops.
        target: the machine.
        row_counts: number of rows along the last two loops over rows, for some sizes [sizes, 2].
        is_resident: whether the weights of all kernels together stay in the second-level cache.
    """
    for op in body_of(kernel).operations:
        view = view_of(op.operation)
        if isinstance(view, WinogradConvOp):
            return _strips(view, target, row_counts)
        if isinstance(view, PackedMatmulOp | PackedConvOp):
            return _tiles(view, target, row_counts, is_resident)
        if isinstance(view, PackedDepthwiseConvOp):
            return _depthwise_tiles(view, target, row_counts)
        if isinstance(view, MatmulOp):
            return []
    return []


def _tiles(
    op: PackedMatmulOp | PackedConvOp, target: Target, row_counts: np.ndarray, is_resident: bool
) -> list[TileCost]:
    size = numpy_dtype(ir.RankedTensorType(op.operation.results[0].type).element_type).itemsize
    group = max(column_groups(op.columns, op.panel), key=lambda group: group.size)
    vectors = -(-group.width // target.lanes(size))
    machine, paces = target.machine, paces_of(target.machine)
    limit = rows_of_registers(vectors, machine)
    weight = ir.RankedTensorType(op.operation.operands[1].type)
    depth, row_bytes = math.prod(weight.shape) // op.columns, size * group.width
    weight_bytes = size * math.prod(weight.shape)
    is_far = not is_resident and waiting_cycles(machine, weight_bytes, row_bytes) > 0
    two_streams = row_bytes / paces.shared_stream_bytes
    one_stream, least = _ONE_STREAM * two_streams, _LATE * two_streams
    high, wide = map(int, row_counts.max(axis=0))
    found = []
    for rows in range(1, min(limit, high) + 1):
        for cols in range(1, min(limit // rows, wide) + 1):
            together = panels_together(machine, rows * cols, vectors, group.panels)
            tile = machine, rows * cols, vectors, row_bytes, depth, together
            each, first = tile_cycles(*tile), tile_cycles(*tile, is_first=True)
            if not is_far:
                found.append(TileCost((rows, cols), round(_SCALE * each), first=round(_SCALE * (first - each))))
                continue
            each += _FAR * vectors
            # A single tile waits for the weights before it uses them, in as many streams as there are panels.
            alone = max(each, row_bytes / paces.stream_bytes) + (two_streams if together > 1 else one_stream)
            found.append(TileCost((rows, cols), round(_SCALE * alone), is_alone=True))
            for fewest, fetching in _FETCHING.items():
                times = [round(_SCALE * time * (1 + fetching)) for time in (max(each, two_streams), least)]
                found.append(TileCost((rows, cols), times[0], times[1], fewest=fewest))
    return found


def _depthwise_tiles(op: PackedDepthwiseConvOp, target: Target, row_counts: np.ndarray) -> list[TileCost]:
    kind = ir.RankedTensorType(op.operation.results[0].type)
    kernel = shape_of(op.operation.operands[1])[:-1]
    width = min(depthwise_panel(kind.shape[-1]), kind.shape[-1])
    lanes = target.lanes(numpy_dtype(kind.element_type).itemsize)
    vectors = -(-depthwise.tile_lanes(width, lanes) // lanes)
    limit = depthwise.most_positions(vectors, kernel[-1], op.strides[-1], target.machine)
    high, wide = map(int, row_counts.max(axis=0))
    found = []
    for rows in range(1, min(limit, high) + 1):
        for cols in range(1, min(limit // rows, wide) + 1):
            each = depthwise_cycles(target.machine, (rows, cols), kernel, op.strides[-1], vectors)
            found.append(TileCost((rows, cols), round(_SCALE * each)))
    return found


def _strips(op: WinogradConvOp, target: Target, row_counts: np.ndarray) -> list[TileCost]:
    _, *image = shape_of(op.operation.operands[0])
    strips = WinogradStrips(op.points, op.extents, image[-1], op.columns, 4 * math.prod(image))
    times = strips.run_ns(target.machine, int(row_counts.max()))
    return [TileCost((1, count), round(time)) for count, time in times.items()]
