"""What versions of a kernel there should be: tiles, each of which suits some of the sizes best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ..dialects.stepwell import STEPWELL
from ..dialects.stepwell.contraction import MatmulOp
from ..dialects.stepwell.packed import PackedConvOp, PackedMatmulOp, column_groups
from ..dialects.stepwell.winograd import WinogradConvOp
from ..dialects.types import numpy_dtype
from ..passes.functions import body_of
from ..passes.kernel.prefixes import sizes_of
from ..runtime.sizes import Expression
from .linalg_to_vector.schedules.contraction import tile_cycles, waiting_cycles
from .linalg_to_vector.schedules.tiles import rows_of_registers
from .linalg_to_vector.schedules.winograd import strip_nanoseconds
from .target import Target

# No more versions than this of a kernel; of Winograd's convolutions, which take long to compile, fewer.
_MOST, _MOST_WINOGRAD = 4, 3

# Versions have to make the sizes that are far from what they could be that much faster.
_NEAR, _GAIN = 1.03, 0.015

_SCALE = 64
"""Costs are whole numbers: so many for a cycle."""


@dataclass(frozen=True)
class Plan:
    """A tile, and what it costs.

    Attributes:
        rows: its extents along the last two loops over rows.
        unit: in how many rows each of these counts: a tile of Winograd's is of several pixels.
        each: what one tile takes.
        least: what the fewest take.
    """

    rows: tuple[int, int]
    unit: int
    each: int
    least: int

    def cost(self, places: np.ndarray) -> np.ndarray:
        """What it takes to cover the rows at some places, [places, 2]."""
        counts = -(-places // (np.array(self.rows) * self.unit))
        return np.maximum(counts.prod(axis=1) * self.each, self.least)

    def expression(self, rows: Sequence[Expression]) -> Expression:
        """`cost` as an expression over sizes."""
        first, second = (["ceildiv", item, step * self.unit] for item, step in zip(rows, self.rows, strict=True))
        found: Expression = ["*", ["*", first, second], self.each]
        return ["max", found, self.least] if self.least else found


def plans_of(kernel: ir.Operation, target: Target, places: np.ndarray) -> list[Plan]:
    """The tiles that a kernel should have versions for; one where that does about as well at all places.

    Args:
        kernel: a kernel of stepwell ops.
        target: the machine.
        places: how many rows there are along the last two loops over rows, for some sizes [sizes, 2].
    """
    for op in body_of(kernel).operations:
        view = STEPWELL.view(op.operation)
        if isinstance(view, WinogradConvOp):
            return _chosen(_strips(view, target, places), places, _MOST_WINOGRAD)
        if isinstance(view, PackedMatmulOp | PackedConvOp):
            return _chosen(_tiles(view, target, places), places, _MOST)
        if isinstance(view, MatmulOp):
            return []
    return []


def _tiles(op: PackedMatmulOp | PackedConvOp, target: Target, places: np.ndarray) -> list[Plan]:
    size = numpy_dtype(ir.RankedTensorType(op.operation.results[0].type).element_type).itemsize
    group = max(column_groups(op.columns, op.panel), key=lambda group: group.size)
    vectors = -(-group.width // target.lanes(size))
    limit = rows_of_registers(vectors, target)
    weight = ir.RankedTensorType(op.operation.operands[1].type)
    depth, row_bytes = math.prod(weight.shape) // op.columns, size * group.width
    waits = round(_SCALE * waiting_cycles(size * math.prod(weight.shape), row_bytes))
    high, wide = map(int, places.max(axis=0))
    return [
        Plan((rows, cols), 1, round(_SCALE * tile_cycles(rows * cols, vectors, row_bytes, depth)), waits)
        for rows in range(1, min(limit, high) + 1)
        for cols in range(1, min(limit // rows, wide) + 1)
    ]


def _strips(op: WinogradConvOp, target: Target, places: np.ndarray) -> list[Plan]:
    channels = sizes_of(op.operation.operands[0])[-1]
    high, wide = (int(most) for most in -(-places.max(axis=0) // op.tile))
    shapes = [(rows, cols) for rows in range(1, min(high, 16) + 1) for cols in range(1, min(wide, 64) + 1)]
    found = []
    for shape in shapes:
        time = strip_nanoseconds(shape, op.tile + 2, channels, op.columns, target)
        if time is not None:
            found.append(Plan(shape, op.tile, round(time), 0))
    return found


def _chosen(plans: Sequence[Plan], places: np.ndarray, most: int) -> list[Plan]:
    """The plans that bring every place near to what the best of all plans takes, one after the other."""
    if not plans:
        return []
    costs = np.array([plan.cost(places) for plan in plans], float)
    # What a plan for one row of all places would take.
    ratios = np.maximum(costs / costs.min(axis=0), _NEAR) / _NEAR
    chosen: list[int] = []
    best = np.full(len(places), np.inf)
    while len(chosen) < most:
        losses = (np.minimum(ratios, best) ** 3).mean(axis=1)
        new = int(losses.argmin())
        if chosen and (best**3).mean() - losses[new] < _GAIN:
            break
        chosen.append(new)
        best = np.minimum(best, ratios[new])
    return [plans[number] for number in chosen]
