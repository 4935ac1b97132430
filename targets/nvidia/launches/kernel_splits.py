"""Selection of the tensors that a kernel writes to memory between its launches.

Each thread of a launch computes its elements from the launch's arguments. A tensor that many threads read is recomputed
by each of them unless an earlier launch writes it to memory. This module decides where a separate launch is faster.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from mlir import ir

from ....dialects import discardable
from ....dialects.specs import size_of
from ....passes.infra.base import PassError
from ..emission.generics import inputs_of, loop_extents, reduced_dims
from ..emission.values import PURE

_READ_COST = 4.0
"""Cost of a read in operations: an estimate."""
_WORTH_A_LAUNCH = 64.0
"""Extra operations per element from which a separate launch, with its memory traffic, takes less time."""
_COSTLY = {"math.exp": 12, "math.tanh": 20, "math.erf": 20, "math.powf": 40, "arith.divf": 8, "math.log": 15}


def operands_read(op: ir.Operation) -> Iterator[tuple[int, ir.Value]]:
    """Yields position and value of each tensor operand whose elements an op reads, not of those it only overwrites."""
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
    """Yields the tensors that the body of an op reads by `tensor.extract`."""
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                if inner.operation.name == "tensor.extract":
                    yield inner.operation.operands[0]
                yield from tensors_inside(inner.operation)


class KernelSplit:
    """Selection of the tensors of a kernel that separate launches compute.

    Attributes:
        materialized: the selected tensors in program order, without those that the kernel returns.
    """

    def __init__(self, kernel: ir.Operation, roots: Sequence[ir.Value]) -> None:
        """Analyses the ops that compute the `roots`, which have launches in any case.

        Raises:
            PassError: the elements of some tensor cannot be computed one by one.
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
                if not discardable.WHOLE.is_on(op):
                    self._count_reads(op, result, times)
        self.materialized = found[::-1]

    def _cost(self, op: ir.Operation) -> float:
        """Returns an estimate of the operations per element, those of its operands included."""
        reads = sum(self._costs.get(value, _READ_COST) for _, value in operands_read(op))
        reads += sum(self._costs.get(value, _READ_COST) for value in tensors_inside(op))
        if op.name == "linalg.generic":
            body = sum(_COSTLY.get(inner.operation.name, 1) for inner in op.regions[0].blocks[0].operations)
            extents = loop_extents(op)
            return (reads + body) * math.prod(extents[axis] for axis in reduced_dims(op))
        if op.name in ("arith.constant", "linalg.fill", "tensor.empty"):
            return 0.0
        if op.name not in PURE:
            raise PassError(f"'{op.name}' op has elements that cannot be computed one by one", op.location)
        return reads

    def _count_reads(self, op: ir.Operation, result: ir.Value, times: float) -> None:
        """Adds up how often each element read is computed if an element of `result` is computed `times` times."""
        rounds, most = 1, len(op.operands)
        if op.name == "linalg.generic":
            extents = loop_extents(op)
            # The initial value of an accumulator is read once.
            rounds, most = math.prod(extents[axis] for axis in reduced_dims(op)), inputs_of(op)
        reads = [(value, rounds if position < most else 1) for position, value in operands_read(op)]
        reads += [(value, rounds) for value in tensors_inside(op)]
        for value, each in reads:
            evaluations = times * size_of(result) * each / max(1, size_of(value))
            self._times[value] = self._times.get(value, 0.0) + evaluations


def _is_cut_at(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether an earlier decision assigned the results of an op to a separate launch."""
    return discardable.WHOLE.is_on(op) or discardable.MATERIALIZE.is_on(op)
