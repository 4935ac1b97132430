"""Steps of two texts whose keys and values are bytes in pages, for the tests of each form of bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import stepwell
from stepwell.dialects.stepwell.paging import PagedAttentionOp
from stepwell.driver.sources.paged import PagedSource
from stepwell.driver.sources.reading import read_source

from .decoders import step

PAGE, PAGES = 8, 4  # of each of two texts
HEADS, KEY_HEADS = 4, 2

SIZES = pytest.mark.parametrize(
    ("count", "depth"), [(1, 24), (1, 32), (3, 64), (8, 24)], ids=["key by key", "eight keys", "two blocks", "gathered"]
)
"""Numbers of new tokens, and elements of a key or value."""


@dataclass
class PagedStep:
    """A step that has run.

    Attributes:
        new: the new queries, keys and values.
        pools: the pools of keys and values with their scales.
        slots: text, token and slot of each new token that belongs to its text.
    """

    new: dict[str, np.ndarray]
    pools: dict[str, np.ndarray]
    slots: list[tuple[int, int, int]]
    _found: np.ndarray
    _table: np.ndarray
    _starts: np.ndarray
    _mask: np.ndarray

    def check(self, rotation: np.ndarray) -> None:
        """Compares the result with the reference; `rotation` is that of stored rows."""
        pools = self.pools
        operands = (self.new["q"] @ rotation, pools["keys"], pools["values"], self._table, self._starts, self._mask)
        with np.errstate(invalid="ignore"):  # queries before a text attend to nothing
            wanted = PagedAttentionOp.reference(
                *operands, pools["keys.scale"], pools["values.scale"], page_size=PAGE, scale=0.25, zero_empty=True
            )
        count, total = self._mask.shape[2:]
        began = total - count + np.arange(count) >= self._starts[:, None]
        found, wanted = (np.swapaxes(item, 1, 2)[began] for item in (self._found, wanted @ rotation.T))
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def paged_steps(folder: Path, count: int, depth: int, form: str) -> Iterator[PagedStep]:
    """Yields the steps of two texts, the second of which begins later, until their pages are full.

    Args:
        folder: a folder for the model.
        count: number of new tokens of a step.
        depth: elements of a key or value.
        form: the form of keys and values.
    """
    path = folder / "step.mlir"
    path.write_text(step(count, depth))
    paged = PagedSource.of(read_source(path), PAGE, 2 * PAGES, PAGES, form)
    options = stepwell.Options(dims={"batch": (1, 2), "past": (0, PAGE * PAGES - count)}, fallback="error")
    model = stepwell.compile(paged, threads=1, options=options).pooled()
    pools, random = model.pools.arrays, np.random.default_rng(0)
    table, starts = random.permutation(2 * PAGES).reshape(2, PAGES), np.array([0, 3])
    for array in pools.values():
        array[...] = 99 if array.dtype.itemsize == 1 else np.nan  # rows that no text has do not count
    for past in range(0, PAGE * PAGES - count + 1, count):
        new = {
            name: random.standard_normal((2, heads, count, depth), np.float32)
            for name, heads in (("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS))
        }
        new["k"][:, 1, 0] = 0  # a row without a scale
        mask = np.tril(np.ones((count, past + count), bool), past)[None, None].repeat(2, 0)
        found = model(**new, mask=mask, starts=starts, page_table=table, past=np.empty((past, 0), np.int8))
        slots = []
        for text, token in np.ndindex(2, count):
            place = past + token - starts[text]
            if place >= 0:
                slots.append((text, token, table[text, place // PAGE] * PAGE + place % PAGE))
        yield PagedStep(new, pools, slots, found, table, starts, mask)
