"""Bags of embeddings: sums, means or maxima of the rows of a table."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from ...build import cast, dtype, emit, gathered, part_along, scalar, shape, summed
from ...index_arithmetic import numbers
from ..node import AtenNode
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

    Membership is a matrix [bags, indices], so that sums are a product.
    """
    line = cast(indices, np.int64)
    if include_last_offset:
        last = shape(offsets)[0]
        assert isinstance(last, int)
        offsets = part_along(offsets, 0, 0, last - 1)
    starts = emit(ExpandDimsOp, cast(offsets, np.int64), axes=(1,))
    place = numbers(line, 0)
    # Index i is in the bag with the number of starts up to i, less one.
    begun = cast(emit(ew.LessEqualOp, starts, place), np.int64)
    bag = emit(ew.SubOp, summed(begun, 0), scalar(1, begun))
    belongs = emit(ew.EqualOp, numbers(starts, 0, 2), bag)
    if padding_idx >= 0:
        belongs = emit(ew.AndOp, belongs, emit(ew.NotOp, emit(ew.EqualOp, line, scalar(padding_idx, line))))
    rows = gathered(weight, line, 0)
    if per_sample_weights is not None:
        rows = emit(ew.MulOp, rows, emit(ExpandDimsOp, cast(per_sample_weights, dtype(rows)), axes=(1,)))
    member = cast(belongs, dtype(rows))
    count = emit(ReduceSumOp, member, axes=(1,), keepdims=True)
    if mode == _MAX:
        apart = emit(ew.SelectOp, emit(ExpandDimsOp, belongs, axes=(2,)), rows, scalar(-np.inf, rows))
        made = emit(ReduceMaxOp, apart, axes=(1,), keepdims=False)
        made = emit(ew.SelectOp, emit(ew.GreaterOp, count, scalar(0, count)), made, scalar(0, made))
    else:
        made = emit(MatmulOp, member, rows)
        if mode == _MEAN:
            made = emit(ew.DivOp, made, emit(ew.MaximumOp, count, scalar(1, count)))
    return made, None, None, None
