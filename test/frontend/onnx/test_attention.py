"""Attention, compared with ONNX Runtime and with the definition in the standard."""

import numpy as np
import pytest
from mlir import ir
from onnx import helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model

F32 = np.float32


@pytest.fixture
def normal(rng):
    """Returns a function that draws normally distributed arrays of a shape."""
    return lambda *shape: rng.normal(size=shape).astype(F32)


@pytest.mark.parametrize("is_causal", [0, 1])
@pytest.mark.parametrize("mask", [None, "bool", "float"])
def test_attention(check, normal, rng, is_causal, mask):
    given = {None: [], "bool": [rng.random((5, 5)) < 0.8], "float": [normal(2, 1, 5, 5)]}[mask]
    if given and mask == "bool":
        np.fill_diagonal(given[0], True)
    heads = [normal(2, 4, 5, 8), normal(2, 2, 5, 8), normal(2, 2, 5, 6)]
    check("Attention", 23, [*heads, *given], is_causal=is_causal)
    flat = [normal(2, 5, 32), normal(2, 5, 16), normal(2, 5, 16)]
    check("Attention", 23, [*flat, *given], q_num_heads=4, kv_num_heads=2, scale=0.3, is_causal=is_causal)


def test_attention_that_keeps_keys_and_values(check, normal):
    arrays = [normal(1, 2, 3, 4) for _ in range(3)]
    past = [normal(1, 2, 2, 4) for _ in range(2)]
    check("Attention", 23, [*arrays, None, *past], outputs=3, is_causal=1)


def test_positions_are_limited_by_attributes(build, rng):
    """No table of queries and keys is made: that of a long sequence would be larger than all other operands."""
    arrays = {name: rng.normal(size=(1, 2, 9, 8)).astype(F32) for name in "qkv"}
    for attributes, band in (
        ({"is_causal": 1}, "after = 0 : i64, before = 2147483647"),
        ({"is_causal": 1, "left_window_size": 3}, "after = 0 : i64, before = 3"),
        ({"left_window_size": 2, "right_window_size": 1}, "after = 1 : i64, before = 2"),
    ):
        model = build([helper.make_node("Attention", list("qkv"), ["y"], **attributes)], arrays, ["y"], {}, 25)
        model.graph.output[0].type.tensor_type.elem_type = 1
        text = str(import_model(model, ir.Context(), {name: array.shape for name, array in arrays.items()}).module)
        assert band in text and "constant" not in text


def test_attention_as_the_standard_defines_it(build, rng):
    """Features that ONNX Runtime lacks: lengths per batch, short masks, and windows."""
    arrays = {name: rng.normal(size=(2, 2, 4, 8)).astype(F32) for name in "qkv"}
    arrays["k"], arrays["v"] = (rng.normal(size=(2, 1, 6, 8)).astype(F32) for _ in range(2))
    arrays["m"] = rng.random((2, 1, 4, 5)) < 0.7
    arrays["m"][1, 0, 2] = False
    lengths = {"l": np.array([3, 6])}
    for inputs, opset, attributes in (
        (["q", "k", "v", "m"], 24, {"is_causal": 1}),
        (["q", "k", "v", "", "", "", "l"], 24, {"is_causal": 1}),
        (["q", "k", "v", "m", "", "", "l"], 24, {}),
        (["q", "k", "v"], 25, {"left_window_size": 2, "right_window_size": 1}),
        (["q", "k", "v", "", "", "", "l"], 25, {"left_window_size": 1, "is_causal": 1}),
    ):
        feeds = {name: array for name, array in {**arrays, **lengths}.items() if name in inputs}
        model = build([helper.make_node("Attention", inputs, ["y"], **attributes)], feeds, ["y"], {}, opset)
        model.graph.output[0].type.tensor_type.elem_type = 1
        imported = import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()})
        (result,) = evaluate(imported.module, "main", list(feeds.values()), imported.parameters)
        (wanted,) = ReferenceEvaluator(model).run(None, feeds)
        np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)
