"""The pass `stepwell-divide-loops`: loops over segments of iterations, of which derivatives save few values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell.movement import ReverseOp, RowOp, WithRowOp
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import body_of, main_function
from ..ir.loop_indices import index_values
from ..ir.rewriting import has_one_use
from ..ir.values import constant_index, integer_of, is_tensor, shape_of
from . import build
from .regions import block_in, captured, cloned, operations_in, users_inside
from .scalars import as_tensor

FEWEST = 16
"""The fewest iterations that are divided: of fewer, little memory is saved."""


@register
@dataclass(frozen=True)
class DivideLoopsPass(Pass):
    """Divide the loops of @main into loops over segments of iterations.

    The derivative of a loop saves what it carries into each iteration. After this pass, it saves what is carried into
    each segment, and while it goes back through a segment, what is carried into each of its iterations. This takes
    memory for about 2 * sqrt(n) iterations in place of n, and computes each iteration once more.

    ```mlir
    %r = scf.for %i = %c0 to %c100 step %c1 iter_args(%h = %h0) -> (tensor<4xf32>) { ... body(%i) ... }
    // -->
    %r = scf.for %o = %c0 to %c10 step %c1 iter_args(%g = %h0) -> (tensor<4xf32>) {
      %s = scf.for %i = %c0 to %c10 step %c1 iter_args(%h = %g) -> (tensor<4xf32>) { ... body(%o * 10 + %i) ... }
      scf.yield %s : tensor<4xf32>
    }
    ```

    Iterations that are left over become another loop. A loop stays as it is if the number of iterations is unknown or
    less than 16, or if it writes rows of a tensor in an order that is neither that of the iterations nor its reverse.

    Attributes:
        length: number of iterations of a segment; 0 for about the square root of their number.
    """

    name = "stepwell-divide-loops"
    length: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Divides the loops that are not inside others."""
        for view in list(body_of(main_function(op)).operations):
            operation = view.operation
            if operation.name == "scf.for":
                _divide(operation, self.length)


def _divide(operation: ir.Operation, length: int) -> None:
    lower, upper, step = (integer_of(bound) for bound in list(operation.operands)[:3])
    if lower != 0 or step != 1 or upper is None or upper < FEWEST:
        return
    length = length or math.isqrt(upper - 1) + 1
    loop = _Loop(operation, upper)
    if length < upper and loop.can_divide:
        with ir.InsertionPoint(operation), operation.location:
            results = loop.divided(length)
        for old, new in zip(operation.results, results, strict=True):
            old.replace_all_uses_with(new)
        operation.erase()


