"""Texts that grow, with their keys and values in the pages of one pool."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from ..runtime.pools import PooledModel
from .pages import PagedText, PageTable
from .text_states import SavedText, TextStates


class _StackedInputs:
    """Inputs of several texts as those of a batch; they are kept while the texts of a step stay the same."""

    def __init__(self) -> None:
        self._parts: list[Mapping[str, np.ndarray]] = []
        self._whole: Mapping[str, np.ndarray] = {}

    def of(self, parts: Sequence[Mapping[str, np.ndarray]]) -> Mapping[str, np.ndarray]:
        """Returns the inputs of a batch from those of each text; shorter ones end with zeros."""
        if len(parts) == 1:
            return parts[0]
        if len(parts) != len(self._parts) or any(map(operator.is_not, parts, self._parts)):
            self._parts = list(parts)
            self._whole = {name: _stacked([part[name] for part in parts]) for name in parts[0]}
        return self._whole


def _stacked(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """Returns arrays of one row each as the rows of an array."""
    rows = [array[0] for array in arrays]
    whole = np.zeros((len(rows), *np.max([row.shape for row in rows], axis=0).astype(int)), rows[0].dtype)
    for number, row in enumerate(rows):
        whole[(number, *map(slice, row.shape))] = row
    return whole


class TextPool(TextStates):
    """Texts of a model, which share a pool of keys and values."""

    def __init__(
        self,
        alone: PooledModel,
        together: PooledModel | None,
        table: PageTable,
        checking: PooledModel | None = None,
    ) -> None:
        """Starts without texts.

        Args:
            alone: the decoder, for one text.
            together: the decoder for a token of each of several texts, with the same pools; None if each steps alone.
            table: the pages, all of them free.
            checking: the decoder for several tokens of one text, with logits after each; None if none are checked.
        """
        self._alone, self._together, self._checking, self.table = alone, together, checking, table
        self._stacked = _StackedInputs()
        pools = alone.pools
        self._arrays = list(pools.arrays.values())
        self.nbytes = pools.nbytes

    def step(self, texts: Sequence[PagedText], tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """See `TextStates`."""
        if len(texts) > 1 and self._together is None:
            for text in texts:
                self.reserve(text, text.length + len(tokens[0]))
            return np.concatenate([self.step([text], [row]) for text, row in zip(texts, tokens, strict=True)])
        run = self._together if len(texts) > 1 and self._together is not None else self._alone
        return self._run(run, texts, tokens, [len(tokens[0]) - 1])[:, 0]

    def check(self, text: PagedText, tokens: Sequence[int]) -> np.ndarray:
        """See `TextStates`."""
        assert self._checking is not None, "the model was loaded without a program that checks tokens"
        return self._run(self._checking, [text], [tokens], range(len(tokens)))[0]

    def _run(
        self, run: PooledModel, texts: Sequence[PagedText], tokens: Sequence[Sequence[int]], selected: Sequence[int]
    ) -> np.ndarray:
        """Adds tokens by a program; returns the logits after the selected ones, f32[texts, selected, vocabulary]."""
        count = len(tokens[0])
        for text in texts:
            self.reserve(text, text.length + count)
        lengths = np.array([text.length for text in texts])
        past = int(lengths.max())
        logits = run(
            input_ids=np.asarray(tokens),
            selected=np.asarray(selected),
            starts=past - lengths,
            page_table=np.stack([text.table for text in texts]),
            past=np.empty((past, 0), np.int8),
            **self._stacked.of([text.given for text in texts]),
        )
        for text in texts:
            text.length += count
        return logits

    def save(self, text: PagedText) -> SavedText:
        """See `TextStates`."""
        slots = self._slots(text)
        return SavedText(text.length, [array[:, slots] for array in self._arrays])

    def restore(self, text: PagedText, saved: SavedText) -> None:
        """See `TextStates`."""
        self.table.reserve(text, saved.length)
        text.length = saved.length
        slots = self._slots(text)
        for array, rows in zip(self._arrays, saved.rows, strict=True):
            array[:, slots] = rows

    def _slots(self, text: PagedText) -> np.ndarray:
        """Returns the rows of the pool that have the tokens of a text."""
        size = self.table.page_size
        return (text.table[: text.pages, None] * size + np.arange(size)).reshape(-1)[: text.length]

    def reserve(self, text: PagedText, length: int) -> None:
        """See `TextStates`."""
        replaced = self.table.reserve(text, length)
        if replaced is None:
            return
        size = self.table.page_size
        old, new = (slice(page * size, page * size + text.length % size) for page in replaced)
        for array in self._arrays:
            array[:, new] = array[:, old]
