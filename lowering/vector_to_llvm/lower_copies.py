"""`stepwell-lower-copies`: converts copies between views to code of the kernel."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg

from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.named_ops import ops_named


@register
@dataclass(frozen=True)
class LowerCopiesPass(Pass):
    """Convert copies of memory that is not contiguous to loops; upstream would call a function of its runtime.

        memref.copy %a, %b : memref<4x8xf32, strided<[16, 1]>> to memref<4x8xf32>
        --> linalg.copy ins(%a) outs(%b)

    Preconditions: bufferised.
    """

    name = "stepwell-lower-copies"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every such copy."""
        for copy in ops_named(op, "memref.copy"):
            if all(_is_contiguous(value) for value in copy.operands):
                continue
            source, target = copy.operands
            with copy.location, ir.InsertionPoint(copy):
                linalg.copy(source, outs=[target])
            copy.erase()


def _is_contiguous(value: ir.Value) -> bool:
    return ir.MemRefType(value.type).layout == ir.AffineMapAttr.get(
        ir.AffineMap.get_identity(ir.MemRefType(value.type).rank)
    )
