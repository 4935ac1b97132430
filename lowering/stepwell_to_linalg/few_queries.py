"""Lowering of attention with few queries, as in steps of decoders: rows of keys are read once, in place.

For each head of the keys, all queries that share it are computed together. Vectors run along the depth of the heads,
so that keys and values are read as they are stored, and every loop over keys ends at the number of keys of a call.
Keys and values of bytes become floats in registers; the scale of a key multiplies its score, that of a value its
weight.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor, vector
from mlir.dialects import math as math_ops

from ...dialects.stepwell.attention import AttentionOp
from ...dialects.stepwell.paging import PagedAttentionOp
from ...passes.ir.values import element_type_of, shape_of
from ..builders import scalars
from ..builders.access import broadcast, read_row, vector_type, write_row
from ..builders.generics import multiply_add
from ..builders.indices import Index, add, loop, subtract, value_of
from ..builders.scalars import number
from ..builders.tensors import empty
from .key_loops import KeyLoop, Keys
from .lane_sums import products
from .page_scores import scores_of_pages
from .sequences import in_parallel
from .view_rows import (
    LANES,
    PagedRows,
    clipped,
    lanes_of,
    masked_row,
    places_in,
    read,
    read_one,
    read_part,
    runs_of,
    split_heads,
    with_rows,
)
from .views import TensorView

_BLOCK_VECTORS = 16
"""Number of vectors of queries, or of sums, that a block of rows holds in registers."""


@dataclass(frozen=True)
class FewQueries:
    """An attention to be lowered; the insertion point and location are set.

    Attributes:
        op: the attention.
        query: queries [batch, heads, queries, depth], as a view of an argument.
        key: keys [batch, key heads, keys, depth]; or a pool of them, [1, key heads, rows, depth].
        value: values [batch, key heads, keys, depth of values]; or a pool of them.
        mask: the mask, with four dimensions of which some may have one element; None if there is none.
        keys: number of keys of a call.
        most_keys: its maximum.
        paged: the pages of the keys, if they are in a pool.
    """

    op: AttentionOp | PagedAttentionOp
    query: TensorView
    key: TensorView
    value: TensorView
    mask: TensorView | np.generic | None
    keys: Index
    most_keys: int
    paged: PagedRows | None = None

    def lower(self, target: TensorView) -> ir.Value:
        """Emits the kernel; returns the result in the form of the base of `target`."""
        shared = self.query.shape[1] // self.key.shape[1]
        query, target = (split_heads(view, self.key.shape[1], shared) for view in (self.query, target))
        query, key, value = (with_rows(view) for view in (query, self.key, self.value))
        mask = self.mask
        if isinstance(mask, TensorView):
            own = shared if mask.shape[1] > 1 else 1
            mask = with_rows(split_heads(mask, self.key.shape[1], own))
        steps = list(shape_of(target.base))
        for axis in target.axes[:2]:
            if axis is not None:
                steps[axis] = 1

        def block_of(at: Sequence[ir.Value], block: ir.Value) -> ir.Value:
            batch, head = (0 if axis is None else at[axis] for axis in target.axes[:2])
            first: Index = 0
            if self.paged is not None:
                first = clipped(tensor.extract(self.paged.starts, [value_of(batch)]), self.most_keys)
            keys = Keys(self.paged, self.keys, (batch, head), first)
            return _Head(self, query, key, value, mask, TensorView(block, target.axes), keys).lower()

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
    keys: Keys

    @property
    def at(self) -> tuple[Index, Index]:
        """The indices of the text and of the head."""
        return self.keys.at

    @property
    def _parts(self) -> int:
        """Number of elements in a byte of keys and values."""
        return 1 if self.whole.paged is None else self.whole.paged.parts

    @property
    def _key_runs(self) -> list[tuple[int, int]]:
        return runs_of(self.query.shape[-1], self._parts)

    @property
    def _value_runs(self) -> list[tuple[int, int]]:
        return runs_of(self.target.shape[-1], self._parts)

    def lower(self) -> ir.Value:
        """Emits the kernel of the head; returns the block of the result."""
        rows = [(group, row) for group in range(self.query.shape[2]) for row in range(self.query.shape[3])]
        room = -(-self.whole.most_keys // LANES) * LANES
        scores = empty([len(rows) * room], ir.F32Type.get())
        per_block = max(1, _BLOCK_VECTORS // max(map(len, (self._key_runs, self._value_runs))))
        blocks = [range(start, min(start + per_block, len(rows))) for start in range(0, len(rows), per_block)]
        loops = [self._scores([rows[row] for row in block], [row * room for row in block]) for block in blocks]
        (scores,) = self.keys.each(self.key, [scores], loops)
        inverses = []
        for place, row in enumerate(rows):
            scores, inverse = self._softmax(row, place * room, scores)
            inverses.append(inverse)
        runs = self._value_runs
        loops = [self._sums([row * room for row in block], block.start * len(runs), scores) for block in blocks]
        zeros = [broadcast(number(0, ir.F32Type.get()), width) for _ in rows for _, width in runs]
        sums, result = iter(self.keys.each(self.value, zeros, loops)), self.target.base
        for row, inverse in zip(rows, inverses, strict=True):
            for start, width in runs:
                total = arith.mulf(next(sums), broadcast(inverse, width))
                where = places_in(self.target, (0, 0, *row, start))
                result = write_row(total, result, where, lanes_of(width))
        return result

    def _scores(self, rows: Sequence[tuple[int, int]], starts: Sequence[int]) -> KeyLoop:
        """Returns the loop that writes the products of queries and all keys to the scores, where rows have `starts`."""
        runs = self._key_runs
        factor = number(self.whole.op.scale, ir.F32Type.get())
        queries = [
            [
                arith.mulf(read(self.query, (*self.at, *row, start), width), broadcast(factor, width))
                for start, width in runs
            ]
            for row in rows
        ]
        paged = self.whole.paged
        block = None if paged is None else scores_of_pages(paged, self.key, self.at, queries, starts)
        if block is not None:
            return KeyLoop(block.step, slice(0, 1), block.keys)

        def step(key: Index, row: Index, carried: list[ir.Value]) -> list[ir.Value]:
            (scores,) = carried
            found = [read_part(self.key, (*self.at, row), *run, self._parts) for run in runs]
            by = self._scale(lambda paged: paged.key_scales, row)
            for query, start in zip(queries, starts, strict=True):
                score = _scaled(_dot(query, found), by)
                scores = tensor.insert(score, scores, [value_of(add(key, start))])
            return [scores]

        return KeyLoop(step, slice(0, 1))

    def _scale(self, pool: Callable[[PagedRows], TensorView | None], row: Index) -> ir.Value | None:
        """Returns the factor of a row of keys or values; None if they are stored as they are."""
        scales = None if self.whole.paged is None else pool(self.whole.paged)
        return None if scales is None else read_one(scales, (*self.at, row, 0))

    def _softmax(self, row: tuple[int, int], start: int, scores: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Replaces the scores of a row by their exponentials; returns them, and the reciprocal of their sum."""
        op, f32 = self.whole.op, ir.F32Type.get()
        least = float(np.finfo(np.float32).min) if op.zero_empty else -math.inf
        count = self.keys.count

        def mask(key: Index, carried: list[ir.Value]) -> list[ir.Value]:
            scores, greatest = carried
            place = add(key, start)
            found = self._masked(limited(_at(scores, place), op.cap), row, key)
            if not isinstance(count, int) or count % LANES:
                inside = vector.create_mask(vector_type(LANES, _bit()), [value_of(subtract(count, key))])
                found = arith.select(inside, found, broadcast(number(-math.inf, f32), LANES))
            # A NaN may get lost here; the exponential of the scores restores it.
            is_greater = arith.cmpf(arith.CmpFPredicate.OGT, found, greatest)
            return [_put(found, scores, place), arith.select(is_greater, found, greatest)]

        first = [scores, broadcast(number(least, f32), LANES)]
        scores, lanes = loop(0, count, LANES, first, mask)
        greatest = broadcast(vector.reduction(f32, vector.CombiningKind.MAXNUMF, lanes), LANES)

        def power(key: Index, carried: list[ir.Value]) -> list[ir.Value]:
            scores, total = carried
            place = add(key, start)
            made = scalars.exp_of_normal(arith.subf(_at(scores, place), greatest))
            return [_put(made, scores, place), arith.addf(total, made)]

        scores, total = loop(0, count, LANES, [scores, broadcast(number(0, f32), LANES)], power)
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
        number_ = -math.inf if isinstance(self.whole.op, PagedAttentionOp) else self.whole.op.masked
        masked = broadcast(number(number_, ir.F32Type.get()), LANES)
        key = add(key, self.keys.first)
        if not isinstance(self.mask, TensorView):
            if isinstance(self.mask, np.bool_):
                return scores if self.mask else masked
            return arith.addf(scores, broadcast(number(float(self.mask), ir.F32Type.get()), LANES))
        places = (*self.at, *row, key)
        if self.mask.shape[-1] == 1:
            found = broadcast(tensor.extract(self.mask.base, places_in(self.mask, places)), LANES)
        else:
            inside = vector.create_mask(vector_type(LANES, _bit()), [value_of(subtract(self.mask.shape[-1], key))])
            found = masked_row(self.mask, places, inside)
        if isinstance(element_type_of(self.mask.base), ir.FloatType):
            return arith.addf(scores, found)
        return arith.select(arith.trunci(vector_type(LANES, _bit()), found), scores, masked)

    def _sums(self, starts: Sequence[int], first: int, scores: ir.Value) -> KeyLoop:
        """Returns the loop that sums up all values by their weights, which have `starts` in the scores.

        The sums are carried, as vectors of each row; the first of them is number `first` of all.
        """
        runs = self._value_runs

        def step(key: Index, row: Index, sums: list[ir.Value]) -> list[ir.Value]:
            found = [read_part(self.value, (*self.at, row), *run, self._parts) for run in runs]
            by, made = self._scale(lambda paged: paged.value_scales, row), []
            for number_, start in enumerate(starts):
                weight = _scaled(tensor.extract(scores, [value_of(add(key, start))]), by)
                for run, item in enumerate(found):
                    total = sums[number_ * len(runs) + run]
                    made.append(multiply_add(broadcast(weight, _width(item)), item, total))
            return made

        return KeyLoop(step, slice(first, first + len(starts) * len(runs)))