class _Loop:
    """A loop of `count` iterations, and the tensors of which each iteration reads or writes the row of its number."""

    def __init__(self, operation: ir.Operation, count: int) -> None:
        self._count, self._body = count, block_in(operation, 0)
        self._number, *self._carried = self._body.arguments
        self._initial = list(operation.operands)[3:]
        self._yielded = list(list(self._body.operations)[-1].operands)
        writes = {place: self._write(place) for place in range(len(self._carried))}
        self._writes = {place: op for place, op in writes.items() if op is not None}
        self._reads = [op for value in captured(operation) if is_tensor(value) for op in self._rows(operation, value)]

    @property
    def can_divide(self) -> bool:
        """Returns whether all ops that write rows do so in order."""
        known = {op.operation for op in self._writes.values()}
        written = (item for item in operations_in(self._body) if item.name == WithRowOp.OPERATION_NAME)
        return all(item in known for item in written)

    def _order(self, index: ir.Value, extent: int) -> int:
        """1 if the iterations use all rows in their order, -1 in the reverse order, else 0."""
        found = index_values(index, self._number, np.arange(self._count))
        rows = np.arange(extent)
        if found is None or extent != self._count:
            return 0
        return 1 if np.array_equal(found, rows) else -1 if np.array_equal(found, rows[::-1]) else 0

    def _write(self, place: int) -> WithRowOp | None:
        """The op that writes a row of a carried tensor, if nothing else reads the tensor."""
        value = self._carried[place]
        use = next(iter(value.uses), None)
        if use is None or not has_one_use(value) or use.owner.operation.name != WithRowOp.OPERATION_NAME:
            return None
        op = WithRowOp(use.owner)
        fits = use.operand_number == 0 and op.operation.block == self._body and has_one_use(op.result)
        is_yielded = self._yielded[place] == op.result
        return op if fits and is_yielded and self._order(op.index, shape_of(value)[0]) else None

    def _rows(self, operation: ir.Operation, value: ir.Value) -> list[RowOp]:
        users = [user for user, _ in users_inside(operation, value)]
        if not all(user.name == RowOp.OPERATION_NAME and user.block == self._body for user in users):
            return []
        reads = [RowOp(user) for user in users]
        return [op for op in reads if self._order(op.index, shape_of(value)[0])]

    def divided(self, length: int) -> list[ir.Value]:
        """Writes the loops at the insertion point, and returns their results."""
        segments = self._count // length
        split = segments * length
        wholes = [_in_order(op.input, self._order(op.index, self._count)) for op in self._reads]
        heads = [build.reshape(_rows(item, 0, split), (segments, length, *shape_of(item)[1:])) for item in wholes]
        states = [place for place in range(len(self._carried)) if place not in self._writes]
        empty = [self._empty(place, (length,)) for place in self._writes]

        def segment(number: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            place = as_tensor(number)
            first = arith.MulIOp(number, constant_index(length)).result
            inner = [RowOp(item, place).result for item in heads]
            made = self._segment(length, first, inner, [*carried[: len(states)], *empty])
            stacks = zip(carried[len(states) :], made[len(states) :], strict=True)
            return [*made[: len(states)], *(WithRowOp(whole, part, place).result for whole, part in stacks)]

        starts = [
            *(self._initial[place] for place in states),
            *(self._empty(at, (segments, length)) for at in self._writes),
        ]
        made = _for(segments, starts, segment)
        carried, stacks = (
            made[: len(states)],
            [build.reshape(item, (split, *shape_of(item)[2:])) for item in made[len(states) :]],
        )
        if split < self._count:
            tails = [_rows(item, split, self._count) for item in wholes]
            rest = self._count - split
            starts = [*carried, *(self._empty(place, (rest,)) for place in self._writes)]
            made = self._segment(rest, constant_index(split), tails, starts)
            carried = made[: len(states)]
            stacks = [build.concat(pair, 0) for pair in zip(stacks, made[len(states) :], strict=True)]
        results = dict(zip(states, carried, strict=True))
        for (place, op), stack in zip(self._writes.items(), stacks, strict=True):
            results[place] = _in_order(stack, self._order(op.index, self._count))
        return [results[place] for place in range(len(self._carried))]

    def _empty(self, place: int, sizes: Sequence[int]) -> ir.Value:
        value = self._carried[place]
        return build.full(0, value, (*sizes, *shape_of(value)[1:]))

    def _segment(
        self, length: int, first: ir.Value, rows: Sequence[ir.Value], starts: Sequence[ir.Value]
    ) -> list[ir.Value]:
        """Writes a loop over some iterations.

        Args:
            length: their number.
            first: the number of the first one.
            rows: the rows that they read, for each op that reads any.
            starts: the carried values that are not written row by row, and tensors for the rows of the others.
        """
        left_out = {op.operation for op in (*self._reads, *self._writes.values())}
        kept = [item for item in operations_in(self._body) if item not in left_out]
        states = [value for place, value in enumerate(self._carried) if place not in self._writes]

        def iteration(number: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
            place = as_tensor(number)
            mapping: dict[ir.Value, ir.Value] = {self._number: arith.AddIOp(first, number).result}
            mapping |= dict(zip(states, carried, strict=False))
            for op, whole in zip(self._reads, rows, strict=True):
                mapping[op.result] = RowOp(whole, place).result
            cloned(kept, mapping)
            following = [value for at, value in enumerate(self._yielded) if at not in self._writes]
            stacks = zip(carried[len(states) :], self._writes.values(), strict=True)
            written = [WithRowOp(whole, mapping.get(op.row, op.row), place).result for whole, op in stacks]
            return [*(mapping.get(value, value) for value in following), *written]

        return _for(length, starts, iteration)


_Body = Callable[[ir.Value, Sequence[ir.Value]], Sequence[ir.Value]]
"""`body(number, carried)` writes an iteration, and returns the values that it carries on."""


def _for(count: int, starts: Sequence[ir.Value], body: _Body) -> list[ir.Value]:
    bounds = [constant_index(0), constant_index(count), constant_index(1)]
    kinds = [value.type for value in starts]
    loop = ir.Operation.create("scf.for", kinds, [*bounds, *starts], regions=1)
    block = ir.Block.create_at_start(loop.regions[0], [ir.IndexType.get(), *kinds], [loop.location] * (len(kinds) + 1))
    with ir.InsertionPoint(block):
        number, *carried = block.arguments
        ir.Operation.create("scf.yield", operands=body(number, carried))
    return [*loop.results]


def _in_order(value: ir.Value, order: int) -> ir.Value:
    return value if order > 0 else ReverseOp(value, axes=(0,)).result


def _rows(value: ir.Value, start: int, stop: int) -> ir.Value:
    rest = shape_of(value)[1:]
    return build.part(value, (start, *[0] * len(rest)), (stop, *rest))
