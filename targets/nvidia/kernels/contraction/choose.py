"""Choice of a contraction's tiles: the fastest of a list of candidates according to the cost model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from .....machines.gpus import LINE_BYTES, Capability
from .cost import cycles
from .mma import KINDS
from .sums import scratch_bytes
from .tiles import CopyUnit, Problem, Tiling
from .wgmma import shared_bytes as wgmma_bytes
from .windows import Im2colLayout


@dataclass(frozen=True)
class ContractionRequest:
    """Request for the tiling of a contraction.

    Attributes:
        problem: its sizes.
        compute: type of the multiplication: `f32`, or a key of `mma.KINDS`.
        by_boxes: whether the copy engine can copy both operands.
        transposed: whether lines of either operand run along rows; wgmma multiplies such operands only if of 2 bytes.
        units: how threads copy the left-hand and right-hand side, if the copy engine does not.
        window: how the copy engine copies a left-hand side that consists of windows of an image.
    """

    problem: Problem
    compute: str
    by_boxes: bool = False
    transposed: bool = False
    units: tuple[CopyUnit, ...] = ()
    window: Im2colLayout | None = None

    @property
    def element_bytes(self) -> int:
        """Size of an element in shared memory, in bytes."""
        return 4 if self.compute == "f32" else KINDS[self.compute].element_bytes


def choose(request: ContractionRequest, capability: Capability) -> Tiling:
    """Returns the fastest tiling; the smallest ones always fit."""
    bytes = request.element_bytes

    def cost(tiling: Tiling) -> float:
        problem = (
            wgmma_problem(request.problem, request.window, tiling) if tiling.method == "wgmma" else request.problem
        )
        return cycles(problem, tiling, request.compute, bytes, shared_bytes(tiling, bytes), capability, request.units)

    return min(_candidates(request, capability), key=cost)


def wgmma_problem(problem: Problem, window: Im2colLayout | None, tiling: Tiling) -> Problem:
    """Returns the problem that warp groups compute: for windows, rows are padded to whole tiles."""
    return problem if window is None else replace(problem, rows=window.tiles(tiling.rows) * tiling.rows)


def shared_bytes(tiling: Tiling, element_bytes: int) -> int:
    """Returns the dynamic shared memory of a block in bytes."""
    if tiling.method == "wgmma":
        return wgmma_bytes(tiling, element_bytes)
    stages = tiling.stages * tiling.stage_bytes(element_bytes)
    return max(stages, tiling.warps * scratch_bytes(tiling.warp_columns)) if tiling.method == "mma" else stages


def _candidates(request: ContractionRequest, capability: Capability) -> Iterator[Tiling]:
    if request.compute == "f32":
        yield from _fma()
        return
    yield from _mma(request)
    if capability.has_wgmma and request.by_boxes and (request.element_bytes == 2 or not request.transposed):
        yield from _wgmma(request)


def _fma() -> Iterator[Tiling]:
    """Yields tilings with 8 x 8 sums per thread, or fewer if there are few rows; warps have 4 x 8 threads."""
    shapes = [(128, 128, 32, 64), (64, 128, 32, 64), (128, 64, 32, 64), (64, 64, 32, 32), (64, 64, 16, 32)]
    shapes += [(32, 128, 16, 64), (32, 64, 16, 32), (16, 128, 16, 64), (16, 64, 16, 32)]
    for rows, columns, warp_rows, warp_columns in shapes:
        depth = 16 if rows > 16 else 32
        yield Tiling("fma", rows, columns, depth, warp_rows, warp_columns, 3)


def _mma(request: ContractionRequest) -> Iterator[Tiling]:
    warps = [(64, 64), (64, 32), (32, 64), (32, 32), (16, 64), (16, 32)]
    grids = [(2, 4), (4, 2), (2, 2), (1, 4), (1, 2), (2, 1)]
    for (warp_rows, warp_columns), (down, across), stages in itertools.product(warps, grids, (3, 4)):
        line = LINE_BYTES // request.element_bytes
        for depth in (line // 2, line):
            rows, columns = warp_rows * down, warp_columns * across
            if max(rows, columns) <= 256 and (rows, columns) != (256, 256):
                yield Tiling("mma", rows, columns, depth, warp_rows, warp_columns, stages)


def _wgmma(request: ContractionRequest) -> Iterator[Tiling]:
    depth = LINE_BYTES // request.element_bytes
    for rows, columns in ((128, 256), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64)):
        for stages in (8, 6, 5, 4, 3):
            yield Tiling("wgmma", rows, columns, depth, 64, columns, stages)


def persistent_blocks(problem: Problem, tiling: Tiling, capability: Capability) -> int:
    """Returns the number of persistent blocks that loop over the tiles of a wgmma contraction."""
    tiles = math.ceil(problem.rows / tiling.rows) * math.ceil(problem.columns / tiling.columns) * problem.batch
    return min(tiles, capability.multiprocessors)
