"""`stepwell-drop-self-copies`: removes copies of a buffer to itself that only differ in their shapes."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.named_ops import ops_named

_RESHAPES = frozenset({"memref.collapse_shape", "memref.expand_shape", "memref.cast"})


@register
@dataclass(frozen=True)
class DropSelfCopiesPass(Pass):
    """Remove copies of a buffer to itself.

    Reshapes that only add and remove dimensions of size 1 keep the position of every element, but upstream's
    folding does not combine them if they group the dimensions in different ways, or if the strides of the dimensions
    of size 1 differ.

        %0 = memref.collapse_shape %out [[0], [1, 2]] : memref<6x1x80xf32, ...> into memref<6x80xf32, ...>
        %1 = memref.expand_shape %0 [[0, 1], [2]] ... : memref<6x80xf32, ...> into memref<6x1x80xf32, ...>
        memref.copy %1, %out
        -->
        (nothing)

    Preconditions: bufferised.
    """

    name = "stepwell-drop-self-copies"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Removes every such copy."""
        for copy in ops_named(op, "memref.copy"):
            source, target = copy.operands
            if _places(source) == _places(target) and _root(source) == _root(target):
                copy.erase()


def _root(value: ir.Value) -> ir.Value:
    """Returns the buffer that a value is a reshape of."""
    while isinstance(owner := value.owner, ir.OpView | ir.Operation) and owner.name in _RESHAPES:
        value = owner.operands[0]
    return value


def _places(value: ir.Value) -> list[tuple[int, int]]:
    """Returns size and stride of each dimension with more than one element: where the elements of a memref are."""
    kind = ir.MemRefType(value.type)
    strides, _ = kind.get_strides_and_offset()
    return [(size, stride) for size, stride in zip(kind.shape, strides, strict=True) if size != 1]
