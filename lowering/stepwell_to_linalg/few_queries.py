"""Lowering of attention with few queries, as in steps of decoders: rows of keys are read once, in place.

For each head of the keys, all queries that share it are computed together. Vectors run along the depth of the heads,
so that keys and values are read as they are stored, and every loop over keys ends at the number of keys of a call.

    %0 = "stepwell.attention"(%q, %k, %v, %mask) {scale = 0.125}
    // -->
    scf.forall (%batch, %head) {
      scf.for %key { scores[row, key] = sum(q[row] * k[key]) }             // for blocks of rows
      scf.for %key step 16 { scores += mask; greatest = max(scores) }      // for each row
      scf.for %key step 16 { scores = exp(scores - greatest); total += scores }
      scf.for %key { sum[row] += scores[row, key] * v[key] }               // for blocks of rows
      result[row] = sum[row] / total
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor, vector
from mlir.dialects import math as math_ops

from ...dialects.stepwell.attention import AttentionOp
from ...machines.families import WIDEST_VECTOR_BYTES
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.access import Point, broadcast, read_row, vector_type, write_row, zero
from ..builders.generics import multiply_add
from ..builders.indices import Index, add, loop, subtract, value_of
from ..builders.scalars import number
from ..builders.tensors import copy, dims, empty
from .cumulative import pieces
from .sequences import in_parallel
from .views import TensorView

LANES = WIDEST_VECTOR_BYTES // 4
"""Number of elements per vector; targets with shorter registers use several registers."""

_BLOCK_VECTORS = 16
"""Number of vectors of queries, or of sums, that a block of rows holds in registers."""


@dataclass(frozen=True)
class FewQueries:
    """An attention to be lowered; the insertion point and location are set.

    Attributes:
        op: the attention.
        query: queries [batch, heads, queries, depth], as a view of an argument.
        key: keys [batch, key heads, keys, depth].
        value: values [batch, key heads, keys, depth of values].
        mask: the mask, with four dimensions of which some may have one element; None if there is none.
        keys: number of keys of a call.
    """

    op: AttentionOp
    query: TensorView
    key: TensorView
    value: TensorView
    mask: TensorView | np.generic | None
    keys: Index

    def lower(self, target: TensorView) -> ir.Value:
        """Emits the kernel; returns the result in the form of the base of `target`."""
        shared = self.query.shape[1] // self.key.shape[1]
        query, target = (_split_heads(view, self.key.shape[1], shared) for view in (self.query, target))
        query, key, value = (_with_rows(view) for view in (query, self.key, self.value))
        mask = self.mask
        if isinstance(mask, TensorView):
            own = shared if mask.shape[1] > 1 else 1
            mask = _with_rows(_split_heads(mask, self.key.shape[1], own))
        steps = list(shape_of(target.base))
        for axis in target.axes[:2]:
            if axis is not None:
                steps[axis] = 1

        def block_of(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
            batch, head = (0 if axis is None else at[axis] for axis in target.axes[:2])
            one = _Head(self, query, key, value, mask, TensorView(block, target.axes), (batch, head))
            return one.lower()

        return in_parallel(steps, target.base, block_of)


@dataclass(frozen=True)
class _Head:
    """One head of the keys: views of [batch, key heads, (heads that share one,) rows, depth]."""

    whole: FewQueries
    query: TensorView
    key: TensorView
    value: TensorView
    mask: TensorView | np.generic | None
    target: TensorView
    at: tuple[Index, Index]

    def lower(self) -> ir.Value:
        """Emits the kernel of the head; returns the block of the result."""
        rows = [(group, row) for group in range(self.query.shape[2]) for row in range(self.query.shape[3])]
        room = -(-self.key.shape[2] // LANES) * LANES
        scores = empty([len(rows) * room], ir.F32Type.get())
        per_block = max(1, _BLOCK_VECTORS // max(len(_runs(self.query)), len(_runs(self.value))))
        blocks = [range(start, min(start + per_block, len(rows))) for start in range(0, len(rows), per_block)]
        for block in blocks:
            scores = self._scores([rows[row] for row in block], [row * room for row in block], scores)
        inverses = []
        for place, row in enumerate(rows):
            scores, inverse = self._softmax(row, place * room, scores)
            inverses.append(inverse)
        result = self.target.base
        for block in blocks:
            chosen = [(rows[row], row * room, inverses[row]) for row in block]
            result = self._sums(chosen, scores, result)
        return result

    def _scores(self, rows: Sequence[tuple[int, int]], starts: Sequence[int], scores: ir.Value) -> ir.Value:
        """Writes the products of queries and all keys; `starts` are the indices of the rows in `scores`."""
        runs = _runs(self.query)
        factor = number(self.whole.op.scale, ir.F32Type.get())
        queries = [
            [
                arith.mulf(_read(self.query, (*self.at, *row, start), width), broadcast(factor, width))
                for start, width in runs
            ]
            for row in rows
        ]

        def step(key: Index, carried: list[ir.Value]) -> list[ir.Value]:
            (scores,) = carried
            found = [_read(self.key, (*self.at, key, start), width) for start, width in runs]
            for query, start in zip(queries, starts, strict=True):
                scores = tensor.insert(_dot(query, found), scores, [value_of(add(key, start))])
            return [scores]

        return loop(0, self.whole.keys, 1, [scores], step)[0]

    def _softmax(self, row: tuple[int, int], start: int, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Replaces the scores of a row by their exponentials; returns them, and the reciprocal of their sum."""
        op, f32 = self.whole.op, ir.F32Type.get()
        least = float(np.finfo(np.float32).min) if op.zero_empty else -math.inf

        def mask(key: Index, carried: list[ir.Value]) -> list[ir.Value]:
            scores, greatest = carried
            place = add(key, start)
            found = self._masked(limited(_at(scores, place), op.cap), row, key)
            if not isinstance(self.whole.keys, int) or self.whole.keys % LANES:
                inside = vector.create_mask(vector_type(LANES, _bit()), [value_of(subtract(self.whole.keys, key))])
                found = arith.select(inside, found, broadcast(number(-math.inf, f32), LANES))
            # A NaN may get lost here; the exponential of the scores restores it.
            is_greater = arith.cmpf(arith.CmpFPredicate.OGT, found, greatest)
            return [_put(found, scores, place), arith.select(is_greater, found, greatest)]

        first = [scores, broadcast(number(least, f32), LANES)]
        scores, lanes = loop(0, self.whole.keys, LANES, first, mask)
        greatest = broadcast(vector.reduction(f32, vector.CombiningKind.MAXNUMF, lanes), LANES)

        def power(key: Index, carried: list[ir.Value]) -> list[ir.Value]:
            scores, total = carried
            place = add(key, start)
            made = scalars.exp_of_normal(arith.subf(_at(scores, place), greatest))
            return [_put(made, scores, place), arith.addf(total, made)]

        scores, total = loop(0, self.whole.keys, LANES, [scores, broadcast(number(0, f32), LANES)], power)
        return scores, self._inverse(vector.reduction(f32, vector.CombiningKind.ADD, total))

    def _inverse(self, total: ir.Value) -> ir.Value:
        quotient = arith.divf(number(1, total.type), total)
        if not self.whole.op.zero_empty:
            return quotient
        nothing = number(0, total.type)
        return arith.select(arith.cmpf(arith.CmpFPredicate.OEQ, total, nothing), nothing, quotient)

    def _masked(self, scores: ir.Value, row: tuple[int, int], key: Index) -> ir.Value:
        if self.mask is None:
            return scores
        masked = broadcast(number(self.whole.op.masked, ir.F32Type.get()), LANES)
        if not isinstance(self.mask, TensorView):
            if isinstance(self.mask, np.bool_):
                return scores if self.mask else masked
            return arith.addf(scores, broadcast(number(float(self.mask), ir.F32Type.get()), LANES))
        places = (*self.at, *row, key)
        if self.mask.shape[-1] == 1:
            found = broadcast(tensor.extract(self.mask.base, _places(self.mask, places)), LANES)
        else:
            inside = vector.create_mask(vector_type(LANES, _bit()), [value_of(subtract(self.mask.shape[-1], key))])
            found = _masked_row(self.mask, places, inside)
        if isinstance(element_type_of(self.mask.base), ir.FloatType):
            return arith.addf(scores, found)
        return arith.select(arith.trunci(vector_type(LANES, _bit()), found), scores, masked)

    def _sums(
        self, rows: Sequence[tuple[tuple[int, int], int, ir.Value]], scores: ir.Value, result: ir.Value
    ) -> ir.Value:
        """Writes the sums of all values by their weights, divided by the sums of the weights."""
        runs = _runs(self.value)
        zeros = [broadcast(number(0, ir.F32Type.get()), width) for _ in rows for _, width in runs]

        def step(key: Index, sums: list[ir.Value]) -> list[ir.Value]:
            found = [_read(self.value, (*self.at, key, start), width) for start, width in runs]
            made = []
            for number_, (_, start, _) in enumerate(rows):
                weight = tensor.extract(scores, [value_of(add(key, start))])
                for run, item in enumerate(found):
                    total = sums[number_ * len(runs) + run]
                    made.append(multiply_add(broadcast(weight, _width(item)), item, total))
            return made

        sums = loop(0, self.whole.keys, 1, zeros, step)
        for number_, (row, _, inverse) in enumerate(rows):
            for run, (start, width) in enumerate(runs):
                total = arith.mulf(sums[number_ * len(runs) + run], broadcast(inverse, width))
                where = _places(self.target, (0, 0, *row, start))
                result = write_row(total, result, where, _lanes(width))
        return result


