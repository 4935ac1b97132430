"""Rotated keys and values in int4: stored rows, attention that reads them, and what they cost in accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.dialects.stepwell.paging import PagedAttentionOp
from stepwell.driver.sources.paged import PagedSource
from stepwell.driver.sources.reading import read_source
from stepwell.lm import load, measure_divergence
from stepwell.passes.paging.int4_rows import rotation_of

from .decoders import step, written

PAGE, PAGES = 8, 4  # of each of two texts
HEADS, KEY_HEADS = 4, 2


@pytest.mark.parametrize("depth", [2, 24, 64, 80, 128])
def test_rotations_spread_great_elements(depth: int):
    """Also elements that are all equal, as in rows of constants."""
    rotation = rotation_of(depth)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(depth), atol=1e-12)
    for row in (np.eye(depth)[0], np.full(depth, depth**-0.5)):
        assert np.abs(row @ rotation).max() < (0.8 if depth > 2 else 1.01)


def _elements(stored: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return (np.concatenate([stored & 15, stored >> 4], -1) - np.float32(7.5)) * scales


@pytest.mark.parametrize(
    ("count", "depth"), [(1, 24), (1, 32), (3, 64), (8, 24)], ids=["key by key", "eight keys", "two blocks", "gathered"]
)
def test_attention_is_that_of_its_reference(tmp_path: Path, count: int, depth: int):
    """Rows are rounded to their scales, and read with an error of rounding of floats only."""
    path = tmp_path / "step.mlir"
    path.write_text(step(count, depth))
    paged = PagedSource.of(read_source(path), PAGE, 2 * PAGES, PAGES, "int4")
    options = stepwell.Options(dims={"batch": (1, 2), "past": (0, PAGE * PAGES - count)}, fallback="error")
    model = stepwell.compile(paged, threads=1, options=options).pooled()
    pools, random = model.pools.arrays, np.random.default_rng(0)
    table, starts = random.permutation(2 * PAGES).reshape(2, PAGES), np.array([0, 3])
    rotation = rotation_of(depth).astype(np.float32)
    for array in pools.values():
        array[...] = 99 if array.dtype == np.uint8 else np.nan  # rows that no text has do not count
    for past in range(0, PAGE * PAGES - count + 1, count):
        new = {
            name: random.standard_normal((2, heads, count, depth), np.float32)
            for name, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS))
        }
        new["k"][:, 1, 0] = 0  # a row without a scale
        mask = np.tril(np.ones((count, past + count), bool), past)[None, None].repeat(2, 0)
        found = model(**new, mask=mask, starts=starts, page_table=table, past=np.empty((past, 0), np.int8))
        for name, pool in (("k", "keys"), ("v", "values")):
            for text, token in np.ndindex(2, count):
                if past + token < starts[text]:
                    continue
                place = past + token - starts[text]
                slot = table[text, place // PAGE] * PAGE + place % PAGE
                row, scale = new[name][text, :, token] @ rotation, pools[f"{pool}.scale"][:, slot]
                np.testing.assert_allclose(scale, np.abs(row).max(-1, keepdims=True) / 7.5, rtol=1e-5, atol=1e-30)
                assert np.all(np.abs(_elements(pools[pool][:, slot], scale) - row) <= 0.51 * scale)
        operands = (new["q"] @ rotation, pools["keys"], pools["values"], table, starts, mask)
        with np.errstate(invalid="ignore"):  # queries before a text attend to nothing
            wanted = PagedAttentionOp.reference(
                *operands, pools["keys.scale"], pools["values.scale"], page_size=PAGE, scale=0.25, zero_empty=True
            )
        began = past + np.arange(count) >= starts[:, None]
        found, wanted = (np.swapaxes(item, 1, 2)[began] for item in (found, wanted @ rotation.T))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
def test_memory_and_divergence(tmp_path: Path):
    """A key or value of a head takes 8 bytes and a scale of 4, instead of 16 floats."""
    path = written(tmp_path, layers=2)
    model = load(path, threads=1, sequences=3, cache="int4")
    assert model.bytes_per_token == 2 * 2 * 2 * 12
    assert model.pool().nbytes == model.pages * model.page_size * model.bytes_per_token
    text = "The well has ninety steps, and each is narrower than the one above it. " * 3
    found = measure_divergence(path, path, text, threads=1, cache="int4")
    assert 0 < found.mean <= 0.02
