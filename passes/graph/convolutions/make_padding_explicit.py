"""The pass `stepwell-make-padding-explicit`: pads the inputs of convolutions by separate ops."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp
from ....dialects.stepwell.movement import PadOp
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import Pattern, Replacement, apply_patterns


@register
@dataclass(frozen=True)
class MakePaddingExplicitPass(Pass):
    """Pad the input of convolutions by a separate op, so that the convolution needs no bounds checks.

    ```mlir
    %0 = "stepwell.conv"(%x, %w) {pads = array<i64: 1, 1, 1, 1>, layout = "channels_last", ...}
    // -->
    %p = "stepwell.pad"(%x) {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>}
    %0 = "stepwell.conv"(%p, %w) {pads = array<i64: 0, 0, 0, 0>, layout = "channels_last", ...}
    ```

    `stepwell-canonicalize` must not run after this pass, because it would undo it.
    """

    name = "stepwell-make-padding-explicit"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the pattern to every padded convolution."""
        apply_patterns(op, (PadBeforeConv(),), state)


class PadBeforeConv(Pattern[ConvOp]):
    """conv(x, pads) --> conv(pad(x), 0)"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        if not any(op.pads):
            return None
        count = len(op.strides)
        low, high = op.pads[:count], op.pads[count:]
        around = ((0,), (0,)) if op.layout == "channels_last" else ((0, 0), ())
        low, high = ((*around[0], *amounts, *around[1]) for amounts in (low, high))
        attributes = op.attribute_values()
        attributes["pads"] = (0,) * (2 * count)
        padded = PadOp(op.input, low=low, high=high, value=0.0).result
        return ConvOp(padded, op.weight, op.bias, **attributes).result
