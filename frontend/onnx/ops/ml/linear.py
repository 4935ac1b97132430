"""Classical machine learning on numbers (ai.onnx.ml): linear models, and preprocessing of columns."""

from __future__ import annotations

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import ExpandDimsOp
from .....dialects.stepwell.normalization import SoftmaxOp
from .....dialects.stepwell.reduction import ArgmaxOp, ReduceMaxOp, ReduceSumOp
from .....support.wording import quantity
from ....build import cast, dims_of, dtype, emit, gathered, joined, rank, reshaped, scalar
from ....errors import AttributeFault, NodeError, UnsupportedError
from ....index_arithmetic import merged
from ...nodes.node import Node
from ...nodes.registry import imports

ML = "ai.onnx.ml"
_F32 = np.dtype(np.float32)


@imports("Scaler", domain=ML)
def scaler(node: Node, input: ir.Value) -> ir.Value:
    """Scaler: (x - offset) * scale, per column or for all columns."""
    offset, scale = (_columns(node, name) for name in ("offset", "scale"))
    moved = emit(ew.SubOp, cast(input, _F32), offset)
    return emit(ew.MulOp, moved, scale)


@imports("Binarizer", domain=ML)
def binarizer(node: Node, input: ir.Value) -> ir.Value:
    """Binarizer: 1 above the threshold, else 0."""
    return cast(emit(ew.GreaterOp, input, scalar(node.attribute("threshold", 0.0), input)), dtype(input))


@imports("Normalizer", domain=ML)
def normalizer(node: Node, input: ir.Value) -> ir.Value:
    """Normalizer: divides rows by their norm, unless it is 0."""
    value, norm = cast(input, _F32), node.attribute("norm", "MAX")
    sizes = emit(ew.AbsOp, value)
    axes = (rank(input) - 1,)
    match norm:
        case "MAX":
            total = emit(ReduceMaxOp, value, axes=axes, keepdims=True)
        case "L1":
            total = emit(ReduceSumOp, sizes, axes=axes, keepdims=True)
        case "L2":
            total = emit(ew.SqrtOp, emit(ReduceSumOp, emit(ew.MulOp, value, value), axes=axes, keepdims=True))
        case _:
            raise AttributeFault(f"attribute 'norm' is '{norm}', which does not exist")
    is_none = emit(ew.EqualOp, total, scalar(0, total))
    return emit(ew.DivOp, value, emit(ew.SelectOp, is_none, scalar(1, total), total))


@imports("Imputer", domain=ML)
def imputer(node: Node, input: ir.Value) -> ir.Value:
    """Imputer: replaces missing elements, NaN or a given number, by one value per column or one for all."""
    kind = "floats" if dtype(input).kind not in "iu" else "int64s"
    node.ignore("imputed_value_floats", "imputed_value_int64s", "replaced_value_float", "replaced_value_int64")
    values = np.array(node.attribute(f"imputed_value_{kind}", ()))
    missing = node.attribute(f"replaced_value_{kind.rstrip('s')}", 0)
    if not values.size:
        raise AttributeFault(f"attribute 'imputed_value_{kind}' is missing")
    if isinstance(missing, float) and np.isnan(missing):
        is_there = emit(ew.EqualOp, input, input)
    else:
        is_there = emit(ew.NotOp, emit(ew.EqualOp, input, scalar(missing, input)))
    return emit(ew.SelectOp, is_there, input, node.importer.weight(f"{node.name}.imputed", values.astype(dtype(input))))


@imports("ArrayFeatureExtractor", domain=ML)
def array_feature_extractor(node: Node, input: ir.Value, places: ir.Value) -> ir.Value:
    """ArrayFeatureExtractor: selects columns."""
    flat = places if rank(places) == 1 else merged(places, rank(places))
    if rank(input) == 1:
        return emit(ExpandDimsOp, gathered(input, flat, 0), axes=(0,))
    return gathered(input, flat, rank(input) - 1)


@imports("OneHotEncoder", domain=ML)
def one_hot_encoder(node: Node, input: ir.Value) -> ir.Value:
    """OneHotEncoder for numeric categories; unknown categories give a row of zeros."""
    categories = node.attribute("cats_int64s", ())
    if not categories:
        raise UnsupportedError("has categories that are strings")
    if not node.attribute("zeros", 1):
        raise UnsupportedError("rejects unknown categories (zeros = 0), which is not supported")
    known = node.importer.weight(f"{node.name}.categories", np.array(categories, np.int64))
    each = emit(ExpandDimsOp, cast(input, np.int64), axes=(rank(input),))
    return cast(emit(ew.EqualOp, each, known), _F32)


@imports("LinearRegressor", domain=ML)
def linear_regressor(node: Node, input: ir.Value) -> ir.Value:
    """LinearRegressor."""
    scores = _scores(node, input, node.attribute("targets", 1))
    return transformed(node.attribute("post_transform", "NONE"), scores)


@imports("LinearClassifier", domain=ML)
def linear_classifier(node: Node, input: ir.Value) -> tuple[ir.Value, ir.Value]:
    """LinearClassifier with numeric classes; a single score may separate two classes."""
    node.ignore("multi_class")
    labels = node.attribute("classlabels_ints", ())
    if not labels:
        raise UnsupportedError("has classes that are strings")
    known = node.importer.weight(f"{node.name}.labels", np.array(labels, np.int64))
    transform = node.attribute("post_transform", "NONE")
    intercepts = node.attribute("intercepts", ())
    scores = _scores(node, input, len(intercepts) or len(labels))
    if len(intercepts) != 1 or len(labels) != 2:
        label = gathered(known, emit(ArgmaxOp, scores, axis=1, keepdims=False), 0)
        return label, transformed(transform, scores)
    if transform not in ("NONE", "LOGISTIC"):
        raise UnsupportedError(f"transforms one score for two classes by {transform}")
    second = transformed(transform, scores)
    is_second = emit(ew.GreaterOp, scores, scalar(0, scores))
    label = gathered(known, reshaped(cast(is_second, np.int64), dims_of(input, 0, 1)), 0)
    return label, joined([emit(ew.SubOp, scalar(1, second), second), second], 1)


def _scores(node: Node, input: ir.Value, count: int) -> ir.Value:
    if rank(input) != 2:
        raise UnsupportedError(f"takes a matrix, but its input has rank {rank(input)}")
    coefficients = np.array(node.attribute("coefficients"), np.float32)
    if coefficients.size % count:
        raise NodeError(f"has {coefficients.size} coefficients for {quantity(count, 'score')}")
    weight = node.importer.weight(f"{node.name}.coefficients", np.ascontiguousarray(coefficients.reshape(count, -1).T))
    scores = emit(MatmulOp, cast(input, _F32), weight)
    intercepts = np.array(node.attribute("intercepts", ()), np.float32)
    if not intercepts.size:
        return scores
    return emit(ew.AddOp, scores, node.importer.weight(f"{node.name}.intercepts", intercepts))


def transformed(how: str, scores: ir.Value) -> ir.Value:
    """Applies the function that the attribute `post_transform` names to scores."""
    match how:
        case "NONE":
            return scores
        case "LOGISTIC":
            return emit(ew.SigmoidOp, scores)
        case "SOFTMAX":
            return emit(SoftmaxOp, scores, axis=1)
    raise UnsupportedError(f"transforms scores by {how}")


def _columns(node: Node, name: str) -> ir.Value:
    values = np.array(node.attribute(name, ()), np.float32)
    if not values.size:
        raise AttributeFault(f"attribute '{name}' is missing")
    return node.importer.weight(f"{node.name}.{name}", values)
