"""The pass `stepwell-fuse-composites`: recognises composite ops."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..infra.base import Pass, register
from ..ir.rewriting import apply_patterns
from .patterns import normalization, products
from .patterns.attention import FuseAttention


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
        on_gpu: whether the kernels are for GPUs, whose attention kernels support more types and sizes.
        at_any_size: whether to ignore the lengths of attention, because they are only one of several possible sizes.

    Preconditions: canonical form (constants on the right), common subexpressions shared.
    """

    name = "stepwell-fuse-composites"
    on_gpu: bool = False
    at_any_size: bool = False

    def run(self, op: ir.Operation) -> None:
        """Applies the patterns to a fixed point."""
        apply_patterns(op, (*products.PATTERNS, *normalization.PATTERNS, FuseAttention(self.on_gpu, self.at_any_size)))
