"""Ensembles of decision trees (ai.onnx.ml).

All rows descend all trees at once, one step at a time: the current nodes are a matrix of indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.normalization import SoftmaxOp
from .....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceMinOp, ReduceSumOp
from ....build import cast, dims_of, dtype, emit, gathered, integers, joined, rank, reshaped, scalar, shape
from ....errors import AttributeFault, NodeError, UnsupportedError
from ....index_arithmetic import extent, merged, numbers
from ...nodes.node import Node
from ...nodes.registry import imports
from .trees import Forest, make_forest

ML = "ai.onnx.ml"
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_NUMBERED_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")


def _listed(node: Node, name: str) -> np.ndarray:
    """A tensor attribute, which must have one dimension."""
    array = np.asarray(node.attribute(name))
    if array.ndim != 1:
        raise NodeError(f"'{name}' must have one dimension, but has {array.ndim}")
    return array


@imports("TreeEnsemble", domain=ML, since=5)
def tree_ensemble(node: Node, input: ir.Value) -> ir.Value:
    """TreeEnsemble: leaves and inner nodes have separate numberings."""
    yes, no, leads_yes, leads_no, roots, features = (
        _ints(node, name)
        for name in (
            "nodes_truenodeids",
            "nodes_falsenodeids",
            "nodes_trueleafs",
            "nodes_falseleafs",
            "tree_roots",
            "nodes_featureids",
        )
    )
    split, chosen, weights = (_listed(node, name) for name in ("nodes_splits", "nodes_modes", "leaf_weights"))
    modes = [_chosen(_NUMBERED_MODES, int(mode), "nodes_modes") for mode in chosen]
    missing = _flags(node, "nodes_missing_value_tracks_true", len(modes))
    targets = _ints(node, "leaf_targetids")
    count, leaves = len(modes), len(weights)
    values = _leaf_values(count + leaves, node.attribute("n_targets", 1), weights.dtype)
    values[count + np.arange(leaves), targets] = weights

    def padded(items: np.ndarray) -> np.ndarray:
        return np.concatenate([items, np.zeros(leaves, items.dtype)])

    forest = make_forest(
        [*modes, *["LEAF"] * leaves],
        padded(features),
        padded(split),
        padded(yes + count * (leads_yes != 0)),
        padded(no + count * (leads_no != 0)),
        padded(missing),
        roots,
        values,
    )
    result = _aggregated(
        node, _chosen(_AGGREGATES, node.attribute("aggregate_function", 1), "aggregate_function"), forest, input
    )
    return _transformed(
        _chosen(_TRANSFORMS, node.attribute("post_transform", 0), "post_transform"), cast(result, dtype(input))
    )


@imports("TreeEnsembleRegressor", domain=ML)
def tree_ensemble_regressor(node: Node, input: ir.Value) -> ir.Value:
    """TreeEnsembleRegressor."""
    forest = _listed_forest(node, "target", node.attribute("n_targets", 1), input)
    result = _aggregated(node, node.attribute("aggregate_function", "SUM"), forest, _floats(input))
    base = _floats_of(node, "base_values")
    if base is not None:
        result = emit(ew.AddOp, result, node.importer.weight(f"{node.name}.base", base.astype(dtype(result))))
    return cast(_transformed(node.attribute("post_transform", "NONE"), result), np.float32)


@imports("TreeEnsembleClassifier", domain=ML)
def tree_ensemble_classifier(node: Node, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """TreeEnsembleClassifier with numeric classes.

    If only one of two classes has weights, one score separates them: it is compared with 0.5 if all weights are
    non-negative, as for probabilities, and with 0 otherwise.
    """
    labels = node.attribute("classlabels_int64s", ())
    if not labels:
        raise UnsupportedError("has classes that are strings")
    ids = _ints(node, "class_ids")
    forest = _listed_forest(node, "class", len(labels), input)
    scores = _aggregated(node, "SUM", forest, _floats(input))
    base, transform = _floats_of(node, "base_values"), node.attribute("post_transform", "NONE")
    if len(labels) == 2 and len(set(ids.tolist())) == 1:
        if base is not None:
            raise UnsupportedError("has one score for two classes, and base values")
        score = gathered(scores, integers([ids[0]]), 1)
        is_share = bool((np.nan_to_num(forest.values) >= 0).all())
        is_second = emit(ew.GreaterOp, score, scalar(0.5 if is_share else 0, score))
        label = gathered(_labels(node, labels), reshaped(cast(is_second, np.int64), dims_of(input, 0, 1)), 0)
        if transform not in ("NONE", "LOGISTIC"):
            raise UnsupportedError(f"transforms one score for two classes by {transform}")
        is_rest = is_share and transform == "NONE"
        first = emit(ew.SubOp, scalar(1, score), score) if is_rest else emit(ew.NegOp, score)
        both = _transformed(transform, joined([first, score], 1))
        return label, cast(both, np.float32)
    if base is not None:
        scores = emit(ew.AddOp, scores, node.importer.weight(f"{node.name}.base", base.astype(dtype(scores))))
    label = gathered(_labels(node, labels), emit(ArgmaxOp, scores, axis=1, keepdims=False), 0)
    return label, cast(_transformed(transform, scores), np.float32)


def _listed_forest(node: Node, kind: str, count: int, input: ir.Value) -> Forest:
    """The trees of the older operators: nodes are identified by tree and number, and leaves are among them."""
    node.ignore("nodes_hitrates", "nodes_hitrates_as_tensor")
    trees, ids = _ints(node, "nodes_treeids"), _ints(node, "nodes_nodeids")
    place = _Places(trees, ids)
    modes = list(node.attribute("nodes_modes", ()))

    def placed(names: np.ndarray, what: str) -> np.ndarray:
        found = place.of(trees, names)
        wrong = next((int(index) for index in np.flatnonzero(found < 0) if modes[index] != "LEAF"), None)
        if wrong is not None:
            raise AttributeFault(f"attribute '{what}' names a node that does not exist: {names[wrong]}")
        return np.maximum(found, 0)

    real = dtype(_floats(input))
    values = _leaf_values(len(modes), count, real)
    weights = _floats_of(node, f"{kind}_weights")
    if weights is None:
        raise AttributeFault(f"attribute '{kind}_weights' is missing")
    named, numbered, targets = (_ints(node, f"{kind}_{what}") for what in ("treeids", "nodeids", "ids"))
    if not len(named) == len(numbered) == len(targets) == len(weights):
        raise NodeError("has lists of weights of different lengths")
    at = place.of(named, numbered)
    for index in np.flatnonzero((at < 0) | (targets < 0) | (targets >= count)).tolist():
        tree, number, target = named[index], numbered[index], targets[index]
        raise NodeError(f"has a weight for node {number} of tree {tree} and target {target}, which does not exist")
    values[at, targets] = 0
    np.add.at(values, (at, targets), weights.astype(real))
    split = _floats_of(node, "nodes_values")
    return make_forest(
        modes,
        _ints(node, "nodes_featureids"),
        np.zeros(len(modes), real) if split is None else split.astype(real),
        placed(_ints(node, "nodes_truenodeids"), "nodes_truenodeids"),
        placed(_ints(node, "nodes_falsenodeids"), "nodes_falsenodeids"),
        _flags(node, "nodes_missing_value_tracks_true", len(modes)),
        np.sort(np.unique(trees, return_index=True)[1]),
        values,
    )


class _Places:
    """Maps each node of each tree to its index in the lists."""

    def __init__(self, trees: np.ndarray, ids: np.ndarray) -> None:
        if len(trees) != len(ids):
            raise NodeError("has lists of nodes of different lengths")
        self._span = int(ids.max(initial=0)) + 1
        names = trees * self._span + ids
        self._order = np.argsort(names, kind="stable")
        self._sorted = names[self._order]

    def of(self, trees: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """The indices of nodes; -1 for a node that does not exist."""
        if len(trees) != len(ids):
            raise NodeError("has lists of nodes of different lengths")
        names = trees * self._span + ids
        if not len(self._sorted):
            return np.full(len(names), -1)
        at = np.searchsorted(self._sorted, names, side="right") - 1
        is_there = (at >= 0) & (self._sorted[at] == names) & (ids >= 0) & (ids < self._span)
        return np.where(is_there, self._order[at], -1)


def _leaf_values(nodes: int, targets: int, kind: np.dtype) -> np.ndarray:
    return np.full((nodes, targets), np.nan, kind)


def _aggregated(node: Node, how: str, forest: Forest, input: ir.Value) -> ir.Value:
    """By row and target, the sum (or mean, or extreme) of the values of the trees' leaves."""
    leaves, values = _leaves(node, forest, input), forest.values
    absent = np.isnan(values)
    weight = node.importer.weight
    if how in ("MIN", "MAX"):
        limits = np.finfo(values.dtype)
        filled = np.where(absent, limits.max if how == "MIN" else limits.min, values).astype(values.dtype)
        contributions = gathered(weight(f"{node.name}.leaves", filled), leaves, 0)
        return emit(ReduceMinOp if how == "MIN" else ReduceMaxOp, contributions, axes=(1,), keepdims=False)
    if how not in ("SUM", "AVERAGE"):
        raise NodeError(f"has the unknown aggregate function '{how}'")
    filled = np.where(absent, 0, values).astype(values.dtype)
    is_one = filled.shape[1] == 1
    contributions = gathered(weight(f"{node.name}.leaves", filled[:, 0] if is_one else filled), leaves, 0)
    total = emit(ReduceSumOp, contributions, axes=(1,), keepdims=is_one)
    return total if how == "SUM" else emit(ew.DivOp, total, scalar(len(forest.roots), total))


