"""Assignment of the kernel's dimensions to the loops of every op of a row kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from .....support.errors import StepwellError
from ...emission.launch import Memory
from ...emission.views import memory_of
from .generics import iterators, loop_sizes, maps, through_views


class NoRows(StepwellError):
    """A kernel is not a row kernel; the message gives the reason."""


class Assignment:
    """Determines the kernel dimension of every loop of every op."""

    def __init__(
        self,
        sizes: tuple[int, ...],
        generics: Sequence[ir.Operation],
        first: ir.Operation,
        known: Mapping[ir.Value, Memory],
    ) -> None:
        self._sizes, self._generics, self._known = sizes, generics, known
        self._loops: dict[ir.Value, list[int | None]] = {op.results[0]: [None] * len(iterators(op)) for op in generics}
        self._loops[first.results[0]] = list(range(len(sizes) - 1))
        self._tensors: dict[ir.Value, list[int | None]] = {}

    def run(self) -> dict[ir.Value, tuple[int, ...]]:
        """Propagates known dimensions from op to op, and assigns the rest in order."""
        while True:
            while self._spread_all():
                pass
            unknown = next((op for op in self._generics if None in self._loops[op.results[0]]), None)
            if unknown is None:
                return {value: tuple(dim for dim in loops if dim is not None) for value, loops in self._loops.items()}
            self._guess(unknown)

    def _spread_all(self) -> bool:
        changed = [self._spread(op) for op in self._generics]
        return any(changed)

    def _spread(self, op: ir.Operation) -> bool:
        """Exchanges dimensions between an op's loops and the tensors around it; returns whether anything changed."""
        changed = False
        loops = self._loops[op.results[0]]
        outputs = len(op.operands) - len(op.results)
        values = [*op.operands, *op.results]
        for position, value in enumerate(values):
            map_ = maps(op)[position if position < len(op.operands) else position - len(op.operands) + outputs]
            shared = self._dims(value)
            if shared is None:
                continue
            for axis, expr in enumerate(map_.results):
                loop = expr.maybe_downcast()
                if isinstance(loop, ir.AffineDimExpr):
                    changed |= self._agree(loops, loop.position, shared, axis)
        return changed

    def _agree(self, loops: list[int | None], loop: int, shared: list[int | None], axis: int) -> bool:
        if loops[loop] == shared[axis]:
            return False
        if loops[loop] is not None and shared[axis] is not None:
            raise NoRows("ops index the same tensor along different dimensions")
        if loops[loop] is None:
            if shared[axis] in loops and shared[axis] != len(self._sizes) - 1:
                raise NoRows("an op has two loops over the same dimension")
            loops[loop] = shared[axis]
        else:
            shared[axis] = loops[loop]
        return True

    def _dims(self, value: ir.Value) -> list[int | None] | None:
        """Returns the known dimensions of a computed tensor, as a list shared by its users; None for memory."""
        if memory_of(value, self._known) is not None or isinstance(value.owner, ir.Block):
            return None
        if value in self._tensors:
            return self._tensors[value]
        if value.owner.name in ("tensor.collapse_shape", "tensor.expand_shape"):
            if _is_empty(through_views(value)):
                return None
            raise NoRows("a computed tensor is reshaped")
        if value.owner.name != "linalg.generic":
            return None
        return self._tensors.setdefault(value, [None] * len(ir.RankedTensorType(value.type).shape))

    def _guess(self, op: ir.Operation) -> None:
        """Assigns the first free dimension of equal size to the op's first loop without a dimension."""
        loops, sizes = self._loops[op.results[0]], loop_sizes(op)
        for loop, size in enumerate(sizes):
            if loops[loop] is not None:
                continue
            free = [dim for dim, whole in enumerate(self._sizes) if dim not in loops and whole == size]
            if not free and size == 1:
                free = [len(self._sizes) - 1]
            if not free:
                raise NoRows("an op has a loop over a dimension that the reductions lack")
            loops[loop] = free[0]
            return


def _is_empty(value: ir.Value) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.empty"
