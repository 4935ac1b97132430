"""Reverse-mode differentiation of lists of ops: the walk from the last op to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlir import ir

from ...dialects.core import Op, OpError
from ...dialects.registry import view_of
from ..graph.values import is_float
from ..infra.base import PassError
from ..ir.locations import dominant
from ..ir.values import is_tensor, shape_of
from . import build
from .derivative import DERIVATIVE, NotDifferentiableError

GRADIENT = ".gradient"
"""Suffix that makes the name of an output or an input the name of its gradient."""


Gradient = ir.Value | None
"""The gradient of a result; None for a result that is not used."""

Pair = tuple[ir.Value, ir.Value]
"""A value and its gradient."""

CONTROL: dict[str, Callable[[ir.Operation, Sequence[Gradient], set[ir.Value]], list[Pair]]] = {}
"""By the names of ops of other dialects, such as loops: functions that write the backward pass of one.

They take the op, the gradients of its results, and the values of which gradients are needed or that depend on these.
They return values that the op reads with their gradients, and may replace the op.
"""


def pulled_back(
    operations: Sequence[ir.Operation], wrt: Sequence[ir.Value], seeds: Sequence[tuple[ir.Value, ir.Value]]
) -> list[ir.Value]:
    """Writes the backward pass of ops at the insertion point, and returns the gradients of values that they read.

    Args:
        operations: the ops, in order.
        wrt: values from outside.
        seeds: results of the ops, each with its gradient.

    Raises:
        PassError: an op between them has no derivative.
    """
    reverse = Reverse(dependent(operations, wrt))
    for value, gradient in seeds:
        reverse.accumulate(value, gradient)
    for operation in reversed(operations):
        reverse.visit(operation)
    return [reverse.gradients[value] if value in reverse.gradients else build.zeros(value) for value in wrt]


def dependent(operations: Sequence[ir.Operation], wrt: Sequence[ir.Value]) -> set[ir.Value]:
    """Returns the floating-point values of a block that are computed from `wrt`, including these."""
    found = set(wrt)
    for operation in operations:
        if any(value in found for value in values_read(operation)):
            found.update(value for value in operation.results if is_tensor(value) and is_float(value))
    return found


def values_read(operation: ir.Operation) -> list[ir.Value]:
    """Returns the values that an operation and those inside it read."""
    inner = [item.operation for region in operation.regions for block in region for item in block.operations]
    return [*operation.operands, *(value for item in inner for value in values_read(item))]


class Reverse:
    """The gradients of values, summed up while the ops of a block are visited from the last to the first.

    Attributes:
        active: the values that have gradients.
        gradients: those that are known so far.
    """

    def __init__(self, active: set[ir.Value]) -> None:
        self.active = active
        self.gradients: dict[ir.Value, ir.Value] = {}

    def accumulate(self, value: ir.Value, gradient: ir.Value) -> None:
        """Adds to the gradient of a value, if it is active."""
        if value in self.active:
            known = self.gradients.get(value)
            with backward_location(location_of(value)):
                self.gradients[value] = gradient if known is None else build.add(known, gradient)

    def visit(self, operation: ir.Operation) -> None:
        """Adds to the gradients of the values that an op reads, from those of its results.

        Raises:
            PassError: the op has no derivative.
        """
        gradients = [self.gradients.get(value) for value in operation.results]
        if all(item is None for item in gradients) or not any(value in self.active for value in values_read(operation)):
            return
        if operation.name in CONTROL:
            return self._visit_control(operation, gradients)
        view = view_of(operation)
        rule = None if view is None else DERIVATIVE.of(type(view))
        if view is None or rule is None:
            raise _refused(operation.name, operation.location, "has no derivative")
        with backward_location(operation.location):
            try:
                self._apply(view, rule(view, *gradients))
            except (NotDifferentiableError, OpError) as error:
                raise _refused(operation.name, operation.location, f"cannot be differentiated: {error}") from error

    def _visit_control(self, operation: ir.Operation, gradients: Sequence[Gradient]) -> None:
        name, location = operation.name, operation.location
        for value in operation.results:  # the op may be replaced, and its results with it
            self.gradients.pop(value, None)
            self.active.discard(value)
        with backward_location(location):
            try:
                pairs = CONTROL[name](operation, gradients, self.active)
            except NotDifferentiableError as error:
                raise _refused(name, location, f"cannot be differentiated: {error}") from error
        for value, gradient in pairs:
            self.accumulate(value, gradient)

    def _apply(self, op: Op, builders: Sequence[Any]) -> None:
        for value, builder in zip(op.operand_values(), builders, strict=True):
            if value is not None and builder is not None and value in self.active:
                self.accumulate(value, build.sum_to(builder(), shape_of(value)))


def _refused(name: str, location: ir.Location, reason: str) -> PassError:
    node = dominant(location)
    place = f" of '{node}'" if node else ""
    return PassError(f"'{name}'{place} {reason}", location)


def location_of(value: ir.Value) -> ir.Location:
    """Returns the location of the op that computes a value, or to whose block it belongs."""
    return value.owner.owner.location if isinstance(value.owner, ir.Block) else value.owner.location


def backward_location(location: ir.Location) -> ir.Location:
    """Returns the location of the backward pass of a node: the name of the node with the suffix `.gradient`."""
    node = dominant(location)
    if not node or node.endswith(GRADIENT):
        return location
    return ir.Location.name(f"{node}{GRADIENT}", context=location.context)
