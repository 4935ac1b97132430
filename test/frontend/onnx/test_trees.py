"""Ensembles of decision trees in all their encodings, compared with ONNX Runtime and ONNX's reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
import stepwell
from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.errors import ModelError, UnsupportedError
from stepwell.frontend.onnx.importer import import_model

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
COLUMNS = 4


def grown(rng: np.random.Generator, trees: int, depth: int, modes: list[str]) -> dict[str, list]:
    """Random trees as the older operators list them, and their leaves."""
    lists: dict[str, list] = {
        f"nodes_{name}": [] for name in ("treeids", "nodeids", "modes", "featureids", "truenodeids", "falsenodeids")
    }
    lists |= {"nodes_values": [], "nodes_missing_value_tracks_true": [], "leaves": []}

    def grow(tree: int, numbers: list[int], level: int) -> int:
        number = numbers.pop()
        place = len(lists["nodes_modes"])
        is_leaf = level == 0 or rng.random() < 0.2
        row = [tree, number, "LEAF" if is_leaf else str(rng.choice(modes)), int(rng.integers(COLUMNS)), 0, 0]
        for items, item in zip(list(lists.values())[:6], row, strict=True):
            items.append(item)
        lists["nodes_values"].append(float(rng.integers(-2, 3)))
        lists["nodes_missing_value_tracks_true"].append(int(rng.integers(2)))
        if is_leaf:
            lists["leaves"].append((tree, number))
        else:
            lists["nodes_truenodeids"][place] = grow(tree, numbers, level - 1)
            lists["nodes_falsenodeids"][place] = grow(tree, numbers, level - 1)
        return number

    for tree in range(trees):
        grow(tree, list(range(2 ** (depth + 1)))[::-1], depth)
    return lists


def model_of(op_type: str, outputs: list[tuple[str, int]], version: int, kind: int = 1, **attributes: Any) -> Any:
    node = helper.make_node(op_type, ["x"], [name for name, _ in outputs], "trees", domain=ML, **attributes)
    graph = helper.make_graph(
        [node],
        "forest",
        [helper.make_tensor_value_info("x", kind, ["rows", COLUMNS])],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(ML, version)], ir_version=9)


def rows(rng: np.random.Generator, count: int, dtype: type = np.float32) -> np.ndarray:
    """Numbers that are often equal to the nodes' thresholds, and sometimes NaN."""
    x = rng.integers(-3, 4, (count, COLUMNS)).astype(dtype)
    if np.issubdtype(dtype, np.floating):
        x[rng.random(x.shape) < 0.1] = np.nan
    return x


def check(model: onnx.ModelProto, x: np.ndarray) -> None:
    want = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    imported = import_model(model, ir.Context(), {"x": x.shape})
    for got, wanted in zip(evaluate(imported.module, "main", [x], imported.parameters), want, strict=True):
        assert got.dtype == wanted.dtype
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1, 3]), st.sampled_from(["SUM", "AVERAGE", "MIN", "MAX"]))
def test_regressors(seed: int, targets: int, how: str) -> None:
    rng = np.random.default_rng(seed)
    modes = MODES if seed % 2 else MODES[:1]
    trees = grown(rng, int(rng.integers(1, 6)), int(rng.integers(0, 4)), modes)
    leaves = trees.pop("leaves")
    # If no tree has a leaf for a target, ONNX Runtime leaves out the base value as well; ONNX does not.
    said = [(*leaf, target) for leaf in leaves for target in range(targets)]
    model = model_of(
        "TreeEnsembleRegressor",
        [("y", 1)],
        1,
        **trees,
        target_treeids=[tree for tree, _, _ in said],
        target_nodeids=[number for _, number, _ in said],
        target_ids=[target for _, _, target in said],
        target_weights=rng.standard_normal(len(said)).tolist(),
        n_targets=targets,
        aggregate_function=how,
        **({"base_values": rng.standard_normal(targets).tolist()} if how == "SUM" else {}),
    )
    check(model, rows(rng, 7))


