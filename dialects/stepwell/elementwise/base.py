"""Base class of the elementwise ops."""

from __future__ import annotations

from ...core import KernelTraits, Op
from ...specs import size_of


class ElementwiseOp(Op):
    """Base of ops whose result elements each depend on one element of every operand, operands broadcast as in numpy.

    An op of another package that derives from this class fuses with its neighbors as ours do.
    """

    KERNEL = KernelTraits("elementwise", works_on_views=True)

    def flops(self) -> int:
        """One operation for each element of the result."""
        return size_of(self.operation.results[0])
