"""Where a kernel is cut into launches: which of its tensors are written to memory between them.

What a launch computes, each of its threads computes from the launch's arguments. A tensor that many threads need is
computed again and again unless a launch of its own leaves it in memory first; where that is worth it, is decided here.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlir import ir

from ...passes.base import PassError
from .generics import inputs_of, loop_extents, reduced_dims
from .values import PURE

MATERIALIZE = "stepwell.materialize"
"""Says of an op that a launch of its own computes its result."""
WHOLE = "stepwell.whole"
"""Says of an op that a launch of its own computes its result together with all that it is made of."""
_READ_COST = 4.0
_WORTH_A_LAUNCH = 64.0
"""So many operations more for each element, and a launch of its own and its memory traffic take less time."""
_COSTLY = {"math.exp": 12, "math.tanh": 20, "math.erf": 20, "math.powf": 40, "arith.divf": 8, "math.log": 15}


def operands_read(op: ir.Operation) -> Iterator[tuple[int, ir.Value]]:
    """The tensors of which an op reads elements, and their positions; what it only writes over is not among them."""
    for position, value in enumerate(op.operands):
        if isinstance(value.type, ir.RankedTensorType) and _is_read(op, position):
            yield position, value


def _is_read(op: ir.Operation, position: int) -> bool:
    if op.name == "linalg.fill":
        return False
    if op.name != "linalg.generic":
        return True
    argument = op.regions[0].blocks[0].arguments[position]
    return len(list(argument.uses)) > 0


def tensors_inside(op: ir.Operation) -> Iterator[ir.Value]:
    """The tensors that the body of an op reads by index."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "tensor.extract":
                    yield inner.operation.operands[0]
                yield from tensors_inside(inner.operation)


class Cut:
    """Decides which tensors of a kernel get launches of their own.

    Attributes:
        materialized: these tensors, in the order in which they are made; what the kernel returns is not among them.
    """

    def __init__(self, kernel: ir.Operation, roots: Sequence[ir.Value]) -> None:
        """Looks at what the `roots`, for which there are launches in any case, are made of.

        Raises:
            PassError: an op makes a tensor whose elements cannot be computed one by one.
        """
        self._costs: dict[ir.Value, float] = {}
        self._times: dict[ir.Value, float] = {}
        found: list[ir.Value] = []
        for root in roots:
            self._times[root] = 1.0
        made = [op.operation for op in kernel.regions[0].blocks[0].operations]
        for op in made:
            for result in op.results:
                if isinstance(result.type, ir.RankedTensorType):
                    self._costs[result] = _READ_COST if _is_cut_at(op) else self._cost(op)
        for op in reversed(made):
            for result in op.results:
                times = self._times.get(result, 0.0)
                if not times:
                    continue
                is_worth_it = (times - 1) * (self._costs[result] - _READ_COST) > _WORTH_A_LAUNCH
                if result not in roots and (is_worth_it or _is_cut_at(op)):
                    found.append(result)
                    times = 1.0
                if WHOLE not in op.attributes:
                    self._pass_on(op, result, times)
        self.materialized = found[::-1]

    def _cost(self, op: ir.Operation) -> float:
        """Roughly how many operations one element takes, all that it is computed from included."""
        reads = sum(self._costs.get(value, _READ_COST) for _, value in operands_read(op))
        reads += sum(self._costs.get(value, _READ_COST) for value in tensors_inside(op))
        if op.name == "linalg.generic":
            body = sum(_COSTLY.get(inner.operation.name, 1) for inner in op.regions[0].blocks[0].operations)
            extents = loop_extents(op)
            return (reads + body) * math.prod(extents[axis] for axis in reduced_dims(op))
        if op.name in ("arith.constant", "linalg.fill", "tensor.empty"):
            return 0.0
        if op.name not in PURE:
            raise PassError(f"'{op.name}' op is nothing that threads compute each by itself", op.location)
        return reads

    def _pass_on(self, op: ir.Operation, result: ir.Value, times: float) -> None:
        """Notes how often the elements are computed that an op reads, when its own are computed `times` times."""
        rounds, most = 1, len(op.operands)
        if op.name == "linalg.generic":
            extents = loop_extents(op)
            # An accumulator begins as what is there, once.
            rounds, most = math.prod(extents[axis] for axis in reduced_dims(op)), inputs_of(op)
        reads = [(value, rounds if position < most else 1) for position, value in operands_read(op)]
        reads += [(value, rounds) for value in tensors_inside(op)]
        for value, each in reads:
            evaluations = times * _count(result) * each / max(1, _count(value))
            self._times[value] = self._times.get(value, 0.0) + evaluations


def _is_cut_at(op: ir.Operation | ir.OpView) -> bool:
    """Whether it has been decided already that a launch of its own computes what an op makes."""
    return WHOLE in op.attributes or MATERIALIZE in op.attributes


def _count(value: ir.Value) -> int:
    return math.prod(ir.RankedTensorType(value.type).shape)
