"""`stepwell-hoist-stack`: allocates temporaries on the stack once per call instead of once per iteration."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of
from ...passes.ir.named_ops import ops_named


@register
@dataclass(frozen=True)
class HoistStackPass(Pass):
    """Move every `memref.alloca` of static size to the beginning of its function.

    Stack memory allocated in a loop is freed only when the function returns: in a loop of many iterations, the
    stack would overflow.

        scf.for %i = ... { %0 = memref.alloca() : memref<64xf32> ... }
        -->
        %0 = memref.alloca() : memref<64xf32>
        scf.for %i = ... { ... }

    Preconditions: no loop runs its iterations at the same time; an iteration reads only elements that it wrote.
    """

    name = "stepwell-hoist-stack"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits every function of a module."""
        for function in [inner.operation for inner in op.regions[0].blocks[0].operations]:
            if function.name == "func.func" and len(function.regions[0].blocks):
                _hoist(function)


def _hoist(function: ir.Operation) -> None:
    first = body_of(function).operations[0].operation
    for op in ops_named(function, "memref.alloca"):
        parent = op.parent
        if not op.operands and parent is not None and parent.operation != function:
            op.move_before(first)