def _leaves(node: Node, forest: Forest, input: ir.Value) -> ir.Value:
    """The leaf that each row reaches in each tree: [rows, columns] --> [rows, trees]."""
    if rank(input) != 2:
        raise UnsupportedError(f"takes a matrix, but its input has rank {rank(input)}")
    columns = shape(input)[1]
    if isinstance(columns, int) and forest.feature.max(initial=0) >= columns:
        raise NodeError(f"compares column {forest.feature.max()}, but its input has {columns}")
    weight, name = node.importer.weight, node.name
    row = emit(ew.MulOp, numbers(input, 0), extent(input, 1))
    elements = merged(input, 2)
    features, splits = weight(f"{name}.features", forest.feature), weight(f"{name}.splits", forest.split)
    children = weight(f"{name}.children", forest.children.reshape(-1))
    at = weight(f"{name}.roots", forest.roots[None])
    if not forest.depth:
        return emit(ew.AddOp, emit(ew.MulOp, row, scalar(0, row)), at)
    for _ in range(forest.depth):
        value = gathered(elements, emit(ew.AddOp, row, gathered(features, at, 0)), 0)
        split = gathered(splits, at, 0)
        holds = emit(ew.LessEqualOp, value, split)
        if forest.equal.any():
            equal = gathered(weight(f"{name}.equal", forest.equal), at, 0)
            holds = emit(ew.SelectOp, equal, emit(ew.EqualOp, value, split), holds)
        branch = cast(holds, np.int64)
        if (forest.children[:, 0] != forest.children[:, 2]).any():
            is_number = emit(ew.EqualOp, value, value)
            branch = emit(ew.SelectOp, is_number, branch, scalar(2, branch))
        at = gathered(children, emit(ew.AddOp, emit(ew.MulOp, at, scalar(3, at)), branch), 0)
    return at