def limited(score: ir.Value, cap: float) -> ir.Value:
    """Returns `cap * tanh(score / cap)`, for a number or a vector; the score if `cap` is 0."""
    if not cap:
        return score
    limit = number(cap, ir.F32Type.get()) if isinstance(score.type, ir.VectorType) else number(cap, score.type)
    if isinstance(score.type, ir.VectorType):
        limit = broadcast(limit, _width(score))
    return arith.mulf(math_ops.tanh(arith.divf(score, limit)), limit)


def _split_heads(view: TensorView, heads: int, shared: int) -> TensorView:
    """Returns [batch, heads, ..] as [batch, key heads, heads that share one, ..]."""
    first, second, *rest = view.axes
    if shared == 1:
        return TensorView(view.base, (first, second, None, *rest))
    return TensorView(view.base, (first, None, second, *rest)) if heads == 1 else view.split(1, (heads, shared))


def _with_rows(view: TensorView) -> TensorView:
    """Returns the view, or a copy in which elements along the last dimension are contiguous."""
    shape = view.shape
    if shape[-1] == 1 or view.axes[-1] == len(shape_of(view.base)) - 1:
        return view
    loops = {axis: dims(len(shape))[dim] for dim, axis in enumerate(view.axes)}
    exprs = [loops.get(axis, ir.AffineExpr.get_constant(0)) for axis in range(len(shape_of(view.base)))]
    return TensorView.whole(copy(view.base, empty(shape, element_type_of(view.base)), exprs))