@settings(max_examples=settings.default.max_examples // 10, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([2, 3]), st.sampled_from(["NONE", "LOGISTIC", "SOFTMAX"]), st.booleans())
def test_classifiers(seed: int, classes: int, transform: str, is_share: bool) -> None:
    rng = np.random.default_rng(seed)
    trees = grown(rng, int(rng.integers(2, 6)), int(rng.integers(1, 4)), MODES[:4])
    leaves = trees.pop("leaves")
    transform = "NONE" if classes == 2 and transform == "SOFTMAX" else transform
    # As above: a class without a leaf is not a candidate for ONNX Runtime, and has score 0 in ONNX.
    said = [(*leaf, label) for leaf in leaves for label in (range(classes) if classes > 2 else [0])]
    weights = rng.random(len(said)) / 4 + 0.01 if is_share else rng.standard_normal(len(said))
    model = model_of(
        "TreeEnsembleClassifier",
        [("label", 7), ("scores", 1)],
        1,
        **trees,
        class_treeids=[tree for tree, _, _ in said],
        class_nodeids=[number for _, number, _ in said],
        class_ids=[label for _, _, label in said],
        class_weights=weights.tolist(),
        classlabels_int64s=[10 * label for label in range(classes)],
        post_transform=transform,
    )
    check(model, rows(rng, 7))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 33])
def test_trees_of_numbered_leaves_run_natively(dtype: type, count: int) -> None:
    rng = np.random.default_rng(count)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    model = model_of(
        "TreeEnsemble",
        [("y", kind)],
        5,
        kind,
        n_targets=2,
        aggregate_function=1,
        nodes_featureids=[0, 1, 2],
        nodes_modes=numpy_helper.from_array(np.array([0, 1, 3], np.uint8)),
        nodes_splits=numpy_helper.from_array(np.array([1, 0, -1], dtype)),
        nodes_truenodeids=[1, 0, 2],
        nodes_falsenodeids=[2, 1, 3],
        nodes_trueleafs=[0, 1, 1],
        nodes_falseleafs=[0, 1, 1],
        nodes_missing_value_tracks_true=[0, 1, 0],
        tree_roots=[0, 2],
        leaf_targetids=[0, 1, 0, 1],
        leaf_weights=numpy_helper.from_array(np.array([1, 2, 4, 8], dtype)),
    )
    x = rows(rng, count, dtype)
    want = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    run = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))
    np.testing.assert_array_equal(run(x), want)
    assert run.fallbacks == ()


def test_negative_trees() -> None:
    base = {
        "nodes_treeids": [0, 0, 0],
        "nodes_nodeids": [0, 1, 2],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        "target_treeids": [0, 0],
        "target_nodeids": [1, 2],
        "target_ids": [0, 0],
        "target_weights": [1.0, 2.0],
    }
    for change, kind, message in (
        ({"nodes_truenodeids": [0, 0, 0]}, ModelError, "form a cycle"),
        ({"nodes_truenodeids": [7, 0, 0]}, ModelError, "names a node that does not exist: 7"),
        ({"nodes_modes": ["ODD", "LEAF", "LEAF"]}, ModelError, "'ODD', which does not exist"),
        ({"nodes_featureids": [COLUMNS, 0, 0]}, ModelError, f"compares column {COLUMNS}"),
        ({"target_nodeids": [1, 9]}, ModelError, "node 9 of tree 0"),
        ({"aggregate_function": "MEDIAN"}, ModelError, "has the unknown aggregate function 'MEDIAN'"),
        ({"post_transform": "PROBIT"}, UnsupportedError, "PROBIT"),
    ):
        model = model_of("TreeEnsembleRegressor", [("y", 1)], 1, **{**base, "n_targets": 1, **change})
        with pytest.raises(kind, match=message):
            import_model(model, ir.Context(), {"x": (2, COLUMNS)})


@pytest.mark.parametrize("name", ["nodes_modes", "nodes_splits", "leaf_weights"])
def test_negative_lists_of_numbered_leaves(name: str) -> None:
    """Each list is a one-dimensional tensor; a number in its place is refused with a message."""
    tensors = {
        "nodes_modes": np.array([0], np.uint8),
        "nodes_splits": np.array([1], np.float32),
        "leaf_weights": np.array([1, 2], np.float32),
    }
    tensors[name] = tensors[name][0]
    places = {name: [0] for name in ("nodes_featureids", "nodes_truenodeids", "tree_roots")}
    places |= {name: [1] for name in ("nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs")}
    held = {key: numpy_helper.from_array(np.asarray(array)) for key, array in tensors.items()}
    model = model_of("TreeEnsemble", [("y", 1)], 5, 1, n_targets=1, leaf_targetids=[0, 0], **places, **held)
    with pytest.raises(ModelError, match=f"'{name}' must have one dimension, but has 0"):
        import_model(model, ir.Context(), {"x": (2, COLUMNS)})
