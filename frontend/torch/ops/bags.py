"""Bags of embeddings: sums, means or maxima of the rows of a table."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import numpy as np
import torch
from mlir import ir
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp, ScatterOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from ....dialects.stepwell.shape import FillOp
from ...build import (
    cast,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    part_along,
    reshaped,
    running,
    scalar,
    shape,
    shape_of,
)
from ..node import AtenNode, arguments_of, overload_of
from ..registry import imports

_SUM, _MEAN, _MAX = range(3)


@imports("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    node: AtenNode,
    weight: ir.Value,
    indices: ir.Value,
    offsets: ir.Value,
    mode: int,
    per_sample_weights: ir.Value | None,
    include_last_offset: bool,
    padding_idx: int,
) -> tuple[ir.Value | None, ...]:
    """One row per bag; a bag begins at its offset into the indices, and ends where the next one begins.

    Bags of equal size, such as those of a matrix of indices, are reduced along a dimension. The rows of others are
    scattered to their bags.
    """
    line = cast(indices, np.int64)
    rows = gathered(weight, line, 0)
    if per_sample_weights is not None:
        rows = emit(ew.MulOp, rows, emit(ExpandDimsOp, cast(per_sample_weights, dtype(rows)), axes=(1,)))
    kept = emit(ew.NotOp, emit(ew.EqualOp, line, scalar(padding_idx, line))) if padding_idx >= 0 else None
    neutral = -np.inf if mode == _MAX else 0
    if kept is not None:
        rows = emit(ew.SelectOp, emit(ExpandDimsOp, kept, axes=(1,)), rows, scalar(neutral, rows))
    size = _equal_size(node)
    if size is not None and not include_last_offset:
        made, count = _of_equal_size(rows, kept, joined([dims_of(offsets, 0, 1), integers([size])]), mode)
    else:
        last = shape(offsets)[0]
        if include_last_offset:
            assert isinstance(last, int)
            offsets = part_along(offsets, 0, 0, last - 1)
        made, count = _of_any_size(rows, kept, cast(offsets, np.int64), mode)
    if mode == _MAX:
        made = emit(ew.SelectOp, emit(ew.GreaterOp, count, scalar(0, count)), made, scalar(0, made))
    if mode == _MEAN:
        made = emit(ew.DivOp, made, emit(ew.MaximumOp, count, scalar(1, count)))
    return made, None, None, None


def _equal_size(node: AtenNode) -> int | None:
    """Returns the number of indices of each bag, if offsets are computed as equal steps over all indices."""
    given = arguments_of(node.fx)
    offsets = given["offsets"]
    if not isinstance(offsets, torch.fx.Node) or overload_of(offsets.target) != "aten.arange.start_step":
        return None
    steps = arguments_of(offsets)
    start, step = steps["start"], steps["step"]
    if start != 0 or not isinstance(step, int):
        return None
    indices, bags = given["indices"].meta["val"].shape[0], offsets.meta["val"].shape[0]
    return step if statically_known_true(bags * step == indices) else None


def _of_equal_size(rows: ir.Value, kept: ir.Value | None, sizes: ir.Value, mode: int) -> tuple[ir.Value, ir.Value]:
    """Reduces bags with as many rows; returns the results, and the number of rows of each bag that count.

    Args:
        rows: the rows of all bags.
        kept: whether a row counts; None if all do.
        sizes: the number of bags, and of rows in each.
        mode: the reduction.
    """
    whole = reshaped(rows, joined([sizes, dims_of(rows, 1, 2)]))
    made = emit(ReduceMaxOp if mode == _MAX else ReduceSumOp, whole, axes=(1,), keepdims=False)
    counts = _filled(joined([dims_of(rows, 0, 1)]), 1, dtype(rows)) if kept is None else cast(kept, dtype(rows))
    return made, emit(ReduceSumOp, reshaped(counts, sizes), axes=(1,), keepdims=True)


def _of_any_size(rows: ir.Value, kept: ir.Value | None, starts: ir.Value, mode: int) -> tuple[ir.Value, ir.Value]:
    """Reduces bags that begin at `starts`; returns as `_of_equal_size` does."""
    total = joined([dims_of(rows, 0, 1)])
    ends = emit(ew.AddOp, total, integers([1]))
    ones = _filled(shape_of(starts), 1, np.dtype(np.int64))
    # A last bag without rows begins behind all of them.
    begun = emit(ScatterOp, _filled(ends, 0, np.dtype(np.int64)), starts, ones, axis=0, reduction="add")
    number = emit(ew.SubOp, running(part_along(begun, 0, 0, -1), 0), scalar(1, starts))
    kind, bags = dtype(rows), shape_of(starts)
    base = _filled(joined([bags, dims_of(rows, 1, 2)]), -np.inf if mode == _MAX else 0, kind)
    made = emit(ScatterOp, base, number, rows, axis=0, reduction="max" if mode == _MAX else "add")
    weights = _filled(total, 1, kind) if kept is None else cast(kept, kind)
    counts = emit(ScatterOp, _filled(bags, 0, kind), number, weights, axis=0, reduction="add")
    return made, emit(ExpandDimsOp, counts, axes=(1,))


def _filled(sizes: ir.Value, number: float, kind: np.dtype) -> ir.Value:
    return emit(FillOp, sizes, value=np.array(number, kind))
