"""Results of programs for a range of sizes: the first part of a larger array is not copied, any other part is."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from stepwell.runtime.execution import ranged_call

MODEL = b"""
func.func @main(%x: tensor<?x?x192xf32> {stepwell.dims = ["batch", "rows", 192]}) -> tensor<?x?x192xf32> {
  %0 = "stepwell.add"(%x, %x) : (tensor<?x?x192xf32>, tensor<?x?x192xf32>) -> tensor<?x?x192xf32>
  return %0 : tensor<?x?x192xf32>
}"""


@pytest.fixture(scope="module")
def double() -> stepwell.Executable:
    """y = x + x for up to 3 x 128 rows, large enough for memory that is kept."""
    options = stepwell.Options(dims={"batch": (1, 3), "rows": (1, 128)}, cache=False)
    return stepwell.compile(MODEL, threads=1, options=options)


@pytest.mark.parametrize(
    ("batch", "rows", "is_part"),
    [(1, 5, True), (1, 128, True), (2, 128, True), (3, 128, True), (2, 127, False), (3, 1, False)],
)
def test_only_parts_with_gaps_are_copied(double: stepwell.Executable, batch: int, rows: int, is_part: bool) -> None:
    x = np.arange(batch * rows * 192, dtype=np.float32).reshape(batch, rows, 192)
    held = [double(x + number) for number in range(3)]
    for number, array in enumerate(held):
        assert isinstance(array, np.ndarray)
        assert array.flags.c_contiguous and array.flags.writeable
        np.testing.assert_array_equal(array, 2 * (x + number))
    (call,) = [found for found in double.programs if found.bounds is not None]
    assert call.outputs[0].shape == (3, 128, 192)
    assert _is_written_in_place(double, x) == is_part


def _is_written_in_place(double: stepwell.Executable, x: np.ndarray) -> bool:
    """Returns whether the kernel wrote to the returned array, seen by the memory that it has for the largest result."""
    calls = []
    enter = ranged_call._Buffers.enter

    def watched(buffers, call, shapes):
        enter(buffers, call, shapes)
        calls.append(list(buffers.outputs))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranged_call._Buffers, "enter", watched)
        double(np.zeros((1, 2, 192), np.float32))  # other sizes, so that the next call enters the buffers again
        double(x)
    return calls[-1] == []