def _places(view: TensorView, places: Sequence[Index]) -> list[ir.Value]:
    """Returns indices of the base; a dimension of one element is always read at 0."""
    found: list[Index] = [0] * len(shape_of(view.base))
    for axis, size, place in zip(view.axes, view.shape, places, strict=True):
        if axis is not None and size != 1:
            found[axis] = place
    return list(map(value_of, found))


def _runs(view: TensorView) -> list[tuple[int, int]]:
    """Returns the start and the width of the vectors of a row."""
    return [
        (start + width * place, width)
        for start, width, count in pieces(view.shape[-1], LANES)
        for place in range(count)
    ]


def _lanes(width: int) -> Point:
    return Point((), 0, width, width)


def _bit() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def _read(view: TensorView, places: Sequence[Index], width: int) -> ir.Value:
    return read_row(view.base, _places(view, places), _lanes(width))


def _masked_row(view: TensorView, places: Sequence[Index], inside: ir.Value) -> ir.Value:
    """Reads a vector of which only some elements are inside of the tensor."""
    element = element_type_of(view.base)
    where = _places(view, places)
    last = ir.AffineMapAttr.get(ir.AffineMap.get(len(where), 0, [ir.AffineDimExpr.get(len(where) - 1)]))
    bounds = ir.ArrayAttr.get([ir.BoolAttr.get(True)])
    kind, otherwise = vector_type(LANES, element), zero(element)
    return vector.TransferReadOp(kind, view.base, where, last, otherwise, bounds, mask=inside).result


def _at(scores: ir.Value, place: Index) -> ir.Value:
    return read_row(scores, [place], _lanes(LANES))


def _put(value: ir.Value, scores: ir.Value, place: Index) -> ir.Value:
    return write_row(value, scores, [value_of(place)], _lanes(LANES))


def _dot(query: Sequence[ir.Value], key: Sequence[ir.Value]) -> ir.Value:
    """Returns the sum of products; vectors of one width are added before their lanes."""
    sums: dict[int, ir.Value] = {}
    for left, right in zip(query, key, strict=True):
        width = _width(left)
        sums[width] = multiply_add(left, right, sums[width]) if width in sums else arith.mulf(left, right)
    total = None
    for item in sums.values():
        made = vector.reduction(ir.F32Type.get(), vector.CombiningKind.ADD, item)
        total = made if total is None else arith.addf(total, made)
    assert total is not None
    return total


def _width(value: ir.Value) -> int:
    return ir.VectorType(value.type).shape[0]
