"""Patterns that recognise attention written as several ops, and split attention that no kernel computes as a whole."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from mlir import ir

from ....dialects.dims import is_static
from ....dialects.stepwell.attention import FEW_QUERIES, UNBOUNDED, AttentionOp
from ....dialects.stepwell.constant import ConstantOp
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, DivOp, EqualOp, MaskOp, MulOp, NotOp, SelectOp, TanhOp
from ....dialects.stepwell.movement import BroadcastToOp, ReshapeOp, TransposeOp
from ....dialects.stepwell.normalization import SoftmaxOp
from ....dialects.stepwell.reduction import ReduceMaxOp
from ....dialects.stepwell.shapes import broadcasts_to
from ...ir.rewriting import Pattern, Refusal, Replacement, defining_op, has_one_use
from ...ir.values import Shape, shape_of
from ..values import dtype_of, is_float, rank_of, scalar_like, splat_of, static_shape, static_shapes
from .attention_scores import AttentionScores, factor_of, without_reshape

# Maximum number of keys for many queries: the scores of longer rows would not stay in the cache.
_MOST_KEYS = 4096
# If the number of keys varies, a kernel reads those of a call only, and matrix products would compute all scores.
_MOST_VARYING_KEYS = 1 << 16
# In tiles the scores stay in registers whatever their number; the rows of tiles limit the depth.
_TILE_TYPES = ("float32", "float16", "bfloat16")
_LEAST_DEPTH, _MOST_DEPTH = 8, 256


AttentionKernels = Literal["lanes", "tiles", "none"]
"""The attention that a target's kernels compute as a whole.

