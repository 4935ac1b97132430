"""Removes masks that kernels need not apply, because `stepwell-bound-loops` fills the masked elements."""

from __future__ import annotations

from mlir import ir

from ...dialects import discardable
from ...dialects.stepwell.elementwise import MaskOp
from ...passes.ir.rewriting import defining_op
from ...passes.kernel.masks import masked_axis


def drop_masks(kernel: ir.Operation) -> None:
    """Removes the masks at a kernel's end that set the elements beyond its declared extents to 0.

    A kernel that only masks keeps its last mask.

        %1 = "stepwell.mask"(%0, %mask) {extent = 3 : i64, otherwise = 0.0 : f64}
        return %1                            // in a kernel with stepwell.kept = array<i64: 3, -1>
        -->
        return %0
    """
    if not discardable.KEPT.is_on(kernel):
        return
    kept = discardable.KEPT.required(kernel)
    value = list(kernel.regions[0].blocks[0].operations)[-1].operands[0]
    while (masked := defining_op(value, MaskOp)) is not None and masked.otherwise == 0:
        below, axis = masked.input, masked_axis(masked)
        if isinstance(below.owner, ir.Block):
            return
        if axis is None or masked.extent < 0 or kept[axis] != masked.extent:
            value = below
            continue
        value.replace_all_uses_with(below)
        masked.operation.erase()
        value = below
