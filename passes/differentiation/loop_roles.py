"""Roles of the values of a loop: how their gradients are summed up over the iterations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from mlir import ir

from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.movement import RowOp, WithRowOp
from ..graph.values import is_float
from ..ir.loop_indices import index_values
from ..ir.rewriting import has_one_use
from ..ir.values import is_tensor, shape_of
from .derivative import NotDifferentiableError
from .regions import captured, operations_in, users_inside
from .reverse import Gradient, dependent


@dataclass(frozen=True)
class Loop:
    """A loop that is differentiated.

    Attributes:
        operation: the loop.
        body: the block of an iteration.
        number: the argument of the block that counts the iterations from 0.
        count: the number of iterations, an index; None if it is `most`.
        most: the greatest number of iterations.
        carried: the arguments of the block that iterations pass on; as many as initial values and results.
        yielded: their next values.
        initial: their first values.
    """

    operation: ir.Operation
    body: ir.Block
    number: ir.Value
    count: ir.Value | None
    most: int
    carried: Sequence[ir.Value]
    yielded: Sequence[ir.Value]
    initial: Sequence[ir.Value]

    @property
    def is_counted(self) -> bool:
        """Returns whether the number of iterations is known."""
        return self.count is None

    @property
    def rounds(self) -> np.ndarray:
        """The numbers of all iterations."""
        return np.arange(self.most)

    def rows(self, index: ir.Value, extent: int) -> np.ndarray | None:
        """The row that an index denotes in each iteration; None if two iterations may use the same one."""
        found = index_values(index, self.number, self.rounds)
        if found is None:
            return None
        rows = np.clip(found, 0, extent - 1)
        return rows if len(np.unique(rows)) == len(rows) else None


@dataclass
class Roles:
    """Ways in which gradients of the values of a loop are summed up.

    Attributes:
        states: places of carried values whose gradients the backward loop carries.
        stacks: places of carried tensors of which each iteration writes rows of its own, with the writes.
        read: tensors from outside of which each iteration reads rows of its own, with the reads.
        factors: matrices from outside that are only right operands of products, with the products.
        shared: other values from outside.
    """

    states: list[int] = field(default_factory=list)
    stacks: dict[int, list[WithRowOp]] = field(default_factory=dict)
    read: dict[ir.Value, list[RowOp]] = field(default_factory=dict)
    factors: dict[ir.Value, list[MatmulOp]] = field(default_factory=dict)
    shared: list[ir.Value] = field(default_factory=list)


def roles_in(loop: Loop, gradients: Sequence[Gradient], active: set[ir.Value]) -> Roles:
    """Returns the roles of the values of a loop.

    Args:
        loop: the loop.
        gradients: those of its results.
        active: the values of which gradients are needed, or that depend on these.

    Raises:
        NotDifferentiableError: it carries a tensor whose shape varies.
    """
    operations = operations_in(loop.body)
    outside = [value for value in captured(loop.operation) if value in active]
    places = _places(loop, operations, outside, gradients, active)
    roles = Roles()
    for place in places:
        if not ir.RankedTensorType(loop.carried[place].type).has_static_shape:
            raise NotDifferentiableError("it carries a tensor whose shape varies")
        writes = _writes(loop, place)
        if writes and (loop.is_counted or loop.initial[place] not in active):
            roles.stacks[place] = writes
        else:
            roles.states.append(place)
    for value in outside:
        users = users_inside(loop.operation, value)
        if reads := _reads(loop, value, users):
            roles.read[value] = reads
        elif products := _products(loop, value, users):
            roles.factors[value] = products
        else:
            roles.shared.append(value)
    return roles


def _places(
    loop: Loop,
    operations: Sequence[ir.Operation],
    outside: Sequence[ir.Value],
    gradients: Sequence[Gradient],
    active: set[ir.Value],
) -> list[int]:
    """The places of carried values that depend on active ones, and that results with gradients depend on."""
    smooth = [place for place, value in enumerate(loop.carried) if is_tensor(value) and is_float(value)]
    moving = {place for place in smooth if loop.initial[place] in active}
    size = -1
    while size != len(moving):
        size = len(moving)
        found = dependent(operations, [*outside, *(loop.carried[place] for place in moving)])
        moving |= {place for place in smooth if loop.yielded[place] in found}
    wanted = {place for place in smooth if gradients[place] is not None}
    size = -1
    while size != len(wanted):
        size = len(wanted)
        for place in smooth:
            found = dependent(operations, [loop.carried[place]])
            if any(loop.yielded[other] in found for other in wanted):
                wanted.add(place)
    return sorted(moving & wanted)


def _writes(loop: Loop, place: int) -> list[WithRowOp]:
    """The ops of an iteration that write rows of a carried tensor, if all iterations write rows of their own and do
    nothing else with it; else none.
    """
    value, found, rows = loop.carried[place], [], []
    while has_one_use(value):
        use = next(iter(value.uses))
        user = use.owner.operation
        if user.name == "scf.yield" and user.block == loop.body and use.operand_number == place:
            is_distinct = len(np.unique(np.concatenate(rows))) == sum(map(len, rows)) if rows else False
            return found if is_distinct else []
        if user.name != WithRowOp.OPERATION_NAME or user.block != loop.body or use.operand_number:
            return []
        op = WithRowOp(user)
        at = loop.rows(op.index, shape_of(op.input)[0])
        if at is None:
            return []
        found.append(op)
        rows.append(at)
        value = op.result
    return []


def _reads(loop: Loop, value: ir.Value, users: Sequence[tuple[ir.Operation, int]]) -> list[RowOp]:
    """The ops that read rows of a value, if all its users are such, each with rows of its own; else none."""
    if not all(user.name == RowOp.OPERATION_NAME and user.block == loop.body for user, _ in users):
        return []
    found = [RowOp(user) for user, _ in users]
    is_distinct = all(loop.rows(op.index, shape_of(value)[0]) is not None for op in found)
    return found if is_distinct else []


def _products(loop: Loop, value: ir.Value, users: Sequence[tuple[ir.Operation, int]]) -> list[MatmulOp]:
    """The products of which a matrix is the right operand, if it is nothing else; else none."""
    if len(shape_of(value)) != 2:
        return []
    fits = all(
        user.name == MatmulOp.OPERATION_NAME
        and user.block == loop.body
        and place == 1
        and not MatmulOp(user).transpose_lhs
        for user, place in users
    )
    return [MatmulOp(user) for user, _ in users] if fits else []
