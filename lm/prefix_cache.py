"""Keys and values of ended texts, for texts that begin in the same way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from .pages import PagedText, PageTable

_LEAST_TOKENS = 16
"""Minimum number of tokens of a text that is kept: computing a shorter one again takes one call anyway."""


class PrefixCache:
    """Pages of ended texts, in the order of use. They are given up when a text that grows needs pages."""

    def __init__(self, table: PageTable) -> None:
        """Starts empty."""
        self._table = table
        self._texts: OrderedDict[tuple[int, ...], PagedText] = OrderedDict()

    def add(self, tokens: Sequence[int], text: PagedText) -> None:
        """Takes over the pages of a text, in place of those of texts that it continues.

        Args:
            tokens: all tokens of the text.
            text: its pages; the caller must not use them any more.
        """
        key = tuple(tokens[: text.length])
        known = any(key == other[: len(key)] for other in self._texts)
        if len(key) < _LEAST_TOKENS or known:
            self._table.release(text)
            return
        for other in [other for other in self._texts if other == key[: len(other)]]:
            self._table.release(self._texts.pop(other))
        self._texts[key] = text

    def find(self, tokens: Sequence[int], unread: int = 1) -> PagedText | None:
        """Returns a new text with the longest known beginning of some tokens, without the last `unread` of them."""
        wanted = np.asarray(tokens[:-unread])
        best, most = None, _LEAST_TOKENS - 1
        for key in self._texts:
            common = min(len(key), len(wanted))
            different = np.asarray(key[:common]) != wanted[:common]
            length = int(different.argmax()) if different.any() else common
            length = self._table.usable(self._texts[key], length)
            if length > most:
                best, most = key, length
        if best is None:
            return None
        self._texts.move_to_end(best)
        return self._table.share(self._texts[best], most)

    def free(self, pages: int) -> bool:
        """Gives up texts, the least recently used first, until some number of pages is free; returns whether it is."""
        while self._table.free < pages and self._texts:
            _, text = self._texts.popitem(last=False)
            self._table.release(text)
        return self._table.free >= pages
