"""Values of the forward pass that the backward pass computes again instead of keeping them.

    forward:  h = gelu(matmul(x, u)), y = matmul(h, v)
    backward: dv = h' @ dy              -->  h2 = gelu(matmul(x, u)), dv = h2' @ dy

A copy of an op stands right before the first op of the backward pass that reads it. Its location ends with `.again`,
by which later passes tell it from the op itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from mlir import ir

from ...dialects.registry import view_of
from ...machines.machine import Machine
from ..ir.kernel_classes import kernel_class
from ..ir.locations import AGAIN, dominant
from ..ir.memory_layout import byte_size
from ..ir.rewriting import walk
from ..ir.values import is_tensor
from .regions import cloned
from .reverse import values_read
from .step_plan import StepOp, StepPlan, nanoseconds

_WITHOUT_WORK = frozenset({"stepwell.constant", "stepwell.parameter", "arith.constant"})


class StepGraph(StepPlan):
    """@main of a training step.

    Attributes:
        ops: the ops of @main, without the terminator.
    """

    def __init__(self, block: ir.Block, forward: int, machine: Machine) -> None:
        """Reads a block.

        Args:
            block: the body of @main.
            forward: number of ops of the forward pass, with the loss.
            machine: the machine by whose rates times are estimated.
        """
        *views, terminator = block.operations
        self.ops = [view.operation for view in views]
        self._returned = set(terminator.operands)
        maker: dict[ir.Value, int] = {value: place for place, op in enumerate(self.ops) for value in op.results}
        super().__init__([self._described_op(op, maker, machine) for op in self.ops], forward)

    def _described_op(self, op: ir.Operation, maker: Mapping[ir.Value, int], machine: Machine) -> StepOp:
        view, kind = view_of(op), kernel_class(op)
        width = 4 if not op.results else max(byte_size(op.results[0].type) // max(_count(op.results[0]), 1), 1)
        moved = sum(byte_size(value.type) for value in {*op.results, *op.operands} if is_tensor(value))
        return StepOp(
            reads=[maker[value] for value in _tensors(op) if value in maker],
            bytes=self._stored_bytes(op),
            nanoseconds=0.0 if view is None or kind is None else nanoseconds(machine, kind, view.flops(), moved, width),
            kind=kind,
            is_free=op.name in _WITHOUT_WORK,
            can_repeat=view is not None,
        )

    def _stored_bytes(self, op: ir.Operation) -> int:
        values = [value for value in op.results if is_tensor(value) and value not in self._returned]
        return sum(byte_size(value.type) for value in values)

    def repeat(self, ops: Collection[int]) -> None:
        """Copies ops to where the backward pass reads their results first, and makes it read the copies."""
        mapping: dict[ir.Value, ir.Value] = {}
        made = set[int]()
        for place in range(self._forward, len(self.ops)):
            reader = self.ops[place]
            copied = [self.ops[item] for item in self.before(place, ops, made)]
            with ir.InsertionPoint(reader):
                for original, copy in zip(copied, cloned(copied, mapping), strict=True):
                    copy.location = ir.Location.name(f"{dominant(original.location)}{AGAIN}")
            for op in (reader, *walk(reader)):
                for index, value in enumerate(op.operands):
                    if value in mapping:
                        op.operands[index] = mapping[value]


def _tensors(op: ir.Operation) -> list[ir.Value]:
    return [value for value in values_read(op) if is_tensor(value)]


def _count(value: ir.Value) -> int:
    kind, total = ir.RankedTensorType(value.type), 1
    for extent in kind.shape:
        total *= extent
    return total