def _transformed(how: str, scores: ir.Value) -> ir.Value:
    if how == "NONE":
        return scores
    if how == "LOGISTIC":
        return emit(ew.SigmoidOp, scores)
    if how == "SOFTMAX":
        return emit(SoftmaxOp, scores, axis=1)
    raise UnsupportedError(f"transforms scores by {how}")


def _ints(node: Node, name: str) -> np.ndarray:
    return np.array(node.attribute(name, ()), dtype=np.int64)


def _flags(node: Node, name: str, count: int) -> np.ndarray:
    given = _ints(node, name)
    return given != 0 if len(given) else np.zeros(count, np.bool_)


def _floats_of(node: Node, name: str) -> np.ndarray | None:
    """A list of numbers, given as such (in float32) or as a tensor; None if it is absent."""
    tensor = node.attribute(f"{name}_as_tensor")
    if tensor is not None:
        return np.asarray(tensor)
    given = node.attribute(name, ())
    return np.array(given, np.float32) if len(given) else None


def _floats(input: ir.Value) -> ir.Value:
    """Converts integers to float32, in which they are compared."""
    return input if dtype(input).kind not in "iub" else cast(input, np.float32)


def _labels(node: Node, labels: Any) -> ir.Value:
    return node.importer.weight(f"{node.name}.labels", np.array(labels, np.int64))


def _chosen(names: tuple[str, ...], number: int, what: str) -> str:
    if not 0 <= number < len(names):
        raise AttributeFault(f"attribute '{what}' has the value {number}, which is not defined")
    return names[number]
