"""Schedules of reductions, softmax and norms: parallel blocks of rows, each processed row by row.

max = linalg.generic {(row, column) reduces column}          scf.forall (block of rows)
power = linalg.generic {(row, column)}                -->      scf.for row
sum = linalg.generic {(row, column) reduces column}              all four ops on [1, column]
result = linalg.generic {(row, column)}
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from ....passes.ir.rewriting import walk
from ...target import Target
from .base import Schedule
from .pooling import pooling
from .steps import CLEANUP, LinalgStep, fuse, loop_parameters, match, parallel_tile, script, steps_of

# Maximum number of short rows processed together, and of their bytes: the rows hide each other's latency of sums over
# lanes.
_ROWS, _ROWS_BYTES = 8, 8192
# Lanes of a column tile if the reduction is not along the innermost dimension, and the minimum multiple of the lanes
# of a parallel block.
_COLUMNS, _LEAST_COLUMNS = 64, 16


def reduction(kernel: ir.Operation, target: Target) -> Schedule:
    """Returns the schedule of a reduction kernel.

    Its parameters are `blocks`, the parallel tile of the last op, and `rows`, the tile inside it. A reduction that
    slides a window over padding is scheduled as pooling.
    """
    if any(op.name == "tensor.pad" for op in walk(kernel)):
        return pooling(kernel, target)
    steps = steps_of(kernel)
    root = steps[-1]
    reduced = {dim for step in steps for dim in step.reductions if step.sizes == root.sizes}
    parallel = [dim for dim in range(len(root.sizes)) if dim not in root.reductions and dim not in reduced]
    time = sum(step.nanoseconds(target.machine) for step in steps)
    is_across = any(len(step.sizes) - 1 in step.reductions for step in steps)
    blocks = parallel_tile(root.sizes, parallel, time, 1 if is_across else _COLUMNS)
    if not blocks and not is_across and root.sizes:
        blocks = parallel_tile(root.sizes, parallel, time, _LEAST_COLUMNS, most=root.sizes[-1] // _COLUMNS)
    parameters = loop_parameters(kernel, target, blocks=blocks, rows=_rows(root, reduced, blocks))
    lines = [match("%root", root.number)]
    handle = "%root"
    if parameters["blocks"]:
        lines.append(fuse(handle, "%block", parameters["blocks"], is_parallel=True))
        handle = "%block"
    if parameters["rows"]:
        lines.append(fuse(handle, "%row", parameters["rows"], is_parallel=False))
    return script("reduction", parameters, [*lines, *CLEANUP] if len(lines) > 1 else [])


def _rows(root: LinalgStep, reduced: set[int], block: Sequence[int]) -> list[int]:
    """Returns the tile of one or a few rows; [] if it gains nothing because no op works on the reduced values."""
    if not reduced or root.reductions:
        return []
    last = len(root.sizes) - 1
    tile = [0 if dim in reduced else min(_COLUMNS, size) if dim == last else 1 for dim, size in enumerate(root.sizes)]
    if last in reduced:
        _take_rows_together(root, reduced, tile, block)
    return tile if any(0 < part < size for part, size in zip(tile, root.sizes, strict=True)) else []


def _take_rows_together(root: LinalgStep, reduced: set[int], tile: list[int], block: Sequence[int]) -> None:
    """Enlarges the tile along the innermost dimension that is not reduced."""
    dim = max((dim for dim in range(len(tile)) if dim not in reduced), default=None)
    if dim is None:
        return
    row = math.prod(root.sizes[other] for other in reduced) * 4
    extent = block[dim] if block and block[dim] else root.sizes[dim]
    most = max(1, min(_ROWS, _ROWS_BYTES // row))
    tile[dim] = max(count for count in range(1, most + 1) if extent % count == 0)
