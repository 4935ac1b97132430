"""Masks before reductions: they replace padding by the neutral element, so loops may stop at the end of the data."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mlir import ir

from ...dialects.registry import view_of
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise import MaskOp
from ...dialects.stepwell.reduction import ReduceMaxOp, ReduceMinOp, ReduceProdOp, ReduceSumOp
from ..ir.rewriting import defining_op
from ..ir.values import shape_of

REDUCTIONS = (ReduceSumOp, ReduceProdOp, ReduceMaxOp, ReduceMinOp)


def masked_axis(op: MaskOp) -> int | None:
    """The only dimension of its operand along which a mask varies; None if there are several."""
    sizes, rank = shape_of(op.mask), len(shape_of(op.input))
    along = [axis for axis, size in enumerate(sizes, rank - len(sizes)) if size != 1]
    return along[0] if len(along) == 1 else None


def is_for_reduction(op: ir.Operation) -> bool:
    """Returns whether an op is a mask that only feeds a reduction, directly or through other masks."""
    if op.name != MaskOp.OPERATION_NAME:
        return False
    uses = list(op.results[0].uses)
    if len(uses) != 1 or uses[0].operand_number != 0:
        return False
    user = uses[0].owner.operation
    return isinstance(view_of(user), REDUCTIONS) or is_for_reduction(user)


def skipped_by(group: Sequence[ir.Operation], inputs: Sequence[ir.Value]) -> list[int]:
    """The bounds at which a kernel's reductions may stop: triples of an input's index, a dimension, a table entry.

    Args:
        group: ops of the kernel.
        inputs: values that the kernel reads.
    """
    found: list[int] = []
    inside = set(group)
    for op in group:
        found += _depths(op, inputs)
        masks = _masks_of(op)
        if not masks:
            continue
        rank = len(shape_of(op.operands[0]))
        for value in _read_by(op.operands[0], inside):
            sizes = shape_of(value)
            for masked, axis in masks:
                own = axis - rank + len(sizes)
                if value in inputs and own >= 0 and sizes[own] == shape_of(op.operands[0])[axis]:
                    found += [inputs.index(value), own, masked.extent]
    return found


def masks_read_by(group: Sequence[ir.Operation], inputs: Sequence[ir.Value]) -> list[int]:
    """The masks of a kernel's reductions among its inputs: pairs of an input's index and a table entry."""
    found: dict[int, int] = {}
    for op in group:
        for masked, _ in _masks_of(op):
            if masked.mask in inputs:
                found[inputs.index(masked.mask)] = masked.extent
    return [number for pair in found.items() for number in pair]


def _depths(op: ir.Operation, inputs: Sequence[ir.Value]) -> list[int]:
    """As `skipped_by`, for a product whose operands are 0 beyond the data along the contracted dimension."""
    if op.name != MatmulOp.OPERATION_NAME or MatmulOp(op).depth < 0:
        return []
    view, found = MatmulOp(op), []
    for value, is_last in zip(op.operands, (not view.transpose_lhs, view.transpose_rhs), strict=True):
        if value in inputs:
            found += [inputs.index(value), len(shape_of(value)) - (1 if is_last else 2), view.depth]
    return found


def _masks_of(op: ir.Operation) -> list[tuple[MaskOp, int]]:
    """The masks of a reduction's operand along reduced dimensions, each with its dimension."""
    view = view_of(op)
    if not isinstance(view, REDUCTIONS):
        return []
    value, found, neutral = op.operands[0], [], None
    rank = len(shape_of(value))
    axes = {axis % rank for axis in view.attribute_values()["axes"]}
    while (masked := defining_op(value, MaskOp)) is not None and len(list(value.uses)) == 1:
        neutral = masked.otherwise if neutral is None else neutral
        axis = masked_axis(masked)
        if axis is not None and axis in axes and masked.extent >= 0 and masked.otherwise == neutral:
            found.append((masked, axis))
        value = masked.input
    return found


def _read_by(value: ir.Value, inside: Collection[ir.Operation]) -> list[ir.Value]:
    """The kernel inputs that a value is computed from element by element, ignoring masks."""
    found: list[ir.Value] = []
    pending = [value]
    while pending:
        value = pending.pop()
        owner = None if isinstance(value.owner, ir.Block) else value.owner.operation
        if owner is None or owner not in inside:
            found += [value] if value not in found else []
            continue
        pending += list(owner.operands)[:1] if owner.name == MaskOp.OPERATION_NAME else list(owner.operands)
    return found
