"""Rules for normalisation over varying dimensions, decomposed into sums that skip padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ...dialects.dims import product
from ...dialects.stepwell.elementwise import AddOp, CastOp, DivOp, MulOp, RsqrtOp, SubOp
from ...dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from ...dialects.stepwell.reduction import ReduceSumOp
from ..graph.values import constant, dtype_of
from .checks import require_static_attributes
from .extents import count_of, is_dynamic, whole
from .layout import unmerged
from .rewriter import PADDING, Rewriter, replace
from .rules import ResultExtents
from .states import OpState


@PADDING.attach(LayerNormOp, RmsNormOp)
def normalisation(graph: Rewriter, op: LayerNormOp | RmsNormOp, state: OpState) -> ResultExtents | None:
    """Unchanged if no normalised dimension varies, otherwise decomposed into sums.

    around = x - mean(x); around = around - mean(around); around * rsqrt(mean(around**2) + epsilon)
    """
    require_static_attributes(state)
    original = graph.of(op.input)
    axes = range(op.axis % len(original), len(original))
    if not any(is_dynamic(original[axis]) for axis in axes):
        return [original]
    dtype = dtype_of(op.input)
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    value, axes = unmerged(graph, op.input, axes)
    extents = graph.of(value)
    value = value if dtype == wide else graph.noted(CastOp(value, dtype=wide), extents)
    around = value
    if isinstance(op, LayerNormOp):
        # Centred twice: for data far from 0 the first mean has a rounding error, which depends on the upper bounds.
        around = _centred(graph, _centred(graph, value, axes), axes)
    spread = mean(graph, graph.noted(MulOp(around, around), extents), axes)
    spread = graph.noted(AddOp(spread, constant(np.array(op.epsilon, wide))), graph.of(spread))
    factor = graph.noted(RsqrtOp(spread), graph.of(spread))
    value = graph.noted(MulOp(around, factor), extents)
    value = value if dtype == wide else graph.noted(CastOp(value, dtype=dtype), extents)
    value, extents = graph.reshaped_to(value, original), original
    bias = op.bias if isinstance(op, LayerNormOp) else None
    value = value if op.scale is None else graph.noted(MulOp(value, op.scale), extents)
    value = value if bias is None else graph.noted(AddOp(value, bias), extents)
    replace(op, value)
    return None


def _centred(graph: Rewriter, value: ir.Value, axes: Sequence[int]) -> ir.Value:
    return graph.noted(SubOp(value, mean(graph, value, axes)), graph.of(value))


def mean(graph: Rewriter, value: ir.Value, axes: Sequence[int], keepdims: bool = True) -> ir.Value:
    """The mean of the data over some dimensions; of integers, rounded towards zero."""
    extents = graph.of(value)
    if keepdims:
        reduced = [whole(1) if axis in axes else extent for axis, extent in enumerate(extents)]
    else:
        reduced = [extent for axis, extent in enumerate(extents) if axis not in axes]
    kept = graph.kept_here(value, axes, 0.0)
    total = graph.noted(ReduceSumOp(kept, axes=tuple(axes), keepdims=keepdims), reduced)
    count = product(count_of(extents[axis]) for axis in axes)
    return graph.noted(DivOp(total, graph.number(count, dtype_of(value))), reduced)
