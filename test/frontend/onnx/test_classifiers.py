"""Classifiers as exporters of classical machine learning write them: maps of scores, class names, support vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from onnxruntime import InferenceSession

pytestmark = pytest.mark.usefixtures("own_cache")

RNG = np.random.default_rng(3)
ROWS = RNG.standard_normal((7, 3)).astype(np.float32)
FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
QUIET = stepwell.Options(fallback="quiet")
NATIVE = stepwell.Options(fallback="error")
_KINDS = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(object): STRING}


def node(op_type: str, inputs: str, outputs: str, domain: str = "ai.onnx.ml", **attributes: Any):
    """Makes a node from inputs and outputs separated by spaces."""
    return helper.make_node(op_type, inputs.split(), outputs.split(), op_type, domain=domain, **attributes)


def check(nodes, x, outputs, options=QUIET, version=2):
    """Compares a model with ONNX Runtime; `outputs` maps names to element types or to complete types."""
    infos = [
        helper.make_tensor_value_info(name, kind, None) if isinstance(kind, int) else helper.make_value_info(name, kind)
        for name, kind in outputs.items()
    ]
    shape = [f"x{axis}" for axis in range(x.ndim - 1)] + [x.shape[-1]]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", _KINDS[x.dtype], shape)], infos)
    imports = [helper.make_opsetid(*item) for item in (("", 17), ("ai.onnx.ml", version), ("com.microsoft", 1))]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    run = stepwell.compile(model, threads=1, options=options)
    results = run(x)
    expected = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for actual, wanted in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        same(actual, wanted)
    return run


def same(actual, wanted):
    """Checks types and values, in maps too."""
    assert type(actual) is type(wanted)
    if isinstance(wanted, list):
        assert len(actual) == len(wanted)
        for item, other in zip(actual, wanted, strict=True):
            assert list(item) == list(other)
            assert [type(value) for value in item.values()] == [type(value) for value in other.values()]
            np.testing.assert_allclose(list(item.values()), list(other.values()), rtol=1e-5, atol=1e-6)
        return
    assert actual.dtype == wanted.dtype
    assert actual.shape == wanted.shape
    if wanted.dtype == object:
        assert (actual == wanted).all()
    else:
        np.testing.assert_allclose(actual, wanted, rtol=2e-5, atol=1e-5)


LINEAR = {"coefficients": RNG.standard_normal(9), "intercepts": [0.1, 0.2, -0.3], "post_transform": "SOFTMAX"}


def sequence_of_maps(kind: int):
    """The type of ZipMap's output."""
    return helper.make_sequence_type_proto(helper.make_map_type_proto(kind, helper.make_tensor_type_proto(FLOAT, [])))


def test_map_for_each_row():
    classifier = node("LinearClassifier", "x", "label scores", classlabels_ints=[3, 5, 7], **LINEAR)
    zipped = node("ZipMap", "scores", "maps", classlabels_int64s=[3, 5, 7])
    run = check([classifier, zipped], ROWS, {"label": INT64, "maps": sequence_of_maps(INT64)})
    assert [item.op_type for item in run.fallbacks] == ["ZipMap"]
    assert run.outputs[1].kind == "seq(map(int64, float32))"


def test_classes_with_names():
    classifier = node("LinearClassifier", "x", "label scores", classlabels_strings=["a", "b", "c"], **LINEAR)
    zipped = node("ZipMap", "scores", "maps", classlabels_strings=["a", "b", "c"])
    run = check([classifier, zipped], ROWS, {"label": STRING, "maps": sequence_of_maps(STRING)})
    assert [item.op_type for item in run.fallbacks] == ["CategoryMapper", "ZipMap"]


