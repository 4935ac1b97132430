"""Ops that combine elements along some dimensions only."""

from __future__ import annotations

from collections.abc import Collection

from ..core import Op


class AlongAxesOp(Op):
    """An op whose result has the shape of its first operand, and whose elements are combined along some dimensions.

    Along all others, an element of the result depends only on elements at the same index. Other operands are read in
    full.
    """

    def combined_axes(self, rank: int) -> Collection[int]:
        """The dimensions along which an element of the result depends on elements beyond its own index.

        Args:
            rank: number of dimensions of the first operand.
        """
        raise NotImplementedError
