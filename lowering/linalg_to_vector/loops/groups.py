"""Groups of linalg.generic ops that share one loop nest.

Members of a group have the same loops and pass values to each other in registers; a result that is not read outside
the group is never stored. A reduction may be followed by ops on its result, such as the division of a mean, which run
at the point that produces the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir

from ...builders.indices import coefficient
from .generic import Generic, padded

# Number of contiguous elements beyond which longer runs are not faster.
_ENOUGH_LANES = 64


@dataclass
class LoopGroup:
    """Ops that share one loop nest.

    Attributes:
        members: ops with the same loops, in program order.
        followers: ops over the parallel loops of `members` that read the reduced values.
    """

    members: list[Generic]
    followers: list[Generic] = field(default_factory=list)

    @property
    def ops(self) -> list[Generic]:
        """All ops of the group."""
        return [*self.members, *self.followers]

    @property
    def reductions(self) -> tuple[int, ...]:
        """Reduction loops."""
        return max(member.reductions for member in self.members)

    @property
    def results(self) -> list[ir.Value]:
        """Every tensor that a member or follower makes."""
        return [result for generic in self.ops for result in generic.results]

    def accepts_member(self, other: Generic) -> bool:
        """Returns whether `other` can run in the same loops."""
        first = self.members[0]
        if self.followers or other.static_sizes() != first.static_sizes() or None in first.static_sizes()[1:]:
            return False
        if self.reductions and other.reductions != self.reductions:
            return False
        made = self._made_by_members()
        shared = False
        for position, (value, exprs) in enumerate(zip(other.operands, other.maps, strict=True)):
            source = made.get(value)
            if source is not None and (position >= other.num_inputs or source[0].reductions or source[1] != exprs):
                return False
            shared |= source is not None or value in self._read()
        return shared

    def accepts_follower(self, other: Generic) -> bool:
        """Returns whether `other` maps the reduced values one by one."""
        if not self.reductions or other.reductions:
            return False
        loops = [ir.AffineDimExpr.get(dim) for dim in self.parallels]
        identity = [ir.AffineDimExpr.get(dim) for dim in range(len(loops))]
        if len(other.iterators) != len(loops):
            return False
        inside = False
        for position, (value, exprs) in enumerate(zip(other.operands, other.maps, strict=True)):
            if value not in self.results:
                continue
            source = self._made_by_members().get(value)
            is_reduced = source is None or (bool(source[0].reductions) and source[1] == loops)
            if position >= other.num_inputs or exprs != identity or not is_reduced:
                return False
            inside = True
        return inside and other.output_maps == [identity] * len(other.results)

    @property
    def parallels(self) -> tuple[int, ...]:
        """Parallel loops."""
        return tuple(dim for dim in range(len(self.members[0].iterators)) if dim not in self.reductions)

    def _made_by_members(self) -> dict[ir.Value, tuple[Generic, list[ir.AffineExpr]]]:
        return {
            result: (member, exprs)
            for member in self.members
            for result, exprs in zip(member.results, member.output_maps, strict=True)
        }

    def _read(self) -> set[ir.Value]:
        return {value for member in self.members for value in member.operands[: member.num_inputs]}

    def stored(self) -> list[tuple[Generic, int]]:
        """Returns the results that are read outside the group, as op and result number."""
        inside = {generic.op for generic in self.ops}
        return [
            (generic, number)
            for generic in self.ops
            for number, result in enumerate(generic.results)
            if any(use.owner.operation not in inside for use in result.uses)
        ]


def form_groups(block: ir.Block) -> list[LoopGroup]:
    """Returns the groups of the ops of one block; each is to be emitted at its last op."""
    groups: list[LoopGroup] = []
    blocked = True
    for op in block.operations:
        if op.name != "linalg.generic":
            blocked = blocked or _reads_any(op.operation, groups[-1].results)
            continue
        generic = Generic(op.operation)
        if generic.filled_with() is not None and not _is_stored_fill(generic):
            continue
        if not blocked and groups[-1].accepts_member(generic):
            groups[-1].members.append(generic)
        elif not blocked and groups[-1].accepts_follower(generic):
            groups[-1].followers.append(generic)
        else:
            groups.append(LoopGroup([generic]))
            blocked = False
    return groups


def _is_stored_fill(fill: Generic) -> bool:
    """Returns whether a fill is more than the start value of reductions."""
    for use in fill.results[0].uses:
        owner = use.owner.operation
        if owner.name != "linalg.generic":
            return True
        user = Generic(owner)
        if use.operand_number < user.num_inputs or not user.reductions:
            return True
    return False


def _reads_any(op: ir.Operation, values: Sequence[ir.Value]) -> bool:
    if any(value in values for value in op.operands):
        return True
    return any(
        _reads_any(inner.operation, values) for region in op.regions for block in region for inner in block.operations
    )


def lane_dim(group: LoopGroup) -> int | None:
    """Returns the loop to vectorise, or None if a body must be computed element by element.

    This is the loop along the results' last dimension. For reductions, it is the one along which most elements are
    contiguous.
    """
    if any(map(_branches, group.ops)):
        return None
    sizes = group.members[0].static_sizes()
    # Intermediate results that are stored must be contiguous along the lanes.
    parallels: list[ir.AffineExpr] = [ir.AffineDimExpr.get(dim) for dim in group.parallels]
    written = [
        generic.output_maps[number] if generic in group.members else parallels for generic, number in group.stored()
    ]
    scattered = {dim for exprs in written for dim in range(len(sizes)) if any(coefficient(e, dim) for e in exprs[:-1])}
    scores: dict[int, float] = {}
    most = max((_elements(value) for generic in group.members for value in generic.operands), default=1)
    for generic in group.members:
        for position, exprs in enumerate(generic.maps):
            is_read = any(True for _ in generic.block.arguments[position].uses)
            if (
                not exprs
                or (position < generic.num_inputs) != bool(group.reductions)
                or not (is_read or not group.reductions)
            ):
                continue
            for dim, size in enumerate(sizes):
                step = coefficient(exprs[-1], dim)
                if dim in group.reductions and _reduces_padding(generic.operands[position], exprs, dim):
                    continue
                if size is not None and size > 1 and step > 0 and dim not in scattered:
                    # Operands of a reduction are weighted by their sizes: a mask of one row counts little beside all
                    # rows.
                    share = _elements(generic.operands[position]) / most if group.reductions else 1
                    scores[dim] = scores.get(dim, 0) + share * min(size, _ENOUGH_LANES) / step
    if not scores:
        return _written_lanes(written, sizes) if group.reductions else None
    return max(scores, key=lambda dim: (scores[dim], dim))


def _elements(value: ir.Value) -> int:
    if not isinstance(value.type, ir.RankedTensorType) or not ir.RankedTensorType(value.type).has_static_shape:
        return 1
    return math.prod(ir.RankedTensorType(value.type).shape)


def _written_lanes(written: Sequence[Sequence[ir.AffineExpr]], sizes: Sequence[int | None]) -> int | None:
    """Returns the loop along which all results are contiguous, if there is one; operands may be read from anywhere."""
    found = {dim for exprs in written for dim in range(len(sizes)) if exprs and coefficient(exprs[-1], dim) == 1}
    if len(found) != 1:
        return None
    (dim,) = found
    size = sizes[dim]
    return dim if size is not None and size > 1 and all(written) else None


def _branches(generic: Generic) -> bool:
    """Returns whether a body has loops or branches, which could differ from lane to lane."""
    return any(len(op.regions) for op in generic.block.operations)


def _reduces_padding(operand: ir.Value, exprs: Sequence[ir.AffineExpr], dim: int) -> bool:
    """Returns whether a loop along `dim` reads padding of an operand: the lanes affected would differ by window."""
    padding = padded(operand) if isinstance(operand.type, ir.ShapedType) else None
    if padding is None:
        return False
    shapes = (ir.RankedTensorType(value.type).shape for value in (operand, padding.inner))
    return any(
        coefficient(expr, dim) != 0 and (shift != 0 or size > inside)
        for expr, shift, size, inside in zip(exprs, padding.shift, *shapes, strict=True)
    )
