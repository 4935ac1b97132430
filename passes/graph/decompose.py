"""The pass `stepwell-decompose`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..base import Pass, register
from ..rewriting import apply_patterns
from .patterns import transposed_conv
from .patterns.attention import SplitAttention
from .patterns.recurrent import UnrollLstm
from .patterns.unsigned import SignContraction


@register
@dataclass(frozen=True)
class DecomposePass(Pass):
    """Take apart the ops that no kernel computes as a whole: recurrent layers, attention, contractions of unsigned
    integers, and transposed convolutions whose channels are last.

    ```mlir
    %y, %h, %c = "stepwell.lstm"(%x, %w, %r, %b) {...}
    // -->
    %p = "stepwell.matmul"(%x, %w) {transpose_rhs = true}   // the gates' share of all inputs at once
    // and for every step: a matmul of the state, an add, sigmoids and tanhs
    ```

    Attributes:
        max_steps: a layer of more steps stays as it is.
    """

    name = "stepwell-decompose"
    max_steps: int = 1024

    def run(self, op: ir.Operation) -> None:
        """Applies the patterns until none fits."""
        apply_patterns(op, (UnrollLstm(self.max_steps), SplitAttention(), SignContraction(), *transposed_conv.PATTERNS))
