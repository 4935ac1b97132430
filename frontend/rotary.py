"""Rotation of pairs of elements, as in rotary position embeddings."""

from __future__ import annotations

from mlir import ir

from ..dialects.stepwell.elementwise import AddOp, MulOp, SubOp
from ..dialects.stepwell.movement import DynamicReshapeOp, ExpandDimsOp, SqueezeOp
from .build import emit, integers, joined, known_dim, part_along, rank


def rotated(value: ir.Value, cosines: ir.Value, sines: ir.Value, *, is_interleaved: bool) -> ir.Value:
    """Rotates the pairs of the last dimension by angles; elements without an angle stay.

    Args:
        value: [batch, heads, length, depth].
        cosines: the cosines of the angles, [batch, 1, length, pairs].
        sines: the sines of the angles, likewise.
        is_interleaved: whether pairs are neighbours, instead of one element from each half of the rotated part.
    """
    depth, pairs = (known_dim(item, rank(item) - 1, "the depth of a head") for item in (value, cosines))
    covered = part_along(value, 3, 0, 2 * pairs)
    if is_interleaved:
        apart = emit(DynamicReshapeOp, covered, integers([0, 0, 0, pairs, 2]))
        first, second = (emit(SqueezeOp, part_along(apart, 4, at, at + 1), axes=(4,)) for at in range(2))
    else:
        first, second = (part_along(covered, 3, at * pairs, (at + 1) * pairs) for at in range(2))
    products = [
        emit(SubOp, emit(MulOp, first, cosines), emit(MulOp, second, sines)),
        emit(AddOp, emit(MulOp, second, cosines), emit(MulOp, first, sines)),
    ]
    if is_interleaved:
        together = joined([emit(ExpandDimsOp, item, axes=(4,)) for item in products], 4)
        result = emit(DynamicReshapeOp, together, integers([0, 0, 0, 2 * pairs]))
    else:
        result = joined(products, 3)
    return result if depth == 2 * pairs else joined([result, part_along(value, 3, 2 * pairs, depth)], 3)
