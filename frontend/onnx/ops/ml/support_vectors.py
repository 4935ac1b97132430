"""Support vector machines (ai.onnx.ml): rows are compared with all support vectors in one matrix product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceSumOp
from .....support.wording import quantity
from ....build import cast, chained, dims_of, emit, gathered, integers, joined, rank, reshaped, scalar
from ....errors import AttributeFault, NodeError, UnsupportedError
from ....loops import counted
from ...nodes.node import Node
from ...nodes.registry import imports
from .linear import transformed

ML = "ai.onnx.ml"
_F32 = np.dtype(np.float32)
_LEAST_SHARE = 1e-7
"""Least probability of a class in a pair, as in LIBSVM and in ONNX Runtime (svmclassifier.cc)."""
Value = ir.Value


@imports("SVMRegressor", domain=ML)
def svm_regressor(node: Node, input: Value) -> Value:
    """SVMRegressor, including the one-class machine, which returns 1 or -1."""
    count = node.attribute("n_supports", 0)
    coefficients, rho = _floats(node, "coefficients"), _floats(node, "rho")
    node.ignore("post_transform")  # as ONNX Runtime does
    x = _rows(input)
    if count:
        kernels = _kernels(node, x, _floats(node, "support_vectors").reshape(count, -1))
        scores = emit(MatmulOp, kernels, _weight(node, "coefficients", coefficients.reshape(count, 1)))
    else:
        node.ignore("kernel_type", "kernel_params")
        scores = emit(MatmulOp, x, _weight(node, "coefficients", coefficients.reshape(-1, 1)))
    scores = emit(ew.AddOp, scores, scalar(rho[0], scores))
    if not node.attribute("one_class", 0):
        return scores
    is_inside = emit(ew.GreaterOp, scores, scalar(0, scores))
    return emit(ew.SelectOp, is_inside, scalar(1, scores), scalar(-1, scores))


@imports("SVMClassifier", domain=ML)
def svm_classifier(node: Node, input: Value) -> tuple[Value, Value]:
    """SVMClassifier with numeric classes: each pair of classes has a score, which is a vote for one of the two.

    If scores can be converted to probabilities, those of the pairs are combined by libsvm's iteration.
    """
    labels = node.attribute("classlabels_ints", ())
    if not labels:
        raise UnsupportedError("has classes that are strings")
    known = node.importer.weight(f"{node.name}.labels", np.array(labels, np.int64))
    transform, counts = node.attribute("post_transform", "NONE"), node.attribute("vectors_per_class", ())
    coefficients, rho = _floats(node, "coefficients"), _floats(node, "rho")
    x = _rows(input)
    if not sum(counts):
        if len(labels) < 2 or (len(rho) == 1 and len(labels) == 2):
            raise UnsupportedError("separates two classes without support vectors, which is not supported")
        node.ignore("kernel_type", "kernel_params")
        planes = _weight(node, "coefficients", coefficients.reshape(len(labels), -1).T)
        scores = emit(MatmulOp, x, planes)
        scores = emit(ew.AddOp, scores, scalar(rho[0], scores))
        return gathered(known, emit(ArgmaxOp, scores, axis=1, keepdims=False), 0), transformed(transform, scores)
    if len(labels) != len(counts):
        raise NodeError(f"has {quantity(len(labels), 'class')}, but support vectors of {len(counts)}")
    kernels = _kernels(node, x, _floats(node, "support_vectors").reshape(sum(counts), -1))
    scores = emit(MatmulOp, kernels, _weight(node, "coefficients", _by_pair(coefficients, counts)))
    scores = emit(ew.AddOp, scores, _weight(node, "rho", rho))
    votes = emit(MatmulOp, *_votes(node, scores, len(counts)))
    label = gathered(known, emit(ArgmaxOp, votes, axis=1, keepdims=False), 0)
    a, b = _floats(node, "prob_a"), _floats(node, "prob_b")
    if a.size:
        falling = emit(ew.AddOp, emit(ew.MulOp, scores, _weight(node, "prob_a", a)), _weight(node, "prob_b", b))
        share = emit(ew.SubOp, scalar(1, scores), emit(ew.SigmoidOp, falling))
        share = emit(ew.ClipOp, share, minimum=_LEAST_SHARE, maximum=1 - _LEAST_SHARE)
        return label, transformed(transform, _coupled(node, share, len(counts)))
    if len(rho) == 1 and len(counts) == 2:
        return label, _of_two(transform, scores)
    return label, transformed(transform, scores)


def _of_two(transform: str, score: Value) -> Value:
    """Expands one score for two classes: the first class gets its negative."""
    if transform not in ("NONE", "LOGISTIC"):
        raise UnsupportedError(f"transforms one score for two classes by {transform}")
    both = joined([emit(ew.NegOp, score), score], 1)
    return transformed(transform, both)


def _kernels(node: Node, x: Value, vectors: np.ndarray) -> Value:
    """The kernel of each row with each support vector: [rows, vectors]."""
    kind = node.attribute("kernel_type", "LINEAR")
    gamma, start, degree = node.attribute("kernel_params", ()) or (0.0, 0.0, 0.0)
    product = emit(MatmulOp, x, _weight(node, "vectors", vectors.T))
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        # rounding may make it negative
        norms = emit(ReduceSumOp, emit(ew.MulOp, x, x), axes=(1,), keepdims=True)
        others = _weight(node, "norms", (vectors.astype(np.float64) ** 2).sum(axis=1).astype(np.float32))
        twice = emit(ew.MulOp, product, scalar(2, product))
        square = emit(ew.SubOp, emit(ew.AddOp, norms, others), twice)
        distance = emit(ew.ReluOp, square)
        return emit(ew.ExpOp, emit(ew.MulOp, distance, scalar(-gamma, distance)))
    moved = emit(ew.AddOp, emit(ew.MulOp, product, scalar(gamma, product)), scalar(start, product))
    if kind == "SIGMOID":
        return emit(ew.TanhOp, moved)
    if kind == "POLY":
        return emit(ew.PowOp, moved, scalar(degree, moved))
    raise AttributeFault(f"attribute 'kernel_type' is '{kind}', which does not exist")


def _pairs(classes: int) -> list[tuple[int, int]]:
    return [(first, second) for first in range(classes) for second in range(first + 1, classes)]


def _by_pair(coefficients: np.ndarray, counts: Sequence[int]) -> np.ndarray:
    """Coefficients by vector and pair of classes: [vectors, pairs], with zeros for vectors of other classes."""
    starts = np.cumsum((0, *counts))
    given = coefficients.reshape(-1, starts[-1])
    pairs = _pairs(len(counts))
    result = np.zeros((starts[-1], len(pairs)), np.float32)
    for index, (first, second) in enumerate(pairs):
        result[starts[first] : starts[first + 1], index] = given[second - 1, starts[first] : starts[first + 1]]
        result[starts[second] : starts[second + 1], index] = given[first, starts[second] : starts[second + 1]]
    return result


def _votes(node: Node, scores: Value, classes: int) -> tuple[Value, Value]:
    """The votes of each pair for its first and its second class, and the matrix that assigns them to classes."""
    wins = cast(emit(ew.GreaterOp, scores, scalar(0, scores)), _F32)
    losses = emit(ew.SubOp, scalar(1, wins), wins)
    firsts, seconds = (np.array(side) for side in zip(*_pairs(classes), strict=True))
    table = np.eye(classes, dtype=np.float32)[np.concatenate([firsts, seconds])]
    return joined([wins, losses], 1), _weight(node, "voters", table)


def _coupled(node: Node, shares: Value, classes: int) -> Value:
    """Class probabilities, [rows, classes], from those of pairs: libsvm's `multiclass_probability`.

    Each row stops individually once its error is small, as the result depends on the number of iterations.
    """
    pairs = {pair: index for index, pair in enumerate(_pairs(classes))}
    one = scalar(1, shares)
    columns = {pair: gathered(shares, integers([index]), 1) for pair, index in pairs.items()}
    columns |= {(second, first): emit(ew.SubOp, one, columns[first, second]) for first, second in pairs}

    def entry(row: int, column: int) -> Value:
        if row != column:
            return emit(ew.NegOp, emit(ew.MulOp, columns[column, row], columns[row, column]))
        others = [columns[other, row] for other in range(classes) if other != row]
        return chained(ew.AddOp, [emit(ew.MulOp, other, other) for other in others])

    rows = [joined([entry(row, column) for column in range(classes)], 1) for row in range(classes)]
    diagonal = [gathered(line, integers([index]), 1) for index, line in enumerate(rows)]
    zero = emit(ew.MulOp, rows[0], scalar(0, shares))
    first = emit(ew.AddOp, zero, scalar(1 / classes, shares))

    def total(values: Value) -> Value:
        return emit(ReduceSumOp, values, axes=(1,), keepdims=True)

    def step(_: Value, carried: Sequence[Value]) -> tuple[list[Value], list]:
        (start,) = carried
        grown = joined([total(emit(ew.MulOp, line, start)) for line in rows], 1)
        mean = total(emit(ew.MulOp, start, grown))
        error = emit(ReduceMaxOp, emit(ew.AbsOp, emit(ew.SubOp, grown, mean)), axes=(1,), keepdims=True)
        goes_on = emit(ew.GreaterEqualOp, error, scalar(0.005 / classes, error))
        now = start
        for index, line in enumerate(rows):
            own = gathered(grown, integers([index]), 1)
            change = emit(ew.DivOp, emit(ew.SubOp, mean, own), diagonal[index])
            more = emit(ew.AddOp, one, change)
            twice = emit(ew.AddOp, emit(ew.MulOp, change, diagonal[index]), emit(ew.AddOp, own, own))
            mean = emit(ew.DivOp, emit(ew.AddOp, mean, emit(ew.MulOp, change, twice)), emit(ew.MulOp, more, more))
            grown = emit(ew.DivOp, emit(ew.AddOp, grown, emit(ew.MulOp, change, line)), more)
            unit = _weight(node, f"class{index}", np.eye(classes, dtype=np.float32)[index])
            now = emit(ew.DivOp, emit(ew.AddOp, now, emit(ew.MulOp, change, unit)), more)
        return [emit(ew.SelectOp, goes_on, now, start)], []

    rounds = integers([max(100, classes)])
    (result,), _ = counted(reshaped(rounds, integers([])), [first], step)
    return result


def _rows(input: Value) -> Value:
    if rank(input) == 1:
        return reshaped(cast(input, _F32), joined([integers([1]), dims_of(input, 0, 1)]))
    if rank(input) != 2:
        raise UnsupportedError(f"takes a matrix, but its input has rank {rank(input)}")
    return cast(input, _F32)


def _floats(node: Node, name: str) -> np.ndarray:
    return np.array(node.attribute(name, ()), np.float32)


def _weight(node: Node, name: str, values: np.ndarray) -> Value:
    return node.importer.weight(f"{node.name}.{name}", np.ascontiguousarray(values.astype(np.float32)))
