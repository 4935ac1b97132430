"""Removes masks that kernels need not apply, because `stepwell-bound-loops` fills the masked elements."""

from __future__ import annotations

from mlir import ir

from ...dialects import discardable
from ...dialects.stepwell.elementwise import KeepOp
from ...passes.ir.rewriting import defining_op
from ...passes.kernel.masks import masked_axis


def drop_masks(kernel: ir.Operation) -> None:
    """Removes the masks at a kernel's end that set the elements beyond its declared extents to 0.

    A kernel that only masks keeps its last mask.

        %1 = "stepwell.keep"(%0, %mask) {extent = 3 : i64, otherwise = 0.0 : f64}
        return %1                            // in a kernel with stepwell.kept = array<i64: 3, -1>
        -->
        return %0
    """
    if not discardable.KEPT.is_on(kernel):
        return
    kept = discardable.KEPT.required(kernel)
    value = list(kernel.regions[0].blocks[0].operations)[-1].operands[0]
    while (keep := defining_op(value, KeepOp)) is not None and keep.otherwise == 0:
        below, axis = keep.input, masked_axis(keep)
        if isinstance(below.owner, ir.Block):
            return
        if axis is None or keep.extent < 0 or kept[axis] != keep.extent:
            value = below
            continue
        value.replace_all_uses_with(below)
        keep.operation.erase()
        value = below