"lanes": of float32, where queries are lanes of vectors, or are computed one by one if they are few; "tiles": of floats
with up to 32 bits, also in bands, where matrix units multiply tiles; "none".
"""


def is_kernel(query: ir.Value, key: ir.Value, kernels: AttentionKernels, most: int = _MOST_KEYS) -> bool:
    """Returns whether one kernel computes the attention of [batch, heads, length, depth] tensors as a whole.

    Lengths that vary are no obstacle: the attention is split later, if the kernel does not serve the longest ones.

    Args:
        query: queries, the rows of the scores.
        key: keys, the columns of the scores.
        kernels: the target's kernels.
        most: maximum number of keys for many queries.
    """
    shapes = static_shapes(query, key)
    if shapes is None or 0 in (*shapes[0], *shapes[1]) or not isinstance(shapes[0][3], int):
        return False
    if kernels == "none":
        return False
    if kernels == "tiles":
        return str(dtype_of(query)) in _TILE_TYPES and _LEAST_DEPTH <= shapes[0][3] <= _MOST_DEPTH
    if dtype_of(query) != np.float32:
        return False
    lengths = shapes[0][2], shapes[1][2]
    return not is_static(lengths) or lengths[0] <= FEW_QUERIES or lengths[1] <= most


@dataclass(frozen=True)
class SplitAttention(Pattern[AttentionOp]):
    """attention(q, k, v, mask) {scale} --> matmul(softmax(matmul(q * scale, transpose(k)) + mask), v)

    Applies if no kernel computes the attention as a whole.

    Attributes:
        kernels: the target's kernels.
    """

    kernels: AttentionKernels = "lanes"

    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        is_banded = min(op.before, op.after) < UNBOUNDED
        kept = None if op.mask is None else defining_op(op.mask, MaskOp)
        most = _MOST_KEYS if kept is None or kept.extent < 0 else _MOST_VARYING_KEYS
        if is_kernel(op.query, op.key, self.kernels, most) and (self.kernels == "tiles" or not is_banded):
            return None
        query, key, value = static_shape(op.query), static_shape(op.key), static_shape(op.value)
        if query is None or key is None or value is None:
            return Refusal("the shapes are not static")
        batch, heads, length, depth = query
        # Scaling the query costs less than scaling the scores.
        scaled = MulOp(op.query, scalar_like(op.scale, op.query)).result
        # Query heads that share a key head become additional rows of one matrix.
        rows = heads // key[1] * length
        joined = _reshaped(scaled, (batch, key[1], rows, depth))
        scores = MatmulOp(joined, op.key, transpose_rhs=True).result
        full = (batch, heads, length, key[2])
        scores = _masked(_reshaped(scores, full), op)
        if is_banded:
            ahead = np.arange(key[2]) - np.arange(length)[:, None]
            near = ConstantOp(value=(ahead <= op.after) & (-ahead <= op.before)).result
            scores = SelectOp(near, scores, scalar_like(-np.inf, scores)).result
        weights = SoftmaxOp(scores, axis=-1).result
        if op.zero_empty:
            greatest = ReduceMaxOp(scores, axes=(3,), keepdims=True).result
            empty = EqualOp(greatest, scalar_like(-np.inf, scores))
            weights = SelectOp(empty, scalar_like(0, scores), weights).result
        weights = _reshaped(weights, (batch, key[1], rows, key[2]))
        result = MatmulOp(weights, op.value).result
        return _reshaped(result, (batch, heads, length, value[3]))


def _masked(scores: ir.Value, op: AttentionOp) -> ir.Value:
    if op.cap:
        limit = scalar_like(op.cap, scores)
        scores = MulOp(TanhOp(DivOp(scores, limit)), limit).result
    if op.mask is None:
        return scores
    if is_float(op.mask):
        return AddOp(scores, op.mask).result
    return SelectOp(op.mask, scores, scalar_like(op.masked, scores)).result


def _reshaped(value: ir.Value, shape: Shape) -> ir.Value:
    return value if static_shape(value) == shape else ReshapeOp(value, shape=shape).result


@dataclass(frozen=True)
class FuseAttention(Pattern[MatmulOp]):
    """matmul(softmax(matmul(q, transpose(k)) * scale + mask), v) --> attention(q, k, v, mask) {scale}

    The scale may be a divisor, and may be applied to q or k instead. The mask may be added, or select between the
    scores and a number. Batch and heads may be one dimension in the products. NaN weights, those of queries that attend
    to nothing, may be replaced by 0.

    Attributes:
        kernels: the target's kernels.
    """

    kernels: AttentionKernels = "lanes"

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        weights = without_reshape(op.lhs)
        guarded = _before_nan_guard(weights)
        softmax = defining_op(weights if guarded is None else guarded, SoftmaxOp)
        if softmax is None or op.transpose_lhs:
            return None
        shape = static_shape(softmax.input)
        if shape is None or not 2 <= len(shape) <= 4 or softmax.axis % len(shape) != len(shape) - 1:
            return Refusal("the scores are not matrices of static shape with the keys in the last dimension")
        if not (has_one_use(op.lhs) and has_one_use(weights) and (guarded is not None or has_one_use(softmax.result))):
            return Refusal("the weights have other readers")
        scores = AttentionScores()
        product = scores.read(softmax.input)
        if product is None:
            return Refusal("the scores are not a product with a scale and a mask")
        heads = _heads(product.lhs) if scores.mask is None and len(shape) == 3 else None
        shape = (*heads, *shape[1:]) if heads else (*[1] * (4 - len(shape)), *shape)
        return _assemble(op, product, scores, shape, self, zero_empty=guarded is not None)


class DropEmptyMask(Pattern[AttentionOp]):
    """attention(q, k, v, true) --> attention(q, k, v), the same for an additive mask of 0"""

    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        found = splat_of(op.mask)
        if found is None or not (found is True or (found is not False and found == 0)):
            return None
        return AttentionOp(op.query, op.key, op.value, None, **op.attribute_values()).result


class ShareHeads(Pattern[AttentionOp]):
    """attention(q, repeat(k), repeat(v)) --> attention(q, k, v), if query heads share those of keys and values

    Heads are repeated in the form of torch's exporter: reshape(broadcast_to(reshape(k))).
    """

    root = AttentionOp

    def rewrite(self, op: AttentionOp) -> Replacement:
        shared = [_shared(value) for value in (op.key, op.value)]
        sources = [item for item in shared if item is not None]
        if len(sources) < len(shared):
            return None
        counts = {shape_of(source)[1] for source in sources}
        if len(counts) != 1:
            return Refusal("keys and values are repeated a different number of times")
        key, value = sources
        return AttentionOp(op.query, key, value, op.mask, **op.attribute_values()).result


def _shared(value: ir.Value) -> ir.Value | None:
    """The tensor whose heads `value` [batch, heads, length, depth] repeats consecutively; None if there is none."""
    joined = defining_op(value, ReshapeOp)
    spread = None if joined is None else defining_op(joined.input, BroadcastToOp)
    if spread is None:
        return None
    source, wide, made = static_shape(spread.input), static_shape(spread.result), static_shape(value)
    if source is None or wide is None or made is None or len(source) != 5 or len(made) != 4:
        return None
    batch, heads, count, length, depth = wide
    if source != (batch, heads, 1, length, depth) or made != (batch, heads * count, length, depth):
        return None
    return _reshaped(spread.input, (batch, heads, length, depth))


def _without_factor(value: ir.Value) -> tuple[ir.Value, float]:
    """As `_factor`, but also through transposes and reshapes after the product."""
    source, factor = factor_of(value)
    if source != value:
        return source, factor
    transpose, reshape = defining_op(value, TransposeOp), defining_op(value, ReshapeOp)
    moved = transpose or reshape
    source, factor = (value, 1.0) if moved is None else _without_factor(moved.input)
    if moved is None or factor == 1:
        return value, 1.0
    return type(moved)(source, **moved.attribute_values()).result, factor


def _heads(query: ir.Value) -> tuple[int, ...] | None:
    """Batch and heads of a query in which they are one dimension, if a reshape merged them."""
    query, _ = _without_factor(query)
    shape, before = static_shape(query), static_shape(without_reshape(query))
    if shape is None or before is None or len(before) != 4 or before[2:] != shape[1:]:
        return None
    return before[:2]


def _before_nan_guard(value: ir.Value) -> ir.Value | None:
    """The source of `value` if that only replaces NaN by 0, in the form of torch's exporter, and is its only reader."""
    choice = defining_op(value, SelectOp)
    if choice is None or splat_of(choice.on_true) != 0 or choice.on_false.type != value.type:
        return None
    differs = defining_op(choice.condition, NotOp)
    same = None if differs is None else defining_op(differs.input, EqualOp)
    source = choice.on_false
    if same is None or same.lhs != source or same.rhs != source:
        return None
    # Read twice by the comparison, once by the select.
    readers = [use.owner.operation for use in source.uses]
    known = (same.operation, choice.operation)
    is_own = all(any(reader == op for op in known) for reader in readers)
    return source if is_own and has_one_use(same.result) and has_one_use(choice.condition) else None


