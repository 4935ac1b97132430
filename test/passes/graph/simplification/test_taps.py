"""Convolutions without the taps that meet padding only have the same results."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.passes.infra.pipeline import Pipeline

_SMALL = st.integers(1, 4)
_TEXT = """
func.func @main(%x: tensor<{x}xf32>, %w: tensor<{w}xf32>) -> tensor<{y}xf32> {{
  %0 = "stepwell.conv"(%x, %w) {{strides = array<i64: {strides}>, pads = array<i64: {pads}>,
    dilations = array<i64: {dilations}>}} : (tensor<{x}xf32>, tensor<{w}xf32>) -> tensor<{y}xf32>
  return %0 : tensor<{y}xf32>
}}"""


@given(
    size=st.tuples(_SMALL, _SMALL),
    kernel=st.tuples(_SMALL, _SMALL),
    pads=st.tuples(*[st.integers(0, 7)] * 4),
    strides=st.tuples(_SMALL, _SMALL),
    dilations=st.tuples(_SMALL, _SMALL),
)
@settings(max_examples=60, deadline=None)
def test_the_results_stay_the_same(size, kernel, pads, strides, dilations) -> None:
    extents = [dilation * (taps - 1) + 1 for taps, dilation in zip(kernel, dilations, strict=True)]
    rest = [size[dim] + pads[dim] + pads[dim + 2] - extents[dim] for dim in range(2)]
    assume(min(rest) >= 0)
    shapes = {"x": (1, 2, *size), "w": (3, 2, *kernel)}
    shapes["y"] = (1, 3, *(left // stride + 1 for left, stride in zip(rest, strides, strict=True)))
    lists = {"strides": strides, "pads": pads, "dilations": dilations}
    texts = {name: "x".join(map(str, shape)) for name, shape in shapes.items()}
    text = _TEXT.format(**texts, **{name: ", ".join(map(str, entries)) for name, entries in lists.items()})
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(shapes[name], np.float32) for name in ("x", "w")]
    context = ir.Context()
    load_dialects(context)
    with context, ir.Location.unknown():
        module = ir.Module.parse(text)
        (want,) = evaluate(module, "main", inputs, {})
        Pipeline.parse("builtin.module(stepwell-canonicalize)").run(module)
        (result,) = evaluate(module, "main", inputs, {})
    np.testing.assert_allclose(result, want, rtol=1e-5, atol=1e-5)
