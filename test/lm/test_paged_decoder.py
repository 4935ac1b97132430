"""Logits with keys and values in pages are those with keys and values in arrays, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.driver.sources.paged import PagedSource
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.executable import Executable
from stepwell.runtime.pools import PooledModel

from .decoders import written

PAGE, PAGES = 4, 16  # of each of three texts, in any order in the pools


def compiled(folder: Path, length: int | tuple[int, int]) -> tuple[Executable, PooledModel]:
    path, sizes = written(folder), {"batch": (2, 3), "length": length, "past": (0, 63), "outputs": 1}
    options = stepwell.Options(dims=sizes, fallback="error")
    paged = stepwell.compile(PagedSource.of(read_source(path), PAGE, 3 * PAGES, PAGES), threads=2, options=options)
    return stepwell.compile(path, threads=2, options=options), paged.pooled()


@pytest.mark.parametrize("length", [1, pytest.param((2, 9), marks=pytest.mark.sweep)])
def test_logits_are_equal(tmp_path: Path, length: int | tuple[int, int]):
    flat, paged = compiled(tmp_path, length)
    state, random, past = flat.state({"batch": 3}), np.random.default_rng(0), 0
    table = random.permutation(3 * PAGES).reshape(3, PAGES)
    starts = np.array([0, 3, 7])
    for pool in paged.pools.arrays.values():
        pool[...] = np.nan  # rows that no text has are not read
    for _ in range(20 if length == 1 else 6):
        count = 1 if length == 1 else int(random.integers(2, 10))
        step = {
            "input_ids": random.integers(0, 256, (3, count)),
            "selected": np.array([count - 1]),
            "starts": starts,
        }
        wanted = state(**step)
        found = paged(**step, page_table=table, past=np.empty((past, 0), np.int8))
        past += count
        began = past > starts  # the others have no token yet
        np.testing.assert_array_equal(found[began], wanted[began])


def test_pools_are_shared_and_checked(tmp_path: Path):
    flat, paged = compiled(tmp_path, 1)
    with pytest.raises(stepwell.InputError, match="the model stores rows in no input: page its state"):
        flat.pooled()
    with pytest.raises(stepwell.InputError, match=r"a call takes input_ids: .*past: .*, but was given input_ids"):
        paged(input_ids=np.zeros((2, 1), np.int64))
    other = stepwell.compile(
        PagedSource.of(read_source(written(tmp_path)), PAGE, 2, 2),
        options=stepwell.Options(dims={"batch": 1, "length": 1, "past": (0, 7), "outputs": 1}),
    )
    with pytest.raises(
        stepwell.InputError, match=r"the model stores rows in past.0.key: float32\[2, 8, 16\], and the pools"
    ):
        other.pooled(paged.pools)
