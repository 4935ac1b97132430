"""Derivatives of loops: loops over the iterations from the last to the first.

The loop of the forward pass saves the values that it carries into each iteration, if a derivative reads them. The
backward loop computes an iteration again from these, and then its gradients. What can wait until the loop has ended is
not carried: gradients of tensors of which each iteration reads a row of its own are stacked, and those of matrices that
all iterations multiply by are one product of all stacked rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith

from ...dialects.stepwell.movement import RowOp, WithRowOp
from ...dialects.types import spec_of_type
from ..graph.values import constant, splat_constant
from ..ir.loop_indices import index_values
from ..ir.rewriting import defining_op
from ..ir.values import constant_index, integer_of, shape_of
from . import build
from .derivative import NotDifferentiableError
from .loop_roles import Loop, Roles, roles_in
from .regions import block_in, cloned, erase_unread, operations_in
from .reverse import CONTROL, Gradient, Pair, Reverse, dependent
from .scalars import as_tensor, as_tensor_type, of_type

_PLACEHOLDER = "builtin.unrealized_conversion_cast"
"""The op that stands for the carried values until it is known which of them are read."""

_Finished = Callable[[Sequence[ir.Value]], ir.Value]
"""Takes the results of the backward loop; returns what is computed from them after it."""

_Finish = tuple[ir.Value, _Finished]
"""A value, and its gradient."""


def _counted(operation: ir.Operation, gradients: Sequence[Gradient], active: set[ir.Value]) -> list[Pair]:
    """scf.for %i = 0 to n { body } --> scf.for %i = 0 to n { save; body }; scf.for %k = 0 to n { body'(n - 1 - k) }"""
    lower, upper, step = (integer_of(bound) for bound in list(operation.operands)[:3])
    if lower != 0 or step != 1:
        raise NotDifferentiableError("it does not count from 0 in steps of 1")
    if upper is None:
        raise NotDifferentiableError("its number of iterations is computed")
    body = block_in(operation, 0)
    number, *carried = body.arguments
    yielded = list(list(body.operations)[-1].operands)
    loop = Loop(operation, body, number, None, upper, carried, yielded, list(operation.operands)[3:])
    return _differentiated(loop, gradients, active)


def _conditional(operation: ir.Operation, gradients: Sequence[Gradient], active: set[ir.Value]) -> list[Pair]:
    """scf.while with at most n iterations: the same, and the backward loop has as many iterations as there were"""
    before, after = block_in(operation, 0), block_in(operation, 1)
    last = list(before.operations)[-1]
    if list(last.operands)[1:] != list(before.arguments):
        raise NotDifferentiableError("its condition changes the values that it carries")
    yielded = list(list(after.operations)[-1].operands)
    place, most = _limit(operation, before, after, yielded)
    loop = Loop(
        operation,
        after,
        after.arguments[place],
        operation.results[place],
        most,
        list(after.arguments),
        yielded,
        list(operation.operands),
    )
    return _differentiated(loop, gradients, active)


CONTROL["scf.for"] = _counted
CONTROL["scf.while"] = _conditional


def _limit(operation: ir.Operation, before: ir.Block, after: ir.Block, yielded: Sequence[ir.Value]) -> tuple[int, int]:
    """The place of a carried value that counts the iterations from 0, and the limit that the condition compares it to.

    Raises:
        NotDifferentiableError: there is no such value.
    """
    wanted = [list(before.operations)[-1].operands[0]]
    while wanted:
        value = wanted.pop()
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is not None and owner.name == "arith.andi":
            wanted += list(owner.operands)
        if owner is None or owner.name != "arith.cmpi":
            continue
        left, right = owner.operands
        is_less = ir.IntegerAttr(owner.attributes["predicate"]).value == int(arith.CmpIPredicate.slt)
        limit = integer_of(right)
        for place, argument in enumerate(before.arguments):
            if is_less and limit is not None and left == argument and _counts(operation, after, place, yielded):
                return place, limit
    raise NotDifferentiableError(
        "nothing bounds its number of iterations, and each one saves values: give the loop a greatest number of them"
    )


def _counts(operation: ir.Operation, after: ir.Block, place: int, yielded: Sequence[ir.Value]) -> bool:
    following = yielded[place]
    if integer_of(operation.operands[place]) != 0 or isinstance(following.owner, ir.Block):
        return False
    owner = following.owner.operation
    is_sum = owner.name == "arith.addi" and owner.operands[0] == after.arguments[place]
    return is_sum and integer_of(owner.operands[1]) == 1


def _differentiated(loop: Loop, gradients: Sequence[Gradient], active: set[ir.Value]) -> list[Pair]:
    roles = roles_in(loop, gradients, active)
    if loop.most < 1:
        return [(loop.initial[place], seed) for place, seed in enumerate(gradients) if seed is not None]
    return _Backward(loop, roles, gradients).build(active)


class _Backward:
    """Builds the backward loop of a loop, first in a draft, as its arguments are known only at the end."""

    def __init__(self, loop: Loop, roles: Roles, seeds: Sequence[Gradient]) -> None:
        self._loop, self._roles, self._seeds = loop, roles, seeds
        count = constant_index(loop.most) if loop.count is None else loop.count
        self._draft = ir.Operation.create("scf.for", operands=[count], regions=1)
        self._block = ir.Block.create_at_start(self._draft.regions[0], [ir.IndexType.get()], [ir.Location.current])
        self._starts: list[ir.Value] = []
        self._next: list[ir.Value] = []
        self._needed: set[int] = set()
        self._saved: dict[int, ir.Value] = {}

    def build(self, active: set[ir.Value]) -> list[Pair]:
        """Writes the loop at the insertion point, and returns the gradients of what the differentiated loop reads."""
        loop, roles = self._loop, self._roles
        slopes = [self._carry(loop.carried[place], self._seeds[place]) for place in roles.states]
        with ir.InsertionPoint(self._block):
            number = self._number()
            place = as_tensor(number)
            placeholder = ir.Operation.create(_PLACEHOLDER, results=[value.type for value in loop.carried])
            mapping = dict(zip(loop.carried, placeholder.results, strict=True)) | {loop.number: number}
            reverse = self._pulled_back(mapping, slopes)
            for state in roles.states:
                value = mapping[loop.carried[state]]
                self._next.append(reverse.gradients[value] if value in reverse.gradients else build.zeros(value))
            finishes = [*self._summed(reverse), *self._rows(reverse, mapping), *self._factors(reverse, mapping, place)]
            ir.Operation.create("scf.yield", operands=self._next)
        erase_unread(self._block)
        results = self._finished(placeholder, number)
        pairs = [(loop.initial[state], results[index]) for index, state in enumerate(roles.states)]
        return [*pairs, *((value, finish(results)) for value, finish in finishes), *self._overwritten(active)]

    def _number(self) -> ir.Value:
        """The number of the iteration that is differentiated."""
        own = self._block.arguments[0]
        if self._loop.is_counted:
            return arith.SubIOp(constant_index(self._loop.most - 1), own).result
        last = arith.SubIOp(self._draft.operands[0], constant_index(1)).result
        return arith.SubIOp(last, own).result

    def _carry(self, like: ir.Value, start: ir.Value | None = None) -> ir.Value:
        """A new value that the loop carries, at first zeros; its next value is to be appended to `_next`."""
        with ir.InsertionPoint(self._draft):
            self._starts.append(build.zeros(like) if start is None else start)
        return self._block.add_argument(self._starts[-1].type, self._draft.location)

    def _pulled_back(self, mapping: dict[ir.Value, ir.Value], slopes: Sequence[ir.Value]) -> Reverse:
        """Copies an iteration to the insertion point, and differentiates it.

        Args:
            mapping: what the copies read in place of the values of the loop; their results are added.
            slopes: the gradients of the states after the iteration.
        """
        loop, roles = self._loop, self._roles
        operations = operations_in(loop.body)
        copies = dict(zip(operations, cloned(operations, mapping), strict=True))
        left_out = [
            *(op for ops in roles.stacks.values() for op in ops),
            *(op for ops in roles.read.values() for op in ops),
        ]
        for op in left_out:
            del copies[op.operation]
        products = [op for ops in roles.factors.values() for op in ops]
        wrt = [mapping[loop.carried[place]] for place in roles.states] + roles.shared
        wrt += [mapping[op.result] for ops in (*roles.read.values(), products) for op in ops]
        made = list(copies.values())
        reverse = Reverse(dependent(made, wrt))
        for place, slope in zip(roles.states, slopes, strict=True):
            value = loop.yielded[place]
            reverse.accumulate(mapping.get(value, value), slope)
        for place, writes in roles.stacks.items():
            for op in writes:
                seed = RowOp(self._seeds[place], mapping.get(op.index, op.index)).result
                reverse.accumulate(mapping.get(op.row, op.row), seed)
        for copy in reversed(made):
            reverse.visit(copy)
        return reverse

    def _summed(self, reverse: Reverse) -> Iterator[_Finish]:
        """Carries sums of gradients of values that all iterations read."""
        for value in self._roles.shared:
            if value in reverse.gradients:
                total = self._carry(value)
                yield value, self._result(build.add(total, reverse.gradients[value]))

    def _rows(self, reverse: Reverse, mapping: Mapping[ir.Value, ir.Value]) -> Iterator[_Finish]:
        """Carries gradients of values of which each iteration reads a row of its own."""
        for value, reads in self._roles.read.items():
            for op in reads:
                gradient = reverse.gradients.get(mapping[op.result])
                if gradient is not None:
                    whole = self._carry(value)
                    index = mapping.get(op.index, op.index)
                    yield value, self._result(WithRowOp(whole, gradient, index).result)

    def _factors(self, reverse: Reverse, mapping: Mapping[ir.Value, ir.Value], place: ir.Value) -> Iterator[_Finish]:
        """Carries the rows whose product, after the loop, is the gradient of a matrix: x @ w --> x', g"""
        known: dict[ir.Value, _Finished] = {}
        for value, products in self._roles.factors.items():
            for op in products:
                gradient = reverse.gradients.get(mapping[op.result])
                if gradient is None:
                    continue
                rows = [self._all_rows(op.lhs, mapping, place, known), self._stacked(gradient, place, known)]
                if op.transpose_rhs:
                    rows.reverse()
                yield value, lambda results, rows=rows: _product([row(results) for row in rows])

    def _all_rows(
        self, value: ir.Value, mapping: Mapping[ir.Value, ir.Value], place: ir.Value, known: dict[ir.Value, _Finished]
    ) -> _Finished:
        """The values of all iterations, which may be in memory already: as saved ones, or as all rows of a tensor."""
        loop = self._loop
        if value in loop.carried:
            state = list(loop.carried).index(value)
            self._needed.add(state)
            return lambda results: self._saved[state]
        row = defining_op(value, RowOp)
        if row is not None and row.input not in mapping and loop.is_counted:
            at = index_values(row.index, loop.number, loop.rounds)
            if at is not None and np.array_equal(at, np.arange(shape_of(row.input)[0])):
                return lambda results: row.input
        return self._stacked(mapping.get(value, value), place, known)

    def _stacked(self, row: ir.Value, place: ir.Value, known: dict[ir.Value, _Finished]) -> _Finished:
        """Carries a tensor with a row for each iteration, once for each value."""
        if row not in known:
            with ir.InsertionPoint(self._draft):
                start = build.full(0, row, (self._loop.most, *shape_of(row)))
            known[row] = self._result(WithRowOp(self._carry(row, start), row, place).result)
        return known[row]

    def _result(self, following: ir.Value) -> _Finished:
        """Adds the next value of what was carried last; returns a function from the results of the loop to its last."""
        place = len(self._next)
        self._next.append(following)
        return lambda results: results[place]

    def _overwritten(self, active: set[ir.Value]) -> Iterator[Pair]:
        """The gradients of the first contents of tensors whose rows are written: none for the written rows."""
        for place, writes in self._roles.stacks.items():
            value, seed = self._loop.initial[place], self._seeds[place]
            if value not in active or seed is None:
                continue
            extent = shape_of(value)[0]
            is_kept = np.ones(extent, np.bool_)
            for op in writes:
                is_kept[self._loop.rows(op.index, extent)] = False
            if is_kept.any():
                mask = constant(is_kept.reshape(extent, *[1] * (len(shape_of(value)) - 1)))
                yield value, build.select(mask, seed, 0)

    def _finished(self, placeholder: ir.Operation, number: ir.Value) -> Sequence[ir.Value]:
        """Makes the loop of the draft, reading what the differentiated loop saves; returns its results."""
        read = {index for index, value in enumerate(placeholder.results) if any(True for _ in value.uses)}
        needed = sorted(read | self._needed)
        stacks = _save(self._loop, needed)
        self._saved = dict(zip(needed, stacks, strict=True))
        with ir.InsertionPoint(placeholder):
            place = as_tensor(number)
            for index, stack in zip(needed, stacks, strict=True):
                value = placeholder.results[index]
                value.replace_all_uses_with(of_type(RowOp(stack, place).result, value.type))
        placeholder.erase()
        with ir.InsertionPoint(self._draft):
            bounds = [constant_index(0), self._draft.operands[0], constant_index(1)]
            kinds = [value.type for value in self._starts]
            final = ir.Operation.create("scf.for", results=kinds, operands=[*bounds, *self._starts], regions=1)
        self._block.append_to(final.regions[0])
        self._draft.erase()
        return list(final.results)


def _save(loop: Loop, places: Sequence[int]) -> Sequence[ir.Value]:
    """Makes a loop return the values that it carries into each iteration as rows of tensors, which are returned.

    scf.for iter_args(%c = a) { body } --> scf.for iter_args(%c = a, %s = zeros) { with_row(%s, %c, %i); body }
    """
    if not places:
        return []
    old = loop.operation
    blocks = [block_in(old, region) for region in range(len(old.regions))]
    with ir.InsertionPoint(old), old.location:
        starts = [_no_rows(loop.carried[place], loop.most) for place in places]
        kinds = [value.type for value in (*old.results, *starts)]
        made = ir.Operation.create(old.name, kinds, [*old.operands, *starts], regions=len(blocks))
    for region, block in zip(made.regions, blocks, strict=True):
        wholes = [block.add_argument(start.type, old.location) for start in starts]
        if block == loop.body:
            with ir.InsertionPoint.at_block_begin(block), old.location:
                index = as_tensor(loop.number)
                rows = [as_tensor(loop.carried[place]) for place in places]
                wholes = [WithRowOp(whole, row, index).result for whole, row in zip(wholes, rows, strict=True)]
        last = list(block.operations)[-1].operation
        with ir.InsertionPoint(last), last.location:
            ir.Operation.create(last.name, operands=[*last.operands, *wholes])
        last.erase()
        block.append_to(region)
    for value, result in zip(old.results, made.results, strict=False):
        value.replace_all_uses_with(result)
    old.erase()
    return list(made.results)[-len(places) :]


def _no_rows(value: ir.Value, count: int) -> ir.Value:
    """Zeros with a row for each of `count` values."""
    kind = as_tensor_type(value.type)
    shape = (count, *ir.RankedTensorType(kind).shape)
    return splat_constant(spec_of_type(kind).dtype.type(0), shape)


def _product(rows: Sequence[ir.Value]) -> ir.Value:
    """[.., rows], [.., columns] --> [rows, columns]: the sums of products over all but the last dimension"""
    shapes = [shape_of(item) for item in rows]
    matrices = (
        build.reshape(item, (build.count(shape[:-1]), shape[-1])) for item, shape in zip(rows, shapes, strict=True)
    )
    return build.product_of_columns(*matrices)
