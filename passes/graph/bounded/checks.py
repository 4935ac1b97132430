"""What rules check before they take an op for one that is right for every size."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.core import Op
from ...functions import body_of, main_function
from ...rewriting import walk
from ..values import dtype_of, size_of
from .extents import is_dynamic
from .rewriter import Rewriter
from .snapshot import BoundedError, OpState, differing


def require_room(module: ir.Module, most: int) -> None:
    """Checks that memory of so many bytes holds each tensor, and all that goes in and comes out.

    Raises:
        BoundedError: it does not, as the shapes in the module are the greatest of a range.
    """
    main = main_function(module.operation)
    *operations, returned = walk(main)
    sizes = [(sum(map(_bytes_of, (*body_of(main).arguments, *returned.operands))), "what goes in and comes out")]
    for op in operations:
        sizes += [(_bytes_of(result), f"the result of '{op.name}'") for result in op.results if _is_tensor(result)]
    size, what = max(sizes)
    if size > most:
        raise BoundedError(
            f"{what} takes {size / 2**30:.1f} GiB at the greatest sizes, and there are {most / 2**30:.1f} GiB of "
            "memory; let the range end lower"
        )


def _bytes_of(value: ir.Value) -> int:
    return size_of(value) * dtype_of(value).itemsize


def _is_tensor(value: ir.Value) -> bool:
    return isinstance(value.type, ir.RankedTensorType)


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
