"""The loop nest of one group of ops: outer loops, the vectorised loop with its tail, accumulators in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from mlir import ir
from mlir.dialects import arith

from .access import Point, broadcast, read, write
from .body import Body
from .generic import Generic
from .groups import Group, lane_dim
from .indices import Index, loop
from .padding import Padding, read_padded
from .reduction import horizontal, low_lanes, with_low_lanes
from .widths import Widths, pieces

Values = list[ir.Value]
# Reductions of up to this many steps are unrolled.
_UNROLL = 4


class Nest:
    """Emits one group at the insertion point."""

    def __init__(self, group: Group, widths: Widths) -> None:
        self._group = group
        self._stored = group.stored()
        self._sizes = group.members[0].sizes()
        self._reductions = group.reductions
        self._lane_dim = lane_dim(group)
        self._width, self._native = widths.of(group.ops, self._lane_size())
        self._reducers = [member for member in group.members if member.reductions]
        self._may_repeat = not self._reductions and not any(map(_reads_destination, group.members))
        self._padding = Padding(self._reducers, self._sizes, self._reductions)

    def emit(self) -> Values:
        """The tensors of the stored results, in the order of `group.stored()`."""
        outer = [dim for dim in self._group.parallels if dim != self._lane_dim]
        start = Point((0,) * len(self._sizes), self._lane_dim)
        return self._loops(
            outer, start, [self._target(generic, number) for generic, number in self._stored], self._inner
        )

    def _target(self, generic: Generic, number: int) -> ir.Value:
        target = generic.outputs[number]
        return target.owner.operands[1] if generic.reductions and generic.fill_value(number) is not None else target

    def _lane_size(self) -> int:
        size = 1 if self._lane_dim is None else self._sizes[self._lane_dim]
        assert isinstance(size, int)
        return size

    def _loops(
        self, dims: Sequence[int], point: Point, carried: Values, inner: Callable[[Point, Values], Values]
    ) -> Values:
        """Loops over `dims`, outermost first, around `inner`."""
        if not dims:
            return inner(point, carried)
        lower, upper = 0, self._sizes[dims[0]]
        if dims[0] in self._reductions:
            lower, upper = self._padding.bounds(dims[0], point)
        if dims[0] in self._reductions and self._is_unrolled(lower, upper):
            for index in range(lower, upper):
                carried = self._loops(dims[1:], point.at(dims[0], index), carried, inner)
            return carried
        return loop(
            lower,
            upper,
            1,
            carried,
            lambda index, values: self._loops(dims[1:], point.at(dims[0], index), values, inner),
        )

    def _is_unrolled(self, lower: Index, upper: Index) -> bool:
        if not isinstance(lower, int) or not isinstance(upper, int):
            return False
        steps = [self._sizes[dim] for dim in self._reductions if dim != self._lane_dim]
        return upper - lower <= _UNROLL or math.prod(size for size in steps if isinstance(size, int)) <= 2 * _UNROLL

    def _lanes(self, point: Point, carried: Values, inner: Callable[[Point, Values], Values]) -> Values:
        """The vectorised loop: full vectors, then the tail in ever smaller ones, the last one masked."""
        dim = self._lane_dim
        assert dim is not None
        size = self._lane_size()
        first, last = (0, size) if dim in self._reductions else self._padding.interior(dim, size)
        main = last - (last - first) % self._width
        if last - first < size and self._padding.can_shuffle(dim, self._width, size):
            return self._padded_lanes(point, carried, inner, last, size)
        edge = point.scalar()
        carried = loop(0, first, 1, carried, lambda index, values: inner(edge.at(dim, index), values))
        carried = loop(
            first,
            main,
            self._width,
            carried,
            lambda index, values: inner(point.lanes(index, self._width, self._width), values),
        )
        if self._may_repeat and main - first and last - main:
            # One more whole vector, moved back to end where the loop ends, computes some results twice.
            carried = inner(point.lanes(last - self._width, self._width, self._width), carried)
            main = last
        for offset, width, valid in pieces(last - main, self._width, self._native):
            carried = inner(point.lanes(main + offset, width, valid), carried)
        return loop(last, size, 1, carried, lambda index, values: inner(edge.at(dim, index), values))

    def _padded_lanes(
        self, point: Point, carried: Values, inner: Callable[[Point, Values], Values], last: int, size: int
    ) -> Values:
        """The vectorised loop where lanes of the first and last vectors read padding; the last ones may overlap."""
        width = self._width
        main = max(width, last - last % width)
        carried = inner(point.lanes(0, width, width), carried)
        carried = loop(
            width, main, width, carried, lambda index, values: inner(point.lanes(index, width, width), values)
        )
        for start in range(main, size, width):
            carried = inner(point.lanes(min(start, size - width), width, width), carried)
        return carried

    def _inner(self, point: Point, carried: Values) -> Values:
        if not self._reductions:
            return self._step(point, carried) if self._lane_dim is None else self._lanes(point, carried, self._step)
        if self._lane_dim is None or self._lane_dim in self._reductions:
            return self._reduce(point, carried, self._width if self._lane_dim is not None else 0)
        return self._lanes(
            point,
            carried,
            lambda here, values: self._reduce(here, values, here.width if here.lane_dim is not None else 0),
        )

    def _step(self, point: Point, carried: Values) -> Values:
        """One evaluation of every member; without reductions."""
        values: dict[ir.Value, ir.Value] = {}
        for member in self._group.members:
            self._run(member, point, values, {})
        return self._store(point, values, carried, reduced=False)

    def _reduce(self, point: Point, carried: Values, width: int) -> Values:
        """The reduction loops from start values to the stored results."""
        start = [value for member in self._reducers for value in self._start(member, width)]
        dims = [dim for dim in self._reductions if dim != self._lane_dim]

        def body(here: Point, values: Values) -> Values:
            if self._lane_dim in self._reductions:
                return self._lanes(here, values, self._accumulate)
            return self._accumulate(here, values)

        values = self._loops(dims, point, [*carried, *start], body)
        carried, accumulators = values[: len(carried)], values[len(carried) :]
        made: dict[ir.Value, ir.Value] = {}
        for member, taken in self._split(accumulators):
            is_across = self._lane_dim in self._reductions
            made.update(zip(member.results, horizontal(member, taken) if is_across else taken, strict=True))
        after = self._outer_point(point)
        for follower in self._group.followers:
            self._run(follower, after, made, {})
        return self._store(point, made, carried, reduced=True)

    def _accumulate(self, point: Point, carried: Values) -> Values:
        """One evaluation of every member; the accumulators come last in `carried`."""
        tensors, accumulators = carried[: len(self._stored)], carried[len(self._stored) :]
        values: dict[ir.Value, ir.Value] = {}
        updated: Values = []
        taken = {member.op: items for member, items in self._split(accumulators)}
        for member in self._group.members:
            if not member.reductions:
                self._run(member, point, values, {})
                continue
            before = [low_lanes(item, point.width) for item in taken[member.op]]
            arguments = list(member.block.arguments)[member.num_inputs :]
            after = self._run(member, point, values, dict(zip(arguments, before, strict=True)))
            after = [
                _where(point, new, old) if self._lane_dim in self._reductions else new
                for new, old in zip(after, before, strict=True)
            ]
            updated += [with_low_lanes(whole, part) for whole, part in zip(taken[member.op], after, strict=True)]
        return [*self._store(point, values, tensors, reduced=False), *updated]

    def _split(self, accumulators: Values) -> Iterator[tuple[Generic, Values]]:
        position = 0
        for member in self._reducers:
            yield member, accumulators[position : position + len(member.results)]
            position += len(member.results)

    def _start(self, member: Generic, width: int) -> Values:
        starts = []
        for number in range(len(member.results)):
            value = member.fill_value(number)
            assert value is not None, "a reduction starts from a linalg.fill with its neutral element"
            starts.append(broadcast(value, width) if width else value)
        return starts

    def _run(self, generic: Generic, point: Point, values: dict[ir.Value, ir.Value], arguments: dict) -> Values:
        """Evaluates one op; `values` are the results of ops before it, and gets its own."""
        for position, argument in enumerate(generic.block.arguments):
            if argument not in arguments and any(True for _ in argument.uses):
                arguments[argument] = self._read(generic, position, point, values)
        made = Body(generic.block, point).run(arguments)
        values.update(zip(generic.results, made, strict=True))
        return made

    def _read(self, generic: Generic, position: int, point: Point, values: dict[ir.Value, ir.Value]) -> ir.Value:
        operand, exprs = generic.operands[position], generic.maps[position]
        if operand in values:
            return values[operand]
        if not isinstance(operand.type, ir.ShapedType):
            return operand
        padding = self._padding.of(operand)
        return read_padded(padding, exprs, point) if padding else read(operand, exprs, point)

    def _store(self, point: Point, values: dict[ir.Value, ir.Value], carried: Values, reduced: bool) -> Values:
        stored = []
        for (generic, number), target in zip(self._stored, carried, strict=True):
            is_reduced = bool(generic.reductions) or generic in self._group.followers
            if is_reduced != reduced:
                stored.append(target)
                continue
            here = self._outer_point(point) if generic in self._group.followers else point
            if reduced and self._lane_dim in self._reductions:
                here = here.scalar()
            stored.append(write(values[generic.results[number]], target, generic.output_maps[number], here))
        return stored

    def _outer_point(self, point: Point) -> Point:
        """`point` in the loops that do not reduce."""
        parallels = self._group.parallels
        dims = tuple(point.dims[dim] for dim in parallels)
        if point.lane_dim not in parallels:
            return Point(dims)
        return Point(dims, parallels.index(point.lane_dim), point.width, point.valid)


def _reads_destination(generic: Generic) -> bool:
    arguments = list(generic.block.arguments)[generic.num_inputs :]
    return any(True for argument in arguments for _ in argument.uses)


def _where(point: Point, new: ir.Value, old: ir.Value) -> ir.Value:
    mask = point.mask()
    return new if mask is None else arith.select(mask, new, old)
