"""The pass `stepwell-dce`: dead code elimination."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.registry import OPS
from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import note_unread

_PURE = {
    "tensor.extract",
    "tensor.cast",
    "tensor.from_elements",
    "arith.addi",
    "arith.andi",
    "arith.cmpi",
    "arith.constant",
    "arith.index_cast",
    "arith.subi",
    "scf.if",
    "scf.for",
    "scf.while",
}


@register
@dataclass(frozen=True)
class DcePass(Pass):
    """Drop ops whose results are unused, including those in nested regions.

    MLIR's own passes do not know that stepwell ops are pure. Control flow on tensors is pure as well: nothing in it has
    side effects.

    ```mlir
    %0 = "stepwell.relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stepwell.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
    // -->
    %1 = "stepwell.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
    ```
    """

    name = "stepwell-dce"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Walks backwards once, inner ops before their parent, so that operands of dead ops become dead too."""
        _sweep(op, state)


def _sweep(op: ir.Operation, state: CompileState) -> None:
    for region in op.regions:
        for block in region:
            for inner in reversed([item.operation for item in block.operations]):
                _sweep(inner, state)
                is_pure = inner.name in OPS or inner.name in _PURE
                if is_pure and not any(True for result in inner.results for _ in result.uses):
                    note_unread(inner, state)
                    inner.erase()
