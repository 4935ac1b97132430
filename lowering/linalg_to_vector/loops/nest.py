"""Loop nest of one group of ops: the computation at each point, with accumulators in registers."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import arith

from ....passes.infra.base import PassError
from ...builders.access import Point, broadcast, is_vector, read, write
from .body import Body
from .generic import Generic
from .groups import LoopGroup, lane_dim
from .padding import Padding, read_padded
from .reduction import horizontal, low_lanes, with_low_lanes
from .walk import Walk
from .widths import Widths

_Values = list[ir.Value]


class Nest:
    """Emits one group at the insertion point."""

    def __init__(self, group: LoopGroup, widths: Widths) -> None:
        self._group = group
        self._stored = group.stored()
        self._sizes = group.members[0].sizes()
        self._reductions = group.reductions
        self._lane_dim = lane_dim(group)
        size = 1 if self._lane_dim is None else self._sizes[self._lane_dim]
        assert isinstance(size, int)
        self._width, native = widths.of(group.ops, size)
        self._reducers = [member for member in group.members if member.reductions]
        self._padding = Padding(self._reducers, self._sizes, self._reductions)
        while self._width > max(size, 4) and self._lane_dim is not None and self._padding.surrounds(self._lane_dim):
            # Vectors that reach into the padding are shifted vectors of the inside, which must therefore hold a whole
            # vector.
            self._width //= 2
        self._outer = [dim for dim in group.parallels if dim != self._lane_dim]
        self._walk = Walk(
            self._sizes,
            self._reductions,
            self._lane_dim,
            self._width,
            native,
            self._padding,
            # Only the innermost such loop is split, because each part is a copy of the code.
            window_dim=next((dim for dim in reversed(self._outer) if self._padding.surrounds(dim)), None),
            may_repeat=not self._reductions and not any(map(_reads_destination, group.members)),
        )

    def emit(self) -> _Values:
        """Returns the tensors of the stored results, in the order of `group.stored()`."""
        start = Point((0,) * len(self._sizes), self._lane_dim)
        return self._walk.loops(
            self._outer, start, [self._target(generic, number) for generic, number in self._stored], self._inner
        )

    def _target(self, generic: Generic, number: int) -> ir.Value:
        target = generic.outputs[number]
        return target.owner.operands[1] if generic.reductions and generic.fill_value(number) is not None else target

    def _inner(self, point: Point, carried: _Values) -> _Values:
        if not self._reductions:
            return (
                self._step(point, carried) if self._lane_dim is None else self._walk.lanes(point, carried, self._step)
            )
        if self._lane_dim is None or self._lane_dim in self._reductions:
            return self._reduce(point, carried, self._width if self._lane_dim is not None else 0)
        return self._walk.lanes(
            point,
            carried,
            lambda here, values: self._reduce(here, values, here.width if here.lane_dim is not None else 0),
        )

    def _step(self, point: Point, carried: _Values) -> _Values:
        """Emits one evaluation of every member of a group without reductions."""
        values: dict[ir.Value, ir.Value] = {}
        for member in self._group.members:
            self._run(member, point, values, self._destinations(member, point, carried))
        return self._store(point, values, carried, reduced=False)

    def _reduce(self, point: Point, carried: _Values, width: int) -> _Values:
        """Emits the reduction loops from the start values to the stored results."""
        start = [value for member in self._reducers for value in self._start(member, width)]
        dims = [dim for dim in self._reductions if dim != self._lane_dim]

        def body(here: Point, values: _Values) -> _Values:
            if self._lane_dim in self._reductions:
                return self._walk.lanes(here, values, self._accumulate)
            return self._accumulate(here, values)

        values = self._walk.loops(dims, point, [*carried, *start], body)
        carried, accumulators = values[: len(carried)], values[len(carried) :]
        made: dict[ir.Value, ir.Value] = {}
        for member, taken in self._split(accumulators):
            is_across = self._lane_dim in self._reductions
            made.update(zip(member.results, horizontal(member, taken) if is_across else taken, strict=True))
        after = self._outer_point(point)
        for follower in self._group.followers:
            self._run(follower, after, made, {})
        return self._store(point, made, carried, reduced=True)

    def _accumulate(self, point: Point, carried: _Values) -> _Values:
        """Emits one evaluation of every member; the accumulators come last in `carried`."""
        tensors, accumulators = carried[: len(self._stored)], carried[len(self._stored) :]
        values: dict[ir.Value, ir.Value] = {}
        updated: _Values = []
        taken = {member.op: items for member, items in self._split(accumulators)}
        for member in self._group.members:
            if not member.reductions:
                self._run(member, point, values, self._destinations(member, point, tensors))
                continue
            before = [low_lanes(item, point.width) for item in taken[member.op]]
            arguments = list(member.block.arguments)[member.num_inputs :]
            after = self._run(member, point, values, dict(zip(arguments, before, strict=True)))
            # A value that is the same for all elements is a scalar.
            after = [
                broadcast(new, ir.VectorType(old.type).shape[0]) if is_vector(old) else new
                for new, old in zip(after, before, strict=True)
            ]
            after = [
                _where(point, new, old) if self._lane_dim in self._reductions else new
                for new, old in zip(after, before, strict=True)
            ]
            updated += [with_low_lanes(whole, part) for whole, part in zip(taken[member.op], after, strict=True)]
        return [*self._store(point, values, tensors, reduced=False), *updated]

    def _split(self, accumulators: _Values) -> Iterator[tuple[Generic, _Values]]:
        position = 0
        for member in self._reducers:
            yield member, accumulators[position : position + len(member.results)]
            position += len(member.results)

    def _start(self, member: Generic, width: int) -> _Values:
        starts = []
        for number in range(len(member.results)):
            value = member.fill_value(number)
            if value is None:
                raise PassError(
                    "a reduction must start from a linalg.fill in the same loops: tile both, but nothing it reduces",
                    member.op.location,
                )
            starts.append(broadcast(value, width) if width else value)
        return starts

    def _run(self, generic: Generic, point: Point, values: dict[ir.Value, ir.Value], arguments: dict) -> _Values:
        """Evaluates one op; `values` holds the results of the ops before it and receives its own."""
        for position, argument in enumerate(generic.block.arguments):
            if argument not in arguments and any(True for _ in argument.uses):
                arguments[argument] = self._read(generic, position, point, values)
        made = Body(generic.block, point).run(arguments)
        values.update(zip(generic.results, made, strict=True))
        return made

    def _destinations(self, member: Generic, point: Point, carried: _Values) -> dict[ir.Value, ir.Value]:
        """Returns the current elements of the tensors under construction that the body reads."""
        arguments = {}
        for (generic, number), target in zip(self._stored, carried, strict=True):
            argument = member.block.arguments[member.num_inputs + number] if generic is member else None
            if argument is not None and any(True for _ in argument.uses):
                arguments[argument] = read(target, member.output_maps[number], point)
        return arguments

    def _read(self, generic: Generic, position: int, point: Point, values: dict[ir.Value, ir.Value]) -> ir.Value:
        operand, exprs = generic.operands[position], generic.maps[position]
        if operand in values:
            return values[operand]
        if not isinstance(operand.type, ir.ShapedType):
            return operand
        padding = self._padding.of(operand)
        return read_padded(padding, exprs, point) if padding else read(operand, exprs, point)

    def _store(self, point: Point, values: dict[ir.Value, ir.Value], carried: _Values, reduced: bool) -> _Values:
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
        """Returns `point` in the parallel loops."""
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
