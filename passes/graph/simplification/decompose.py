"""The pass `stepwell-decompose`: splits ops that no kernel computes as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.machine_option import machine_of
from ...infra.state import CompileState
from ...ir.rewriting import apply_patterns
from ..patterns import transposed_conv
from ..patterns.attention import AttentionKernels, SplitAttention
from ..patterns.half import WidenHalf
from ..patterns.paging import GatherPagedRows
from ..patterns.recurrent import UnrollLstm
from ..patterns.unsigned import SignContraction


@register
@dataclass(frozen=True)
class DecomposePass(Pass):
    """Decompose ops that no kernel computes as a whole: recurrent layers, attention, contractions of unsigned
    integers, optionally those of 16-bit floats, and transposed convolutions in channels-last layout.

    ```mlir
    %y, %h, %c = "stepwell.lstm"(%x, %w, %r, %b) {...}
    // -->
    %p = "stepwell.matmul"(%x, %w) {transpose_rhs = true}   // the gates' share of all inputs at once
    // and for every step: a matmul of the state, an add, sigmoids and tanhs
    ```

    Attributes:
        max_steps: maximum number of steps of a layer that is unrolled.
        attention: the attention that the target's kernels compute as a whole: where queries are lanes of vectors, where
            matrix units multiply tiles (which supports more types and sizes), or none.
        widens_half: whether contractions of 16-bit floats are computed in float32, except for those of a matrix unit.
        machine: description of another machine than the target's.
    """

    name = "stepwell-decompose"
    max_steps: int = 1024
    attention: AttentionKernels = "lanes"
    widens_half: bool = True
    machine: str = ""

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        machine = machine_of(self.machine, state)
        types = (SignContraction(), WidenHalf(machine)) if self.widens_half else (SignContraction(),)
        attention = GatherPagedRows(self.attention), SplitAttention(self.attention)
        apply_patterns(op, (UnrollLstm(self.max_steps), *attention, *types, *transposed_conv.PATTERNS), state)
