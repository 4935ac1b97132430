"""The harness: buffers, threads, and errors of code that reads outside of them or needs other functions."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from stepwell.lowering import llvm

from . import harness
from .harness import ALIGNED, READ, WRITE

pytestmark = pytest.mark.skipif(not harness.is_available(), reason=harness.INSTALL)

# y[n - 1 + ahead] = 2 * x[n - 1 + ahead] for the table x, n, ahead, y
_DOUBLE = """
define void @stepwell_main(ptr %table) {
  %x = load ptr, ptr %table
  %n_at = getelementptr ptr, ptr %table, i64 1
  %n_in = load ptr, ptr %n_at
  %n = load i64, ptr %n_in
  %ahead_at = getelementptr ptr, ptr %table, i64 2
  %ahead_in = load ptr, ptr %ahead_at
  %ahead = load i64, ptr %ahead_in
  %y_at = getelementptr ptr, ptr %table, i64 3
  %y = load ptr, ptr %y_at
  %last = sub i64 %n, 1
  %place = add i64 %last, %ahead
  %from = getelementptr i32, ptr %x, i64 %place
  %value = load i32, ptr %from
  %sum = add i32 %value, %value
  %to = getelementptr i32, ptr %y, i64 %place
  store i32 %sum, ptr %to
  ret void
}
"""
_MISSING = "declare void @nowhere()\ndefine void @stepwell_main(ptr %t) {\n  call void @nowhere()\n  ret void\n}\n"


@functools.cache
def code(text: str) -> dict[str, bytes]:
    with llvm.machine("aarch64-unknown-linux-gnu", "generic", "") as machine, llvm.parsed(text, machine) as module:
        return {"code": module.object()}


def double(count: int, ahead: int) -> np.ndarray:
    x, y = np.arange(count, dtype=np.int32), np.full(count, 7, np.int32)
    numbers = [(np.array(count), READ), (np.array(ahead), READ)]
    (result,) = harness.run(code(_DOUBLE), [(x, READ), *numbers, (y, READ | WRITE), (1000, ALIGNED)])
    return result


def test_contents_come_back() -> None:
    np.testing.assert_array_equal(double(5, 0), [7, 7, 7, 7, 8])
    np.testing.assert_array_equal(double(5, -4), [0, 7, 7, 7, 7])


def test_addresses_are_places_in_buffers() -> None:
    both = np.arange(8, dtype=np.int32)
    numbers = [(np.array(4), READ), (np.array(0), READ)]
    places = [(2, 0), (0, 0), (1, 0), (2, 16)]
    (result,) = harness.run(code(_DOUBLE), [*numbers, (both, READ | WRITE)], places)
    np.testing.assert_array_equal(result, [0, 1, 2, 3, 4, 5, 6, 6])


@pytest.mark.parametrize("count", [1, 5, 1024])
def test_negative_reads_beyond_a_buffer_are_faults(count: int) -> None:
    with pytest.raises(harness.EmulationError, match="ended with -11"):
        double(count, 1)


def test_negative_functions_that_nothing_defines() -> None:
    with pytest.raises(harness.EmulationError, match="nothing defines nowhere"):
        harness.run(code(_MISSING), [])
