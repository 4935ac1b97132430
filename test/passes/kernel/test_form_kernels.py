"""The order of steps in `stepwell-form-kernels`."""

from __future__ import annotations

import warnings

import numpy as np
import stepwell
from stepwell.passes.kernel import form_kernels
from stepwell.passes.kernel.demand import Demand
from stepwell.passes.kernel.row_fusion import repeat_cheap

LOOP = """
func.func @main(%x: tensor<?x8xf32> {stepwell.name = "x", stepwell.dims = ["n", 8]},
                %s: tensor<8xf32> {stepwell.name = "s"}, %count: tensor<i64> {stepwell.name = "count"})
    -> (tensor<?x8xf32> {stepwell.name = "y"}) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %number = tensor.extract %count[] : tensor<i64>
  %end = arith.index_cast %number : i64 to index
  %0 = scf.for %i = %zero to %end step %one iter_args(%v = %s) -> (tensor<8xf32>) {
    %next = "stepwell.tanh"(%v) : (tensor<8xf32>) -> tensor<8xf32>
    scf.yield %next : tensor<8xf32>
  }
  %1 = "stepwell.add"(%x, %0) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %1 : tensor<?x8xf32>
}
"""


def test_nothing_is_added_after_the_analysis(monkeypatch):
    """A new value may have the address of an erased one, of which the analysis would give the extents."""
    steps = []

    class Analysis(Demand):
        def __init__(self, *arguments):
            steps.append("analyse")
            super().__init__(*arguments)

    def repeat(block):
        steps.append("repeat")
        repeat_cheap(block)

    monkeypatch.setattr(form_kernels, "Demand", Analysis)
    monkeypatch.setattr(form_kernels, "repeat_cheap", repeat)
    options = stepwell.Options(dims={"n": (1, 9)}, cache=False, fallback="error")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        executable = stepwell.compile(LOOP.encode(), threads=1, options=options)
    assert steps == ["repeat", "repeat", "analyse"]  # of the loop's body, then of the function's
    x, s = np.ones((5, 8), np.float32), np.full(8, 0.5, np.float32)
    np.testing.assert_allclose(executable(x, s, np.array(2)), x + np.tanh(np.tanh(s)), rtol=1e-6)
