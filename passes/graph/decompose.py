"""The pass `stepwell-decompose`."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..base import Pass, register
from ..rewriting import apply_patterns
from .patterns import transposed_conv
from .patterns.attention import SplitAttention
from .patterns.half import WidenHalf
from .patterns.recurrent import UnrollLstm
from .patterns.unsigned import SignContraction


@register
@dataclass(frozen=True)
class DecomposePass(Pass):
    """Take apart the ops that no kernel computes as a whole: recurrent layers, attention, contractions of unsigned
    integers, on CPUs those of floats of 16 bits, and transposed convolutions whose channels are last.

    ```mlir
    %y, %h, %c = "stepwell.lstm"(%x, %w, %r, %b) {...}
    // -->
    %p = "stepwell.matmul"(%x, %w) {transpose_rhs = true}   // the gates' share of all inputs at once
    // and for every step: a matmul of the state, an add, sigmoids and tanhs
    ```

    Attributes:
        max_steps: a layer of more steps stays as it is.
        on_gpu: whether the kernels are for GPUs, where those of attention take more types and sizes.
    """

    name = "stepwell-decompose"
    max_steps: int = 1024
    on_gpu: bool = False

    def run(self, op: ir.Operation) -> None:
        """Applies the patterns until none fits."""
        types = (SignContraction(),) if self.on_gpu else (SignContraction(), WidenHalf())
        split = SplitAttention(self.on_gpu)
        apply_patterns(op, (UnrollLstm(self.max_steps), split, *types, *transposed_conv.PATTERNS))
