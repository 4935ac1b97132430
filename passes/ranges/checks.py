"""Checks that rules make before they accept an op as correct for every size."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects.core import Op
from ..ir.functions import body_of
from ..ir.memory_layout import byte_size
from ..ir.rewriting import walk
from ..ir.values import is_tensor
from .errors import RangesError
from .extents import is_dynamic
from .rewriter import Rewriter
from .states import OpState


def require_room(main: ir.Operation, most: int) -> None:
    """Checks that each tensor, and all inputs and outputs together, fit into `most` bytes of memory.

    Raises:
        RangesError: they do not at the shapes in the module, which are those at the upper bounds.
    """
    *operations, returned = walk(main)
    kinds = [value.type for value in (*body_of(main).arguments, *returned.operands)]
    sizes = [(sum(map(byte_size, kinds)), "the memory of inputs and outputs")]
    for op in operations:
        sizes += [(byte_size(result.type), f"the result of '{op.name}'") for result in op.results if is_tensor(result)]
    size, what = max(sizes)
    if size > most:
        raise RangesError(
            f"{what} takes {size / 2**30:.1f} GiB at the greatest sizes, but there are only {most / 2**30:.1f} GiB of "
            "memory; let the range end lower"
        )


def require_static_attributes(state: OpState, but: Sequence[str] = ()) -> None:
    """Checks that the attributes of an op do not depend on sizes.

    Raises:
        RangesError: an attribute does.
    """
    others = sorted(state.varying - set(but))
    if others:
        raise RangesError(f"its attribute '{others[0]}' depends on the sizes")


def require_static(graph: Rewriter, op: Op, axes: Sequence[int]) -> None:
    """Checks that the given dimensions of an op's first operand do not vary.

    Raises:
        RangesError: one varies.
    """
    extents = graph.of(op.operation.operands[0])
    varying = [axis for axis in axes if is_dynamic(extents[axis])]
    if varying:
        raise RangesError(f"it combines all elements along dimension {varying[0]}, whose size varies")
