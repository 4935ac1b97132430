"""The pass `stepwell-fuse-composites`: recognises composite ops."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...infra.base import Pass, register
from ...infra.state import CompileState
from ...ir.rewriting import apply_patterns
from ..patterns import normalization, products
from ..patterns.attention import AttentionKernels, FuseAttention


@register
@dataclass(frozen=True)
class FuseCompositesPass(Pass):
    """Recognise activations and normalisations written as several ops, and replace each by one op.

    Silu, hard swish, gelu (with erf and with tanh), sigmoid, layer norm, root-mean-square norm, softmax, log softmax,
    attention.

    ```mlir
    %0 = "stepwell.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "stepwell.mul"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    // -->
    %1 = "stepwell.silu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    ```

    Attributes:
        attention: the attention that the target's kernels compute as a whole: where queries are lanes of vectors, where
            matrix units multiply tiles (which supports more types and sizes), or none.

    Preconditions: canonical form (constants on the right), common subexpressions shared.
    """

    name = "stepwell-fuse-composites"
    attention: AttentionKernels = "lanes"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Applies the patterns to a fixed point."""
        attention = FuseAttention(self.attention)
        apply_patterns(op, (*products.PATTERNS, *normalization.PATTERNS, attention), state)
