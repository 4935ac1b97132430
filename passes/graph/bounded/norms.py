"""Normalisations over dimensions that vary, from sums that leave out what is no data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.dims import product
from ....dialects.stepwell.elementwise import AddOp, CastOp, DivOp, MulOp, RsqrtOp, SubOp
from ....dialects.stepwell.normalization import LayerNormOp, RmsNormOp
from ....dialects.stepwell.reduction import ReduceSumOp
from ..values import constant, dtype_of
from .checks import require_same
from .extents import count_of, is_dynamic, whole
from .rewriter import Rewriter, Rule, replace
from .rules import Result, States


def normalisation(graph: Rewriter, op: LayerNormOp | RmsNormOp, states: States) -> Result | None:
    """As it is where nothing that it normalises over varies, else from sums.

    factor = rsqrt(mean((x - mean(x))**2) + epsilon); x * factor - mean(x) * factor
    """
    require_same(states)
    extents = graph.of(op.input)
    axes = tuple(range(op.axis % len(extents), len(extents)))
    if not any(is_dynamic(extents[axis]) for axis in axes):
        return [extents]
    dtype = dtype_of(op.input)
    wide = np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)
    value = op.input if dtype == wide else graph.noted(CastOp(op.input, dtype=wide), extents)
    middle = mean(graph, value, axes) if isinstance(op, LayerNormOp) else None
    around = value if middle is None else graph.noted(SubOp(value, middle), extents)
    spread = mean(graph, graph.noted(MulOp(around, around), extents), axes)
    spread = graph.noted(AddOp(spread, constant(np.array(op.epsilon, wide))), graph.of(spread))
    factor = graph.noted(RsqrtOp(spread), graph.of(spread))
    value = graph.noted(MulOp(value, factor), extents)
    if middle is not None:
        # What is left over at the mean: so nothing as large as the input is made but for the sums.
        value = graph.noted(SubOp(value, graph.noted(MulOp(middle, factor), graph.of(spread))), extents)
    value = value if dtype == wide else graph.noted(CastOp(value, dtype=dtype), extents)
    bias = op.bias if isinstance(op, LayerNormOp) else None
    value = value if op.scale is None else graph.noted(MulOp(value, op.scale), extents)
    value = value if bias is None else graph.noted(AddOp(value, bias), extents)
    replace(op, value)
    return None


def mean(graph: Rewriter, value: ir.Value, axes: Sequence[int], keepdims: bool = True) -> ir.Value:
    """The mean over some dimensions of what is data, of floating point."""
    extents = graph.of(value)
    if keepdims:
        reduced = [whole(1) if axis in axes else extent for axis, extent in enumerate(extents)]
    else:
        reduced = [extent for axis, extent in enumerate(extents) if axis not in axes]
    kept = graph.kept_here(value, axes, 0.0)
    total = graph.noted(ReduceSumOp(kept, axes=tuple(axes), keepdims=keepdims), reduced)
    count = product(count_of(extents[axis]) for axis in axes)
    return graph.noted(DivOp(total, graph.number(count, dtype_of(value))), reduced)


RULES: dict[type[Op], Rule] = {LayerNormOp: normalisation, RmsNormOp: normalisation}
