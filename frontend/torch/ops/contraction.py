"""Matrix products, convolutions and attention."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.dims import is_static, numbers
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.attention import UNBOUNDED, AttentionOp
from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from ....dialects.stepwell.movement import DynamicBroadcastToOp, ExpandDimsOp, SqueezeOp
from ....dialects.stepwell.normalization import SoftmaxOp
from ....dialects.stepwell.reduction import ReduceMaxOp, ReduceProdOp, ReduceSumOp
from ...build import (
    added,
    cast,
    constant,
    dims_of,
    dtype,
    emit,
    gathered,
    joined,
    known_dim,
    known_number,
    multiplied,
    rank,
    reshaped,
    scalar,
    shape,
    summed,
)
from ...errors import NeedsShapes, UnsupportedError
from ..node import AtenNode
from ..registry import imports
from ..symbols import like
from .randomness import dropped


@imports("aten.mm.default", "aten.bmm.default")
def matrix_product(node: AtenNode, input: ir.Value, mat2: ir.Value) -> ir.Value:
    """A product of matrices, per batch."""
    return _product(node, input, mat2)


@imports("aten.matmul.default")
def matmul(node: AtenNode, input: ir.Value, other: ir.Value) -> ir.Value:
    """A product of matrices or vectors, whose batches broadcast."""
    return _product(node, input, other)


@imports("aten.mv.default")
def matrix_vector(node: AtenNode, input: ir.Value, vec: ir.Value) -> ir.Value:
    """A product of a matrix and a vector."""
    return _product(node, input, vec)


def _product(node: AtenNode, lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    """A matrix product of the node's element type; sums of bytes overflow in PyTorch."""
    return cast(multiplied(lhs, rhs), node.dtype())


