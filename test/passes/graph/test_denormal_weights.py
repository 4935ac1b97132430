"""Denormal weights count as 0, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.stepwell import STEPWELL
from stepwell.passes.graph.denormal_weights import flush_denormal_weights, without_denormals

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
def test_only_denormal_numbers_become_0(dtype: type) -> None:
    tiny = np.finfo(dtype).tiny
    x = np.tile(np.array([0, -0.0, tiny, -tiny, tiny / 2, -tiny / 8, 1, np.inf, np.nan], dtype), 20000)
    got = without_denormals(x.reshape(200, -1)).reshape(-1)
    np.testing.assert_array_equal(got, np.where((np.abs(x) < tiny) & (x != 0), 0, x))
    assert x[4] == tiny / 2


def test_what_has_none_is_not_copied() -> None:
    for x in (np.ones(5, np.float32), np.array([6e-8], np.float16), np.arange(3)):
        assert without_denormals(x) is x


def test_a_parameter_that_is_more_than_a_weight_stays() -> None:
    values = {name: np.full(16, 1e-40, np.float32) for name in ("weight", "shared")}
    context = ir.Context()
    STEPWELL.load(context)
    with context, ir.Location.unknown():
        got = flush_denormal_weights(ir.Module.parse(PROGRAM), values)
    assert not got["weight"].any()
    assert got["shared"] is values["shared"]