def limited(score: ir.Value, cap: float) -> ir.Value:
    """Returns `cap * tanh(score / cap)`, for a number or a vector; the score if `cap` is 0."""
    if not cap:
        return score
    limit = number(cap, ir.F32Type.get()) if isinstance(score.type, ir.VectorType) else number(cap, score.type)
    if isinstance(score.type, ir.VectorType):
        limit = broadcast(limit, _width(score))
    return arith.mulf(math_ops.tanh(arith.divf(score, limit)), limit)


def _bit() -> ir.Type:
    return ir.IntegerType.get_signless(1)


def _at(scores: ir.Value, place: Index) -> ir.Value:
    return read_row(scores, [place], lanes_of(LANES))


def _put(value: ir.Value, scores: ir.Value, place: Index) -> ir.Value:
    return write_row(value, scores, [value_of(place)], lanes_of(LANES))


def _scaled(value: ir.Value, by: ir.Value | None) -> ir.Value:
    return value if by is None else arith.mulf(value, by)


def _dot(query: Sequence[ir.Value], key: Sequence[ir.Value]) -> ir.Value:
    """Returns the sum of products; vectors of one width are added before their lanes."""
    total = None
    for item in products(query, key):
        made = vector.reduction(ir.F32Type.get(), vector.CombiningKind.ADD, item)
        total = made if total is None else arith.addf(total, made)
    assert total is not None
    return total


def _width(value: ir.Value) -> int:
    return ir.VectorType(value.type).shape[0]
