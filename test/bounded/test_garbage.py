"""What lies beyond the data in the tensors of a program for a range of sizes."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell

MODEL = """
func.func @main(%x: tensor<?x64xf32> {stepwell.name = "x", stepwell.dims = ["n", 64]})
    -> (tensor<?x64xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.add"(%x, %x) : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
"""
DENORMAL = np.float32(1e-40)


def _compile(threads: int, **dims: object) -> stepwell.Executable:
    return stepwell.compile(MODEL.encode(), threads=threads, options=stepwell.Options(dims=dims, cache=False))


@pytest.mark.parametrize("threads", [1, 2])
def test_denormal_numbers_are_zeros_in_kernels_and_nowhere_else(threads: int):
    executable = _compile(threads, n=[4096])
    x = np.full((4000, 64), DENORMAL)
    bits = (x + x).view(np.int32)
    for _ in range(3):
        assert not np.any(np.asarray(executable(x)).view(np.int32))
        np.testing.assert_array_equal((x + x).view(np.int32), bits)
    assert bits.all()


def test_where_all_is_data_denormal_numbers_are_kept():
    executable = stepwell.compile(MODEL.encode(), threads=1, options=stepwell.Options(cache=False))
    x = np.full((4, 64), DENORMAL)
    np.testing.assert_array_equal(executable(x), x + x)
