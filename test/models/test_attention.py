"""Attention as a single operator, compiled."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import stepwell
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator


@pytest.mark.parametrize(
    ("heads", "key_heads", "length", "keys", "mask", "causal"),
    [
        (4, 4, 9, 9, None, 0),
        (4, 2, 9, 13, None, 0),
        (4, 4, 16, 16, np.float32, 0),
        (4, 2, 8, 8, np.bool_, 0),
        (2, 1, 7, 7, None, 1),
    ],
)
def test_attention(heads: int, key_heads: int, length: int, keys: int, mask: type | None, causal: int) -> None:
    rng = np.random.default_rng(0)
    shapes = {"q": (2, heads, length, 16), "k": (2, key_heads, keys, 16), "v": (2, key_heads, keys, 24)}
    feeds = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    if mask is not None:
        allowed = rng.integers(0, 2, (length, keys)).astype(bool) | (np.arange(keys) == 0)
        feeds["m"] = allowed if mask is np.bool_ else np.where(allowed, 0, -5).astype(np.float32)
    model = attention(feeds, causal)
    (want,) = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(stepwell.compile(model, threads=1)(**feeds), want, rtol=1e-4, atol=1e-6)


def attention(feeds: dict[str, np.ndarray], causal: int) -> onnx.ModelProto:
    """A model of one node whose inputs have these arrays' types."""
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    node = helper.make_node("Attention", list(feeds), ["y"], is_causal=causal)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "attention", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)])
