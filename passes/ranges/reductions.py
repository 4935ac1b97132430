"""Rules for reductions, normalisation and attention, which fill padding with their neutral elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ...dialects.stepwell.attention import FEW_QUERIES, KEYS_AT_ONCE, AttentionOp
from ...dialects.stepwell.elementwise import AddOp, AndOp, CastOp, MaskOp, NotOp
from ...dialects.stepwell.movement import PadOp
from ...dialects.stepwell.normalization import BatchNormOp, LocalResponseNormOp, LogSoftmaxOp, SoftmaxOp
from ...dialects.stepwell.paging import PagedAttentionOp
from ...dialects.stepwell.reduction import (
    ArgmaxOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReductionOp,
    least_of,
)
from ...dialects.stepwell.windows import CHANNELS_FIRST
from ...dialects.types import is_float
from ..graph.values import constant, dtype_of
from ..ir.rewriting import defining_op
from .checks import require_static_attributes
from .errors import RangesError
from .extents import Extent, Factor, is_dynamic, size_of, whole
from .layout import compacted, set_operands
from .norms import mean
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState


@PADDING.attach(ReductionOp)
def reduction(graph: Rewriter, op: Any, state: OpState) -> ResultExtents | None:
    """Fills padding with the neutral element; a mean is divided by the number of data elements."""
    require_static_attributes(state)
    extents = graph.of(op.input)
    axes = [axis % len(extents) for axis in op.axes]
    varying = [axis for axis in axes if is_dynamic(extents[axis])]
    if varying and isinstance(op, ReduceMeanOp):
        _replace_mean(graph, op, axes)
        return None
    if varying:
        neutral = float(op.neutral(dtype_of(op.input)))
        if isinstance(op, ReduceMinOp) and not is_float(dtype_of(op.input)):
            replace(op, _least_integer(graph, op, varying, _reduced(extents, axes, op.keepdims)))
            return None
        op.operation.operands[0] = graph.kept_here(op.input, varying, neutral)
    return [_reduced(extents, axes, op.keepdims)]


def _least_integer(graph: Rewriter, op: Any, varying: Sequence[int], reduced: Sequence[Extent]) -> ir.Value:
    """min(x) --> ~max(~x): masks hold numbers as float64, which cannot represent the greatest 64-bit integer."""
    inverted = graph.noted(NotOp(op.input), graph.of(op.input))
    kept = graph.kept_here(inverted, varying, float(least_of(dtype_of(op.input))))
    greatest = graph.noted(ReduceMaxOp(kept, axes=tuple(op.axes), keepdims=op.keepdims), reduced)
    return graph.noted(NotOp(greatest), reduced)


def _replace_mean(graph: Rewriter, op: Any, axes: Sequence[int]) -> None:
    """reduce_mean(x) --> reduce_sum(x) / count; for integers of 64 bits, as the sum would overflow a short one."""
    dtype = dtype_of(op.input)
    if is_float(dtype):
        replace(op, mean(graph, op.input, axes, op.keepdims))
        return
    wide = np.dtype(np.uint64 if dtype.kind == "u" else np.int64)
    value = mean(graph, graph.noted(CastOp(op.input, dtype=wide), graph.of(op.input)), axes, op.keepdims)
    replace(op, graph.noted(CastOp(value, dtype=dtype), graph.of(value)))


def _reduced(extents: Sequence[Extent], axes: Sequence[int], keepdims: bool) -> list[Extent]:
    if keepdims:
        return [whole(1) if axis in axes else extent for axis, extent in enumerate(extents)]
    return [extent for axis, extent in enumerate(extents) if axis not in axes]


@PADDING.attach(ArgmaxOp)
def argmax(graph: Rewriter, op: ArgmaxOp, state: OpState) -> ResultExtents:
    """Fills padding with the least number; ties take the first element, so padding never wins over data."""
    require_static_attributes(state)
    extents = graph.of(op.input)
    axis = op.axis % len(extents)
    op.operation.operands[0] = compacted(graph, op.input, [axis])
    extents = graph.of(op.input)
    op.operation.operands[0] = graph.masked(op.input, [axis], float(least_of(dtype_of(op.input))))
    return [_reduced(extents, [axis], op.keepdims)]


@PADDING.attach(SoftmaxOp, LogSoftmaxOp)
def softmax(graph: Rewriter, op: SoftmaxOp | LogSoftmaxOp, state: OpState) -> ResultExtents:
    """Fills padding with minus infinity, whose exponential is 0."""
    require_static_attributes(state)
    axis = op.axis % len(graph.of(op.input))
    op.operation.operands[0] = graph.masked(op.input, [axis], -math.inf)
    return [graph.of(op.operation.operands[0])]


@PADDING.attach(BatchNormOp, LocalResponseNormOp)
def normalisation(graph: Rewriter, op: Any, state: OpState) -> ResultExtents:
    """Sets channels beyond the data to 0 for a norm over neighbouring channels; others keep channels apart."""
    require_static_attributes(state)
    axis = 1 if op.layout == CHANNELS_FIRST else len(graph.of(op.input)) - 1
    op.operation.operands[0] = compacted(graph, op.input, [axis])
    if isinstance(op, LocalResponseNormOp):
        op.operation.operands[0] = graph.masked(op.operation.operands[0], [axis], 0.0)
    return [graph.of(op.operation.operands[0])]


@PADDING.attach(AttentionOp)
def attention(graph: Rewriter, op: AttentionOp, state: OpState) -> ResultExtents | None:
    """Masks keys in the padding, which must be finite: their weights are 0, and so are their contributions.

    Positions of an image, whose rows end in padding, are moved together first: the loops over queries and keys can then
    stop at the end of the data.
    """
    require_static_attributes(state)
    _compact_positions(graph, op)
    query, key, value = (graph.of(item) for item in (op.query, op.key, op.value))
    result = [*query[:3], value[3]]
    _require_same_depth(graph, op)
    if not is_dynamic(key[2]):
        return [result]
    if size_of(query[2]) > FEW_QUERIES and len(key[2]) == 1:
        _pad_keys(graph, op)
    mask = mask_of(graph, op, graph.of(op.key)[2])
    finite = [graph.finite(item, 2) for item in (op.key, op.value)]
    replace(op, graph.noted(AttentionOp(op.query, *finite, mask, **op.attribute_values()), result))
    return None


def _compact_positions(graph: Rewriter, op: AttentionOp) -> None:
    operands = list(op.operation.operands)
    for index, value in enumerate(operands):
        rank = len(graph.of(value))
        axes = [2] if index < 3 else [axis for axis in (rank - 2, rank - 1) if axis >= 0]
        operands[index] = compacted(graph, value, axes)
    set_operands(op, operands)


def _pad_keys(graph: Rewriter, op: AttentionOp) -> None:
    """Pads keys, values and mask to a multiple of the keys that a loop reads at once, so that the loop may end early.

    attention(q, k, v, mask) --> attention(q, pad(k), pad(v), pad(mask))
    """
    count = -size_of(graph.of(op.key)[2]) % KEYS_AT_ONCE
    for index, value in enumerate(op.operation.operands):
        extents = list(graph.of(value))
        axis = 2 if index < 3 else len(extents) - 1
        if index == 0 or count == 0 or not is_dynamic(extents[axis]):
            continue
        (keys,) = extents[axis]
        extents[axis] = (Factor(keys.extent, keys.size + count),)
        low, high = (0,) * len(extents), tuple(count if at == axis else 0 for at in range(len(extents)))
        op.operation.operands[index] = graph.noted(PadOp(value, low=low, high=high), extents)


def _require_same_depth(graph: Rewriter, op: AttentionOp) -> None:
    operands = [graph.of(value) for value in (op.query, op.key, op.value)]
    if any(is_dynamic(extents[3]) for extents in operands):
        raise RangesError("the depth of the heads of an attention varies")
    if any(is_dynamic(extents[1]) and extents[1] != operands[0][1] for extents in operands):
        raise RangesError("query heads share key heads, and the number of heads varies")


def mask_of(graph: Rewriter, op: AttentionOp | PagedAttentionOp, keys: Extent) -> ir.Value:
    """The mask of an attention, extended to hide keys in the padding.

    It is a mask op even if the padding is known to hide them, as in an input that the caller fills with zeros: the op
    also tells how many keys there are, behind which rows of pools are those of other texts or of none.
    """
    is_bool = op.mask is not None and dtype_of(op.mask) == np.bool_
    if is_bool and isinstance(op, AttentionOp) and math.isfinite(op.masked):
        raise RangesError("the attention masks with a finite number instead of minus infinity")
    if op.mask is not None and is_dynamic(graph.of(op.mask)[-1]):
        axes, otherwise = [len(graph.of(op.mask)) - 1], 0.0 if is_bool else -math.inf
        mask = graph.masked(op.mask, axes, otherwise)
        return mask if defining_op(mask, MaskOp) is not None else graph.kept_here(mask, axes, otherwise)
    dtype = dtype_of(op.query if op.mask is None else op.mask)
    neutral = constant(np.full((1, 1, 1, size_of(keys)), is_bool, dtype))
    graph.extents[neutral] = [whole(1), whole(1), whole(1), keys]
    hidden = graph.masked(neutral, [3], 0.0 if is_bool else -math.inf)
    if op.mask is None:
        return hidden
    extents = [whole(1)] * (4 - len(graph.of(op.mask))) + graph.of(op.mask)[:-1]
    return graph.noted((AndOp if is_bool else AddOp)(op.mask, hidden), [*extents, keys])
