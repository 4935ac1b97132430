"""Greatest values of expressions over sizes."""

from __future__ import annotations

import pytest
from stepwell.passes.ranges.units import Units
from stepwell.sizes import algebra
from stepwell.sizes.ranges import Range

N = algebra.size("n")
CASES = {
    "64 - n": 64 - N,
    "n % 4": algebra.remainder(N, 4),
    "n * (1000 - n)": N * (1000 - N),
    "n - n % 7": N - algebra.remainder(N, 7),
}


@pytest.mark.parametrize("text", CASES)
@pytest.mark.parametrize(
    "values", [Range(0, 50), Range(3, 1000), Range(2, 998, 4), Range(0, 200_000), Range(5, 200_005, 2)]
)
def test_no_value_is_greater(text: str, values: Range) -> None:
    """With few sizes the greatest value is exact; of many it is a bound."""
    units, dim = Units({"n": values}), CASES[text]
    sizes = range(values.low, values.high + 1, values.step)
    greatest = max(eval(text, {"n": size}) for size in sizes)
    found = units.at_most(units.of(dim))
    assert found == greatest if len(sizes) <= 1 << 16 else found >= greatest
