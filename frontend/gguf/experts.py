"""Mixtures of experts: each token goes to a few of many perceptrons, and only the weights of those are read.

Tokens are sorted by expert and cut into tiles of tokens of one expert. A loop over the tiles takes the weights of the
expert of each tile as rows of the stacked weights, which copies nothing:

    chosen, shares = top_k(softmax(router @ token))
    for tile in tiles:
        results[tile] = perceptron(tokens[tile], weights[expert[tile]])
    result[token] = sum over its experts of share * results[index of token and expert]

(Shazeer et al. 2017; grouped products as in MegaBlocks, Gale et al. 2022.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir

from ...dialects.dims import Dim
from ...dialects.stepwell import elementwise as ew
from ...dialects.stepwell.movement import ExpandDimsOp, ReshapeOp, RowOp, ScatterOp
from ...dialects.stepwell.normalization import SoftmaxOp
from ...dialects.stepwell.shape import FillOp
from ...dialects.stepwell.sorting import TopKOp
from ...passes.graph.values import dimension
from ...sizes import algebra
from ..build import cast, emit, gathered, integers, known_dim, numbered, running, scalar, summed
from ..loops import Stack, counted, tile_size

Perceptron = Callable[[ir.Value, ir.Value], ir.Value]
"""`perceptron(rows, expert)` computes rows [count, hidden] with the weights of an expert, a scalar i64."""


def routed(rows: ir.Value, scores: ir.Value, used: int, has_shares_of_one: bool, perceptron: Perceptron) -> ir.Value:
    """Returns the results of the chosen experts, added up.

    Args:
        rows: the tokens [tokens, hidden].
        scores: the scores of the experts for each token [tokens, experts].
        used: number of experts per token.
        has_shares_of_one: whether the shares of the chosen experts are divided by their sum.
        perceptron: an expert.
    """
    count = known_dim(rows, 0, "the number of tokens")
    experts = known_dim(scores, 1, "the number of experts")
    probabilities = emit(SoftmaxOp, scores, axis=-1)
    chosen = emit(TopKOp, probabilities, k=used)
    # [tokens, used, experts]
    is_chosen = emit(ew.EqualOp, emit(ExpandDimsOp, chosen, axes=(2,)), numbered(experts))
    candidates = emit(ExpandDimsOp, probabilities, axes=(1,))
    shares = summed(emit(ew.MulOp, candidates, cast(is_chosen, np.float32)), 2)
    if has_shares_of_one:
        shares = emit(ew.DivOp, shares, emit(ExpandDimsOp, summed(shares, 1), axes=(1,)))
    results = _each(rows, chosen, used, perceptron) if count == 1 else _tiled(rows, is_chosen, used, perceptron)
    return summed(emit(ew.MulOp, results, emit(ExpandDimsOp, shares, axes=(2,))), 1)


def _each(rows: ir.Value, chosen: ir.Value, used: int, perceptron: Perceptron) -> ir.Value:
    """Returns the results for the experts of a single token, [1, used, hidden]."""
    line = emit(ReshapeOp, chosen, shape=(used,))

    def body(number: ir.Value, _: object) -> tuple[list[ir.Value], list[Stack]]:
        made = perceptron(rows, _row(line, number))
        return [], [Stack([(number, made)])]

    _, (results,) = counted(integers(used), [], body)
    return emit(ReshapeOp, results, shape=(1, used, known_dim(rows, 1, "the size of a token")))


def _tiled(rows: ir.Value, is_chosen: ir.Value, used: int, perceptron: Perceptron) -> ir.Value:
    """Returns the results for the experts of several tokens, [tokens, used, hidden]."""
    count, _, experts = (known_dim(is_chosen, axis, "the number of tokens") for axis in range(3))
    hidden = known_dim(rows, 1, "the size of a token")
    slots, size = count * used, tile_size(count * used, experts)
    most: Dim = algebra.floor_div(slots, size) + experts  # one tile per expert may be full in part
    # [slots, experts]: true for the expert of each slot, which is a pair of a token and one of its experts.
    needed = cast(emit(ReshapeOp, is_chosen, shape=(slots, experts)), np.int64)
    before = summed(emit(ew.MulOp, running(needed, 0, exclusive=True), needed), 1)
    tiles = emit(ew.DivOp, emit(ew.AddOp, summed(needed, 0), scalar(size - 1, needed)), scalar(size, needed))
    ends = running(tiles, 0)
    first = summed(emit(ew.MulOp, needed, emit(ew.SubOp, ends, tiles)), 1)
    places = emit(ew.AddOp, emit(ew.MulOp, first, scalar(size, first)), before)
    tokens = emit(ew.DivOp, numbered(slots), integers(used))
    table = emit(FillOp, emit(ExpandDimsOp, dimension(most * size), axes=(0,)), value=np.zeros((), np.int64))
    table = emit(ReshapeOp, emit(ScatterOp, table, places, tokens, axis=0), shape=(most, size))

    def body(number: ir.Value, _: object) -> tuple[list[ir.Value], list[Stack]]:
        expert = summed(cast(emit(ew.LessEqualOp, ends, number), np.int64), 0)
        made = perceptron(gathered(rows, _row(table, number), 0), expert)
        return [], [Stack([(number, made)], length=dimension(most))]

    _, (results,) = counted(summed(tiles, 0), [], body)
    flat = emit(ReshapeOp, results, shape=(most * size, hidden))
    return emit(ReshapeOp, gathered(flat, places, 0), shape=(count, used, hidden))


def _row(value: ir.Value, index: ir.Value) -> ir.Value:
    return emit(RowOp, value, index)
