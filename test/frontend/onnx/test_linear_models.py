"""Linear models, and operators that prepare their columns, compared with ONNX Runtime."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import stepwell
from onnx import helper
from onnxruntime import InferenceSession

RNG = np.random.default_rng(5)
ROWS = RNG.standard_normal((6, 4)).astype(np.float32)
WHOLE = RNG.integers(-2, 4, (6, 4))


def check(op_type: str, x: np.ndarray, *outputs: int, **attributes: Any) -> None:
    """Compares a node, which must not run on the host, with ONNX Runtime."""
    names = [f"y{index}" for index in range(len(outputs))]
    node = helper.make_node(op_type, ["x"], names, domain="ai.onnx.ml", **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, ["rows", x.shape[1]])],
        [helper.make_tensor_value_info(name, made, None) for name, made in zip(names, outputs, strict=True)],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = stepwell.compile(model, threads=1, options=stepwell.Options(cache=False))(x)
    expected = InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for actual, wanted in zip(results if isinstance(results, tuple) else (results,), expected, strict=True):
        assert np.asarray(actual).dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(np.asarray(actual), np.asarray(wanted), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("x", [ROWS, WHOLE])
def test_scaler(x):
    check("Scaler", x, 1, offset=[0.5, 1.0, -1.0, 2.0], scale=[2.0, 1.0, 0.5, 3.0])
    check("Scaler", x, 1, offset=[0.5], scale=[2.0])


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(norm):
    x = ROWS.copy()
    x[2] = 0
    check("Normalizer", x, 1, norm=norm)


def test_binarizer_and_imputer():
    check("Binarizer", ROWS, 1, threshold=0.25)
    x = ROWS.copy()
    x[1, 2] = x[3, 0] = np.nan
    check("Imputer", x, 1, imputed_value_floats=[1.0, 2.0, 3.0, 4.0], replaced_value_float=float("nan"))
    check("Imputer", WHOLE, 7, imputed_value_int64s=[9], replaced_value_int64=3)


def test_one_hot_encoder():
    check("OneHotEncoder", WHOLE, 1, cats_int64s=[0, 2, 3], zeros=1)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_models(transform):
    coefficients = RNG.standard_normal(12).tolist()
    numbers = {"coefficients": coefficients, "intercepts": [0.1, -0.2, 0.3], "post_transform": transform}
    check("LinearClassifier", ROWS, 7, 1, classlabels_ints=[4, 5, 9], multi_class=1, **numbers)
    if transform == "NONE":
        check("LinearRegressor", ROWS, 1, targets=3, **numbers)


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC"])
def test_two_classes_with_one_score(transform):
    numbers = {"coefficients": [0.5, -1.0, 0.25, 2.0], "intercepts": [0.1], "post_transform": transform}
    check("LinearClassifier", ROWS, 7, 1, classlabels_ints=[0, 1], **numbers)