def test_names_of_unused_classes_cost_nothing():
    classifier = helper.make_node(
        "LinearClassifier", ["x"], ["", "scores"], domain="ai.onnx.ml", classlabels_strings=["a", "b", "c"], **LINEAR
    )
    model_nodes = [classifier, node("Exp", "scores", "y", domain="")]
    graph = helper.make_graph(
        model_nodes,
        "g",
        [helper.make_tensor_value_info("x", FLOAT, [None, 3])],
        [helper.make_tensor_value_info("y", FLOAT, None)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    before = model.SerializeToString(deterministic=True)
    run = stepwell.compile(model, threads=1, options=NATIVE)
    assert run(ROWS).shape == (7, 3)
    assert model.SerializeToString(deterministic=True) == before  # the user's model is unchanged


KERNELS = {"LINEAR": [], "RBF": [0.3, 0.0, 0.0], "POLY": [0.5, 1.0, 3.0], "SIGMOID": [0.3, 0.1, 0.0]}


@pytest.mark.parametrize(("kernel", "one_class"), [("LINEAR", 0), ("RBF", 1), ("POLY", 0), ("SIGMOID", 0)])
def test_support_vector_regressor(kernel, one_class):
    attributes = {"kernel_type": kernel, "kernel_params": KERNELS[kernel] or [0.0, 0.0, 0.0], "rho": [0.2]}
    attributes |= {"n_supports": 4, "coefficients": RNG.standard_normal(4), "one_class": one_class}
    machine = node("SVMRegressor", "x", "y", support_vectors=RNG.standard_normal(12), **attributes)
    check([machine], ROWS, {"y": FLOAT}, NATIVE)


def test_support_vector_regressor_of_one_plane():
    plane = {"kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0], "coefficients": [0.5, -1.0, 2.0], "rho": [0.25]}
    machine = node("SVMRegressor", "x", "y", **plane)
    check([machine], ROWS, {"y": FLOAT}, NATIVE)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kernel", "classes", "has_probabilities"),
    [("LINEAR", 2, False), ("POLY", 3, False), ("SIGMOID", 4, False), ("RBF", 2, True), ("RBF", 4, True)],
)
def test_support_vector_classifier(kernel, classes, has_probabilities):
    pairs, counts = classes * (classes - 1) // 2, [2 + index for index in range(classes)]
    total = sum(counts)
    attributes = {"kernel_type": kernel, "kernel_params": KERNELS[kernel] or [0.0, 0.0, 0.0]}
    attributes |= {"rho": RNG.standard_normal(pairs), "vectors_per_class": counts}
    attributes |= {"coefficients": RNG.standard_normal(total * (classes - 1))}
    if has_probabilities:
        attributes |= {"prob_a": -1 - RNG.random(pairs), "prob_b": RNG.standard_normal(pairs) / 4}
    machine = node(
        "SVMClassifier",
        "x",
        "label scores",
        support_vectors=RNG.standard_normal(3 * total),
        classlabels_ints=list(range(10, 10 + classes)),
        **attributes,
    )
    check([machine], ROWS, {"label": INT64, "scores": FLOAT}, NATIVE)


def test_labels_of_numbers():
    whole = RNG.integers(0, 12, (5, 3))
    encoder = node("LabelEncoder", "x", "y", keys_int64s=[7, 2, 5, 7, 11], values_floats=[1.0, 2.0, 3.0, 4.0, 5.0])
    check([encoder], whole, {"y": FLOAT}, NATIVE)
    encoder = node("LabelEncoder", "x", "y", keys_int64s=[4], values_int64s=[9], default_int64=-5)
    check([encoder], whole, {"y": INT64}, NATIVE)
    numbers = np.array([[0.5, np.nan, 1.5], [-0.0, 2.0, np.inf]], np.float32)
    for keys in ([0.5, float("nan"), 0.0], [1.5, 0.5, float("inf")]):
        encoder = node("LabelEncoder", "x", "y", keys_floats=keys, values_int64s=[1, 2, 3])
        check([encoder], numbers, {"y": INT64}, NATIVE, 2)
        check([encoder], numbers, {"y": INT64}, NATIVE, 4)


def test_one_column_that_a_scalar_names():
    column = helper.make_node("Constant", [], ["place"], value_int=1)
    chosen = node("ArrayFeatureExtractor", "x place", "y")
    check([column, chosen], ROWS, {"y": FLOAT}, NATIVE)


@pytest.mark.parametrize("version", [1, 2, 4])
def test_labels_of_texts(version):
    texts, numbers = np.array([["b", "?"], ["a", "b"]], object), np.array([[0, 1], [7, 0]])
    if version == 1:
        check([node("LabelEncoder", "x", "y", classes_strings=["a", "b"])], texts, {"y": INT64}, version=1)
        check([node("LabelEncoder", "x", "y", classes_strings=["a", "b"])], numbers, {"y": STRING}, version=1)
        return
    encoder = node("LabelEncoder", "x", "y", keys_strings=["a", "b"], values_int64s=[3, 4])
    check([encoder], texts, {"y": INT64}, version=version)
    encoder = node("LabelEncoder", "x", "y", keys_int64s=[0, 7, 0], values_strings=["a", "b", "c"], default_string="!")
    check([encoder], numbers, {"y": STRING}, version=version)
    encoder = node("LabelEncoder", "x", "y", keys_strings=["b"], values_strings=["c"])
    check([encoder], texts, {"y": STRING}, version=version)


TEXTS = np.array([["the quick, brown  fox", "Ünï cödé äb c"], ["", "a"]], object)


@pytest.mark.parametrize(
    "attributes",
    [
        {"separators": [""], "mark": 0, "mincharnum": 1},
        {"separators": [" ", ","], "mark": 1, "mincharnum": 2},
        {"tokenexp": "[a-z]+", "mark": 0, "mincharnum": 3},
        {"tokenexp": r"\w\w+", "mark": 1, "mincharnum": 1},
    ],
)
def test_tokens(attributes):
    check([node("Tokenizer", "x", "y", "com.microsoft", pad_value="#", **attributes)], TEXTS, {"y": STRING})


@pytest.mark.parametrize("seed", [0, 7])
def test_hashes(seed):
    for positive, kind in ((0, TensorProto.INT32), (1, TensorProto.UINT32)):
        hashed = node("MurmurHash3", "x", "y", "com.microsoft", seed=seed, positive=positive)
        check([hashed], TEXTS, {"y": kind})


def test_categories_by_name_and_number():
    places = {"cats_strings": ["a", "b"], "cats_int64s": [4, 5]}
    check([node("CategoryMapper", "x", "y", default_int64=-7, **places)], TEXTS, {"y": INT64})
    check([node("CategoryMapper", "x", "y", default_string="?", **places)], np.array([4, 5, 6]), {"y": STRING})
