"""The pass `stepwell-recognize-bands`: replaces banded attention masks by attributes.

The causal mask of a long sequence is larger than all other operands of attention, and hides half of the scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ....dialects.stepwell.attention import UNBOUNDED, AttentionOp
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.movement import ReshapeOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import defining_op, walk

# Maximum of a float mask at hidden scores; it is just above the minimum of f16.
_HIDDEN = -6e4


@register
@dataclass(frozen=True)
class RecognizeBandsPass(Pass):
    """Replace masks that are bands by attributes that give the width of the band.

    ```mlir
    %0 = "stepwell.attention"(%q, %k, %v, %mask) {...}
    // -->
    %0 = "stepwell.attention"(%q, %k, %v) {before = .., after = .., ...}
    ```

    Preconditions: phase `graph`.
    """

    name = "stepwell-recognize-bands"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every attention op."""
        if state.parameters is not None:
            recognize_bands(op, state.parameters)


def recognize_bands(module: ir.Operation, parameters: Mapping[str, np.ndarray]) -> None:
    """Replaces the masks of a module."""
    for op in list(walk(module)):
        if op.name != AttentionOp.OPERATION_NAME or AttentionOp(op).mask is None:
            continue
        view = AttentionOp(op)
        band = _band(view, parameters)
        if band is None or min(view.before, view.after) < UNBOUNDED:
            continue
        with op.location, ir.InsertionPoint(op):
            attributes = {**view.attribute_values(), "before": band[0], "after": band[1]}
            made = AttentionOp(view.query, view.key, view.value, None, **attributes)
        op.results[0].replace_all_uses_with(made.result)
        op.erase()


def band_of(allowed: np.ndarray) -> tuple[int, int] | None:
    """The numbers of keys before and after its own position that each query of a mask [query, key] attends to.

    None if the mask is not a band: the numbers differ between queries, or a query attends to nothing.
    """
    queries, keys = allowed.shape
    ahead = np.arange(keys) - np.arange(queries)[:, None]
    if not allowed.any(1).all():
        return None
    before, after = int(-ahead[allowed].min()), int(ahead[allowed].max())
    if min(before, after) < 0 or not np.array_equal(allowed, (ahead <= after) & (-ahead <= before)):
        return None
    return (UNBOUNDED if before >= queries - 1 else before, UNBOUNDED if after >= keys - 1 else after)


def _band(op: AttentionOp, parameters: Mapping[str, np.ndarray]) -> tuple[int, int] | None:
    mask = op.mask
    while mask is not None and (reshape := defining_op(mask, ReshapeOp)) is not None:
        mask = reshape.input
    source = None if mask is None else defining_op(mask, ParameterOp)
    if source is None or source.name not in parameters or op.mask is None:
        return None
    values = parameters[source.name]
    shape = tuple(ir.RankedTensorType(op.mask.type).shape)
    lengths = tuple(ir.RankedTensorType(item.type).shape[2] for item in (op.query, op.key))
    if shape[-2:] != lengths or values.size != lengths[0] * lengths[1]:
        return None
    values = values.reshape(lengths)
    if values.dtype == np.bool_:
        return band_of(values) if op.masked <= _HIDDEN else None
    values = values.astype(np.float32)
    is_clear = ((values == 0) | (values <= _HIDDEN)).all()
    return band_of(values == 0) if is_clear else None
