"""Denormal weights are scaled to normal numbers, and results do not change."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.passes.graph.constants.scale_denormal_weights import exponent_for, scale_denormal_weights

PROGRAM = """
func.func @main(%x: tensor<2x4xf32>, %y: tensor<16xf32>) -> (tensor<2x4xf32>, tensor<16xf32>) {
  %w = "stepwell.parameter"() {name = "weight", shape = array<i64: 16>, dtype = f32} : () -> tensor<16xf32>
  %s = "stepwell.parameter"() {name = "shared", shape = array<i64: 16>, dtype = f32} : () -> tensor<16xf32>
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 4 : i64, panel = 4 : i64}
    : (tensor<2x4xf32>, tensor<16xf32>) -> tensor<2x4xf32>
  %1 = "stepwell.packed_matmul"(%0, %s) {columns = 4 : i64, panel = 4 : i64}
    : (tensor<2x4xf32>, tensor<16xf32>) -> tensor<2x4xf32>
  %2 = "stepwell.add"(%y, %s) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %1, %2 : tensor<2x4xf32>, tensor<16xf32>
}
"""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaled_weights_have_no_denormal_numbers(dtype: type) -> None:
    limits = np.finfo(dtype)
    x = np.tile(np.array([0, -0.0, 1, limits.tiny, limits.smallest_subnormal, -limits.tiny / 8], dtype), 20000)
    scaled = np.ldexp(x, exponent_for(x.reshape(200, -1)))
    assert ((np.abs(scaled) >= limits.tiny) | (x == 0)).all()
    np.testing.assert_array_equal(np.ldexp(scaled, -exponent_for(x)), x)


@pytest.mark.parametrize(
    "array",
    [
        np.ones(5, np.float32),
        np.array([1e-40, 1e30], np.float32),
        np.array([1e-40, np.inf], np.float32),
        np.array([1e-40, np.nan], np.float32),
        np.array([6e-8], np.float16),
        np.arange(3),
    ],
)
def test_weights_without_denormals_or_with_large_numbers_stay(array: np.ndarray) -> None:
    assert exponent_for(array) == 0


def test_only_values_that_are_weights_everywhere_are_scaled() -> None:
    values = {name: np.arange(16, dtype=np.float32) * np.float32(1e-40) for name in ("weight", "shared")}
    context = ir.Context()
    load_dialects(context)
    x, y = np.full((2, 4), 2e38, np.float32), np.zeros(16, np.float32)
    with context, ir.Location.unknown():
        module = ir.Module.parse(PROGRAM)
        expected = evaluate(module, "main", [x, y], values)
        scaled = scale_denormal_weights(module.operation, values)
        result = evaluate(module, "main", [x, y], scaled)
    assert scaled["weight"].max() > np.finfo(np.float32).tiny
    assert scaled["shared"] is values["shared"]
    assert "stepwell.mul" in str(module)
    for got, wanted in zip(result, expected, strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_one_element_seen_many_times_is_looked_at_once():
    assert exponent_for(np.broadcast_to(np.float32(1e-40), (1 << 20, 1 << 20))) == 24
