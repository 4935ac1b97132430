"""Patterns that sink transposes below reshapes, if each new dimension consists of adjacent ones."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.movement import ReshapeOp, TransposeOp
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op
from ..values import static_shape
from .transposes import transposed

Shape = tuple[int, ...]


@dataclass(frozen=True)
class ReassociationGroup:
    """Adjacent dimensions before a reshape, and the dimensions after it that hold the same elements."""

    before: tuple[int, ...]
    after: tuple[int, ...]


def reshape_groups(before: Shape, after: Shape) -> list[ReassociationGroup] | None:
    """The smallest groups of dimensions that a reshape maps to each other; None for tensors without elements."""
    if 0 in before or 0 in after:
        return None
    groups: list[ReassociationGroup] = []
    first, second = 0, 0
    while first < len(before) and second < len(after):
        start, begin = first, second
        left, right = before[first], after[second]
        first, second = first + 1, second + 1
        while left != right:
            if left < right:
                left, first = left * before[first], first + 1
            else:
                right, second = right * after[second], second + 1
        groups.append(ReassociationGroup(tuple(range(start, first)), tuple(range(begin, second))))
    # Only unit dimensions can be left over.
    rest = ReassociationGroup(tuple(range(first, len(before))), tuple(range(second, len(after))))
    return [*groups, rest] if rest.before or rest.after else groups


class SinkThroughReshape(Pattern[ReshapeOp]):
    """reshape(transpose(x, p)) --> transpose(reshape(x), p'), if merged dimensions are adjacent in x

    If they are not, as in a channel shuffle, p is split in two, provided that all readers of the result are transposes:

    reshape(transpose(x, p)) --> transpose(reshape(transpose(x, q)), p')
    """

    root = ReshapeOp

    def rewrite(self, op: ReshapeOp) -> Replacement:
        inner = defining_op(op.input, TransposeOp)
        shape = None if inner is None else static_shape(inner.input)
        if inner is None or shape is None:
            return None
        p = inner.permutation
        groups = reshape_groups(tuple(shape[axis] for axis in p), op.shape)
        if groups is None:
            return None
        position = _positions(shape)
        keys = _keys(groups, p, position)
        order = sorted(range(len(groups)), key=keys.__getitem__)
        outer = _order_after(groups, order)
        q = tuple(p[axis] for index in order for axis in groups[index].before)
        sunk_shape = tuple(op.shape[axis] for axis in _axes_after(groups, order))
        if _moves_only_units(q, shape):
            return transposed(ReshapeOp(inner.input, shape=sunk_shape).result, outer)
        if outer == tuple(range(len(outer))):
            return None
        if not _is_read_by_transposes(op.result):
            return Refusal("merged dimensions are not adjacent before the transpose")
        return transposed(ReshapeOp(transposed(inner.input, q), shape=sunk_shape).result, outer)


def _positions(shape: Shape) -> dict[int, int]:
    """The position of each non-unit dimension among the non-unit dimensions."""
    return {axis: position for position, axis in enumerate(axis for axis, dim in enumerate(shape) if dim != 1)}


def _keys(groups: list[ReassociationGroup], p: tuple[int, ...], position: dict[int, int]) -> list[float]:
    """Sort keys: the position of each group before the transpose; groups of unit dimensions follow the group before."""
    keys: list[float] = []
    for index, group in enumerate(groups):
        positions = [position[p[axis]] for axis in group.before if p[axis] in position]
        before = keys[-1] if keys else -1.0
        keys.append(min(positions) if positions else before + 1 / (len(groups) + 1 + index))
    return keys


def _axes_after(groups: list[ReassociationGroup], order: list[int]) -> list[int]:
    return [axis for index in order for axis in groups[index].after]


def _order_after(groups: list[ReassociationGroup], order: list[int]) -> tuple[int, ...]:
    """The permutation that restores the order of the dimensions after the reshape, which are grouped in `order`."""
    axes = _axes_after(groups, order)
    return tuple(axes.index(axis) for axis in range(len(axes)))


def _moves_only_units(permutation: tuple[int, ...], shape: Shape) -> bool:
    moving = [axis for axis in permutation if shape[axis] != 1]
    return moving == sorted(moving)


def _is_read_by_transposes(value: ir.Value) -> bool:
    readers = [use.owner.name for use in value.uses]
    return bool(readers) and all(name == TransposeOp.OPERATION_NAME for name in readers)


PATTERNS: tuple[Pattern, ...] = (SinkThroughReshape(),)
