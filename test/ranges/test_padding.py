"""The padding of tensors in programs for a range of sizes: denormal numbers, and leftovers of earlier calls."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import stepwell

from . import graphs, wide_graphs

MODEL = """
func.func @main(%x: tensor<?x64xf32> {stepwell.name = "x", stepwell.dims = ["n", 64]})
    -> (tensor<?x64xf32> {stepwell.name = "y"}) {
  %0 = "stepwell.add"(%x, %x) : (tensor<?x64xf32>, tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
"""
DENORMAL = np.float32(1e-40)


def _compile(threads: int, **dims: object) -> stepwell.Executable:
    return stepwell.compile(
        MODEL.encode(), threads=threads, options=stepwell.Options(dims=dims, cache=False, fallback="error")
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_denormal_numbers_are_zeros_in_kernels_and_nowhere_else(threads: int):
    executable = _compile(threads, n=[4096])
    x = np.full((4000, 64), DENORMAL)
    bits = (x + x).view(np.int32)
    for _ in range(3):
        assert not np.any(np.asarray(executable(x)).view(np.int32))
        np.testing.assert_array_equal((x + x).view(np.int32), bits)
    assert bits.all()


def test_denormal_numbers_are_kept_without_padding():
    executable = stepwell.compile(MODEL.encode(), threads=1, options=stepwell.Options(cache=False, ranges=False))
    x = np.full((4, 64), DENORMAL)
    np.testing.assert_array_equal(executable(x), x + x)


_MADE_OF_SEVERAL = [
    graphs.attention,
    graphs.attention_to_rounds,
    graphs.attention_in_one_round,
    graphs.attention_of_every_fourth,
    graphs.softmaxes,
    graphs.reductions,
    graphs.normalised,
    wide_graphs.norms,
]


@pytest.mark.few(4)
@pytest.mark.parametrize("make", _MADE_OF_SEVERAL, ids=lambda make: make.__name__)
def test_nan_of_an_earlier_call_is_not_read(make: Callable[[], graphs.Graph]):
    model, dims = make()
    executable = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error"))
    fresh = stepwell.compile(model, threads=1, options=stepwell.Options(dims=dims, cache=False, fallback="error"))
    shape = [dim.dim_param or dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    greatest = [dims[dim][1] if isinstance(dim, str) else dim for dim in shape]
    random = np.random.default_rng(0)
    for part in (0.0, 0.3, 0.6, 0.9):
        sizes = {name: low + int((high - low) * part) for name, (low, high) in dims.items()}
        x = random.standard_normal([sizes[dim] if isinstance(dim, str) else dim for dim in shape], np.float32)
        executable(np.full(greatest, np.nan, np.float32))
        np.testing.assert_array_equal(np.asarray(executable(x)), np.asarray(fresh(x)))