def _assemble(
    op: MatmulOp, product: MatmulOp, scores: AttentionScores, shape: Shape, how: FuseAttention, *, zero_empty: bool
) -> Replacement:
    """The attention op in place of `op`; `shape` is that of the scores, [batch, heads, length, key length]."""
    batch, heads, length, keys = shape
    mask, made = scores.mask, static_shape(op.result)
    if made is None or (mask is not None and not _is_broadcast(mask, shape)):
        return Refusal("the mask does not broadcast to [batch, heads, length, key length]")
    if any(_matrices(part) != batch * heads for part in (product.lhs, product.rhs, op.rhs)):
        return Refusal("query, key and value differ in their batches")
    query, query_scale = _without_factor(product.lhs)
    key, key_scale = _without_factor(product.rhs)
    value = _transposed(op.rhs) if op.transpose_rhs else op.rhs
    query = _reshaped(query, (batch, heads, length, _depth(query)))
    key = key if product.transpose_rhs else _transposed(key)
    key = _reshaped(key, (batch, heads, keys, _depth(key)))
    value = _reshaped(value, (batch, heads, keys, _depth(value)))
    if not is_kernel(query, key, how.kernels):
        return Refusal("no kernel computes attention of this type and size as a whole")
    if mask is not None:
        mask = NotOp(mask).result if scores.is_negated else mask
        mask = _reshaped(mask, (*[1] * (4 - rank_of(mask)), *(static_shape(mask) or ())))
    if mask is not None and scores.bias is not None:
        bias = _by_head(scores.bias, batch, heads)
        if bias is None or not _is_broadcast(bias, shape):
            return Refusal("the bias does not broadcast to [batch, heads, length, key length]")
        is_term = is_float(mask)
        mask = AddOp(mask, bias).result if is_term else SelectOp(mask, bias, scalar_like(scores.masked, bias)).result
    scale = scores.scale * query_scale * key_scale
    made_op = AttentionOp(
        query, key, value, mask, scale=scale, masked=scores.masked, zero_empty=zero_empty, cap=scores.cap
    )
    return _reshaped(made_op.result, made)


def _matrices(value: ir.Value) -> int:
    """The number of matrices in the dimensions before the last two."""
    return math.prod((static_shape(value) or (-1, 0, 0))[:-2])


def _depth(value: ir.Value) -> int:
    return shape_of(value)[-1]


def _transposed(value: ir.Value) -> ir.Value:
    """The transposes of matrices."""
    rank = rank_of(value)
    return TransposeOp(value, permutation=(*range(rank - 2), rank - 1, rank - 2)).result


def _by_head(bias: ir.Value, batch: int, heads: int) -> ir.Value | None:
    """Returns a bias with four dimensions, whose batch and heads may be one dimension; None if its shape varies."""
    extents = static_shape(bias)
    if extents is None or len(extents) > 4:
        return None
    if len(extents) == 3 and extents[0] == batch * heads:
        return _reshaped(bias, (batch, heads, *extents[1:]))
    return _reshaped(bias, (*[1] * (4 - len(extents)), *extents))


def _is_broadcast(mask: ir.Value, shape: Shape) -> bool:
    extents = static_shape(mask)
    return extents is not None and len(extents) <= 4 and broadcasts_to(extents, shape)


PATTERNS = (DropEmptyMask(), ShareHeads())
"""The patterns of the canonical form; another pass recognises composite ops."""
