"""Logits with keys and values in pages are those with keys and values in arrays, to the last bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.dialects.stepwell.paging import PagedAttentionOp
from stepwell.driver.sources.paged import PagedSource
from stepwell.driver.sources.reading import read_source
from stepwell.runtime.executable import Executable
from stepwell.runtime.pools import PooledModel

from .decoders import step, written

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


@pytest.mark.parametrize("count", [1, 8], ids=["in place", "gathered"])
def test_mask_of_the_caller_hides_rows_that_no_text_has(tmp_path: Path, count: int):
    """Such a mask has no padding that an op of the model writes."""
    path, table, most = tmp_path / "step.mlir", np.array([[5, 0, 4], [2, 1, 3]]), 3 * PAGE - count
    path.write_text(step(count, 16))
    options = stepwell.Options(dims={"batch": 2, "past": (0, most)}, fallback="error")
    model = stepwell.compile(PagedSource.of(read_source(path), PAGE, 6, 3), threads=1, options=options).pooled()
    for pool in model.pools.arrays.values():
        pool[...] = np.nan
    random, starts = np.random.default_rng(0), np.zeros(2, np.int64)
    for past in range(0, most + 1, count):
        q, k, v = (random.standard_normal((2, heads, count, 16), np.float32) for heads in (4, 2, 2))
        mask = np.tril(np.ones((count, past + count), bool), past)[None, None].repeat(2, 0)
        found = model(q=q, k=k, v=v, mask=mask, starts=starts, page_table=table, past=np.empty((past, 0), np.int8))
        pools = (model.pools.arrays[name] for name in ("keys", "values"))
        wanted = PagedAttentionOp.reference(q, *pools, table, starts, mask, page_size=PAGE, scale=0.25)
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


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