def _plus(total: ir.Value, addend: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    """alpha * total + beta * addend; an addend with a factor of 0 is not read"""
    scaled = total if alpha == 1 else emit(ew.MulOp, total, like(alpha, total))
    if beta == 0:
        return scaled
    return emit(ew.AddOp, scaled, addend if beta == 1 else emit(ew.MulOp, addend, like(beta, addend)))


@imports("aten.addmm.default")
def addmm(node: AtenNode, input: ir.Value, mat1: ir.Value, mat2: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    """alpha * a @ b + beta * c"""
    return _plus(_product(node, mat1, mat2), input, beta, alpha)


@imports("aten.baddbmm.default")
def baddbmm(node: AtenNode, input: ir.Value, batch1: ir.Value, batch2: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    """alpha * a @ b + beta * c, per batch"""
    return _plus(_product(node, batch1, batch2), input, beta, alpha)


@imports("aten.addbmm.default")
def addbmm(node: AtenNode, input: ir.Value, batch1: ir.Value, batch2: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    """alpha * sum(a @ b) + beta * c, summed over the batches"""
    total = summed(_product(node, batch1, batch2), 0)
    return _plus(total, input, beta, alpha)


@imports("aten.addmv.default")
def addmv(node: AtenNode, input: ir.Value, mat: ir.Value, vec: ir.Value, beta: Any, alpha: Any) -> ir.Value:
    """alpha * a @ v + beta * c"""
    return _plus(_product(node, mat, vec), input, beta, alpha)


@imports("aten.linear.default")
def linear(node: AtenNode, input: ir.Value, weight: ir.Value, bias: ir.Value | None) -> ir.Value:
    """x @ transpose(weight) + bias"""
    rows = emit(ExpandDimsOp, input, axes=(0,)) if rank(input) == 1 else input
    if rank(weight) == 1:
        return added(_product(node, input, weight), bias)
    made = added(cast(emit(MatmulOp, rows, weight, transpose_rhs=True), node.dtype()), bias)
    return emit(SqueezeOp, made, axes=(0,)) if rank(input) == 1 else made


@imports("aten.convolution.default")
def convolution(
    node: AtenNode,
    input: ir.Value,
    weight: ir.Value,
    bias: ir.Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> ir.Value:
    """A convolution over 1 to 3 spatial dimensions, or its transpose."""
    count = rank(weight) - 2
    strides, pads, dilations, more = (
        tuple(item) * (count if len(item) == 1 else 1) for item in (stride, padding, dilation, output_padding)
    )
    attributes: dict[str, Any] = {"strides": strides, "pads": (*pads, *pads), "dilations": dilations, "group": groups}
    batched = emit(ExpandDimsOp, input, axes=(0,)) if rank(input) == count + 1 else input
    if transposed:
        made = emit(ConvTransposeOp, batched, weight, bias, output_padding=more, **attributes)
    else:
        made = emit(ConvOp, batched, weight, bias, **attributes)
    return emit(SqueezeOp, made, axes=(0,)) if rank(input) == count + 1 else made


@imports("aten.scaled_dot_product_attention.default")
def attention(
    node: AtenNode,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    attn_mask: ir.Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> ir.Value:
    """softmax(query @ transpose(key) * scale + mask) @ value; a query that attends to nothing gets 0."""
    query, factor = scaled_query(query, scale)
    mask = attn_mask
    if mask is not None and dtype(mask) != np.bool_:
        mask = cast(mask, dtype(query))
    operands = [_four_dimensional(item) for item in (query, key, value)]
    if mask is not None and rank(query) > 4:
        batch = dims_of(query, 0, rank(query) - 1)
        whole = joined([batch, dims_of(key, rank(key) - 2, rank(key) - 1)])
        mask = _four_dimensional(emit(DynamicBroadcastToOp, mask, whole))
    elif mask is not None and rank(mask) < 4:
        missing = 4 - rank(mask)
        # A mask of 3 dimensions belongs to queries of 3: [batch, length, depth] has one head.
        mask = emit(ExpandDimsOp, mask, axes=(1,) if rank(mask) == 3 == rank(query) else tuple(range(missing)))
    if dropout_p:
        return _dropped_attention(node, operands, mask, factor, is_causal, dropout_p)
    after = 0 if is_causal else UNBOUNDED
    made = emit(AttentionOp, *operands, mask, scale=factor, zero_empty=mask is not None, after=after)
    return reshaped(made, node.shape()) if rank(query) != 4 else made


def _dropped_attention(
    node: AtenNode,
    operands: Sequence[ir.Value],
    mask: ir.Value | None,
    scale: float,
    is_causal: bool,
    dropout: float,
) -> ir.Value:
    """Attention in training, a share of whose weights is 0."""
    query, key, value = operands
    if shape(query)[1] != shape(key)[1] or not is_static((*shape(query)[:3], *shape(key)[:3])):
        raise UnsupportedError("drops attention of shared heads, or of unknown sizes, which is not supported")
    scores = attention_scores(query, key, mask, scale, is_causal)
    weights = dropped(node, emit(SoftmaxOp, scores, axis=3), dropout)
    made = emit(MatmulOp, weights, value)
    return reshaped(made, node.shape())


def scaled_query(query: ir.Value, scale: Any) -> tuple[ir.Value, float]:
    """The query and the factor of the scores; a factor that is computed becomes a part of the query.

    Without a scale, the factor is the inverse root of the depth of a head.
    """
    if scale is None:
        depth = known_dim(query, rank(query) - 1, "the depth of a head, for its scale,")
        scale = depth**-0.5 if depth else 1.0
    if isinstance(scale, ir.Value):
        return emit(ew.MulOp, query, cast(scale, dtype(query))), 1.0
    return query, float(scale)


def attention_scores(query: ir.Value, key: ir.Value, mask: ir.Value | None, scale: float, is_causal: bool) -> ir.Value:
    """query @ transpose(key) * scale + mask, minus infinity where a mask of bools or the order hides a key."""
    scores = emit(MatmulOp, query, key, transpose_rhs=True)
    scores = emit(ew.MulOp, scores, scalar(scale, scores))
    if mask is not None and dtype(mask) != np.bool_:
        scores, mask = emit(ew.AddOp, scores, mask), None
    if is_causal:
        if not is_static(shape(scores)):
            raise NeedsShapes("the number of keys of causal attention must be known")
        mask = constant(np.tri(*numbers(shape(scores)[2:]), dtype=np.bool_))
    return scores if mask is None else emit(ew.SelectOp, mask, scores, scalar(-np.inf, scores))


def _four_dimensional(value: ir.Value) -> ir.Value:
    """[length, depth] --> [1, 1, length, depth]; [batch, length, depth] --> [batch, 1, length, depth];
    [batch..., heads, length, depth] --> [batch, heads, length, depth]
    """
    if rank(value) < 4:
        return emit(ExpandDimsOp, value, axes=(0, 1) if rank(value) == 2 else (1,))
    if rank(value) == 4:
        return value
    batch, inner = rank(value) - 3, dims_of(value, rank(value) - 3, rank(value))
    count = emit(ReduceProdOp, dims_of(value, 0, batch), axes=(0,), keepdims=True)
    return reshaped(value, joined([count, inner]))


@imports("aten._cdist_forward.default")
def distances(node: AtenNode, x1: ir.Value, x2: ir.Value, p: float) -> ir.Value:
    """The p-norms of the differences of all pairs of rows."""
    apart = emit(
        ew.SubOp,
        emit(ExpandDimsOp, x1, axes=(rank(x1) - 1,)),
        emit(ExpandDimsOp, x2, axes=(rank(x2) - 2,)),
    )
    return _norm(apart, p)


@imports("aten._pdist_forward.default")
def distances_within(node: AtenNode, input: ir.Value, p: float) -> ir.Value:
    """The p-norms of the differences of all pairs of rows, each pair once."""
    count = known_number(input, 0, "the number of rows")
    tables = zip(("first", "second"), np.triu_indices(count, 1), strict=True)
    rows = [gathered(input, node.importer.weight(f"{node.name}.{name}", table), 0) for name, table in tables]
    return _norm(emit(ew.SubOp, *rows), p)


def _norm(value: ir.Value, p: float) -> ir.Value:
    """The p-norm along the last dimension."""
    axes, magnitude = (rank(value) - 1,), emit(ew.AbsOp, value)
    if p == np.inf:
        return emit(ReduceMaxOp, magnitude, axes=axes, keepdims=False)
    if p == 0:
        is_apart = emit(ew.NotOp, emit(ew.EqualOp, value, scalar(0, value)))
        return emit(ReduceSumOp, cast(is_apart, dtype(value)), axes=axes, keepdims=False)
    if p == 1:
        return emit(ReduceSumOp, magnitude, axes=axes, keepdims=False)
    if p == 2:
        return emit(ew.SqrtOp, emit(ReduceSumOp, emit(ew.MulOp, value, value), axes=axes, keepdims=False))
    powers = emit(ReduceSumOp, emit(ew.PowOp, magnitude, scalar(p, value)), axes=axes, keepdims=False)
    return emit(ew.PowOp, powers, scalar(1 / p, value))


@imports("aten._trilinear.default")
def trilinear(
    node: AtenNode,
    i1: ir.Value,
    i2: ir.Value,
    i3: ir.Value,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
) -> ir.Value:
    """The sum over dimensions of a product of three tensors, each with new dimensions."""
    pairs = zip((i1, i2, i3), (expand1, expand2, expand3), strict=True)
    first, second, third = (emit(ExpandDimsOp, item, axes=tuple(axes)) if axes else item for item, axes in pairs)
    whole = emit(ew.MulOp, emit(ew.MulOp, first, second), third)
    return emit(ReduceSumOp, whole, axes=tuple(sumdim), keepdims=False) if sumdim else whole
