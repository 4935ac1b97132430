"""Control flow in programs with symbolic sizes.

A trip count that depends on sizes is read from the table of extents. Tensors that iterations carry, or that branches
yield, must have the same dimensions everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.dims import Dim
from ...ir.values import is_tensor
from .checks import require_same
from .rewriter import Rewriter
from .snapshot import BoundedError, OpState

_LOOP, _WHILE, _IF = "scf.for", "scf.while", "scf.if"
_BOUND = 1
"""The index of the operand of a counted loop that is its upper bound."""


class Control:
    """Extents and size-dependent numbers in control flow, collected while ops are bound, outer before inner."""

    def __init__(self, graph: Rewriter) -> None:
        """Starts without any."""
        self._graph = graph
        self._indices: dict[ir.Value, Dim] = {}

    def bind(self, op: ir.Operation, states: Sequence[OpState]) -> None:
        """Makes an op on other values than tensors correct for every size, and propagates extents through it.

        Raises:
            BoundedError: its behaviour differs between sizes.
        """
        if op.name == "arith.constant":
            self._constant(op, states)
            return
        require_same(states)
        if op.name == _LOOP:
            self._loop(op)
        elif op.name == _WHILE:
            self._propagate(op.operands, op.regions[0].blocks[0].arguments)
        elif op.name == "scf.condition":
            parent = _parent(op)
            self._propagate(list(op.operands)[1:], parent.regions[1].blocks[0].arguments)
            self._propagate(list(op.operands)[1:], parent.results)
        elif op.name == "scf.yield":
            self._yield(op)
        elif op.name != _IF:
            self._bind_other(op)

    def _constant(self, op: ir.Operation, states: Sequence[OpState]) -> None:
        values = [state.attributes["value"] for state in states]
        if len(set(values)) == 1:
            return
        if not all(isinstance(value, int) for value in values):
            raise BoundedError("a number that is not an index depends on the sizes")
        self._indices[op.results[0]] = self._graph.fit(values, "a trip count")

    def _loop(self, op: ir.Operation) -> None:
        bounds, initial = list(op.operands)[:3], list(op.operands)[3:]
        if any(value in self._indices for value in (bounds[0], bounds[2])):
            raise BoundedError("the lower bound or step of a loop depends on the sizes")
        if bounds[_BOUND] in self._indices:
            with op.location, ir.InsertionPoint(op):
                self._graph.use_number(op, _BOUND, self._indices[bounds[_BOUND]])
        self._propagate(initial, list(op.regions[0].blocks[0].arguments)[1:])
        self._propagate(initial, op.results)

    def _yield(self, op: ir.Operation) -> None:
        parent = _parent(op)
        if parent.name == _IF:
            first = [value for value in parent.results if value not in self._graph.extents]
            if len(first) == len(parent.results):
                self._propagate(op.operands, parent.results)
            self._require_alike(op.operands, parent.results)
        elif parent.name == _WHILE:
            self._require_alike(op.operands, parent.regions[0].blocks[0].arguments)
        else:
            self._require_alike(op.operands, parent.results)

    def _bind_other(self, op: ir.Operation) -> None:
        if any(value in self._indices for value in op.operands):
            raise BoundedError("it computes with a number that depends on the sizes")
        if op.name == "tensor.cast":
            self._propagate(op.operands, op.results)
        elif any(is_tensor(value) and self._graph.dynamic(value) for value in op.operands):
            raise BoundedError("it has no rule for varying dimensions")

    def _propagate(self, values: Sequence[ir.Value], receivers: Sequence[ir.Value]) -> None:
        for value, receiver in zip(values, receivers, strict=True):
            if value in self._indices:
                raise BoundedError("it passes on a number that depends on the sizes")
            if is_tensor(value):
                self._graph.extents[receiver] = self._graph.of(value)

    def _require_alike(self, values: Sequence[ir.Value], receivers: Sequence[ir.Value]) -> None:
        for value, receiver in zip(values, receivers, strict=True):
            if value in self._indices:
                raise BoundedError("it passes on a number that depends on the sizes")
            if is_tensor(value) and self._graph.of(value) != self._graph.of(receiver):
                raise BoundedError("the dimensions of a tensor that it passes on vary between iterations or branches")


def _parent(op: ir.Operation) -> ir.Operation:
    assert op.parent is not None
    return op.parent.operation
