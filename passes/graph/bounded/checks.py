"""What rules check before they take an op for one that is right for every size."""

from __future__ import annotations

from collections.abc import Sequence

from ....dialects.core import Op
from .extents import is_dynamic
from .rewriter import Rewriter
from .snapshot import BoundedError, OpState, differing


def require_same(states: Sequence[OpState], but: Sequence[str] = ()) -> None:
    """Checks that the attributes of an op are the same at all sizes.

    Raises:
        BoundedError: one is not.
    """
    others = sorted(differing(states) - set(but))
    if others:
        raise BoundedError(f"its attribute '{others[0]}' depends on the sizes")


def require_static(graph: Rewriter, op: Op, axes: Sequence[int]) -> None:
    """Checks that some dimensions of an op's first operand do not vary.

    Raises:
        BoundedError: one does.
    """
    extents = graph.of(op.operation.operands[0])
    varying = [axis for axis in axes if is_dynamic(extents[axis])]
    if varying:
        raise BoundedError(f"it takes all elements along dimension {varying[0]} together, whose size varies")
