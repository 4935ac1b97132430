"""The cases of a test that `make test` runs are spread over the values of its parameters."""

from __future__ import annotations

import pytest

from .conftest import spread


@pytest.mark.parametrize(("shape", "kept"), [((2, 2), 2), ((4, 2), 4), ((3, 2, 2), 4), ((12,), 5), ((1,), 3)])
def test_each_value_of_each_parameter_occurs(shape: tuple[int, ...], kept: int) -> None:
    count = 1
    for extent in shape:
        count *= extent
    places = spread(count, kept)
    assert len(set(places)) == min(kept, count) and set(places) <= set(range(count))
    step = 1
    for extent in shape:
        assert len({place // step % extent for place in places}) == min(extent, kept)
        step *= extent
