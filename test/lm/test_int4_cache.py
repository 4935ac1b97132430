"""Rotated keys and values in int4: stored rows, attention that reads them, and what they cost in accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stepwell.lm import load, measure_divergence
from stepwell.passes.paging.int4_rows import rotation_of

from .decoders import written
from .paged_steps import SIZES, paged_steps


@pytest.mark.parametrize("depth", [2, 24, 64, 80, 128])
def test_rotations_spread_great_elements(depth: int):
    """Also elements that are all equal, as in rows of constants."""
    rotation = rotation_of(depth)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(depth), atol=1e-12)
    for row in (np.eye(depth)[0], np.full(depth, depth**-0.5)):
        assert np.abs(row @ rotation).max() < (0.8 if depth > 2 else 1.01)


def _elements(stored: np.ndarray, scales: np.ndarray) -> np.ndarray:
    return (np.concatenate([stored & 15, stored >> 4], -1) - np.float32(7.5)) * scales


@SIZES
def test_attention_is_that_of_its_reference(tmp_path: Path, count: int, depth: int):
    """Rows are rounded to their scales, and read with an error of rounding of floats only."""
    rotation = rotation_of(depth).astype(np.float32)
    for each in paged_steps(tmp_path, count, depth, "int4"):
        for name, pool in (("k", "keys"), ("v", "values")):
            for text, token, slot in each.slots:
                row, scale = each.new[name][text, :, token] @ rotation, each.pools[f"{pool}.scale"][:, slot]
                np.testing.assert_allclose(scale, np.abs(row).max(-1, keepdims=True) / 7.5, rtol=1e-5, atol=1e-30)
                assert np.all(np.abs(_elements(each.pools[pool][:, slot], scale) - row) <= 0.51 * scale)
        each.check(rotation)


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
