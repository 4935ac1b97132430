"""Keys and values of earlier texts, for texts that begin in the same way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from .sequence_pool import Caches

_LEAST_TOKENS = 16
"""Minimum number of tokens of a text that is kept: computing a shorter one again takes one call anyway."""


class PrefixCache:
    """Keys and values of texts, least recently used first; the first ones are dropped if there is no room.

    Attributes:
        nbytes: bytes of all keys and values.
    """

    def __init__(self, most_bytes: int) -> None:
        """Starts empty.

        Args:
            most_bytes: maximum number of bytes.
        """
        self._most = most_bytes
        self._texts: OrderedDict[tuple[int, ...], Caches] = OrderedDict()
        self.nbytes = 0

    def add(self, tokens: Sequence[int], caches: Caches) -> None:
        """Keeps a text, in place of those that it continues; a text that is too short or too large is not kept."""
        key, size = tuple(tokens), _bytes_of(caches)
        if len(key) < _LEAST_TOKENS or size > self._most:
            return
        for other in [other for other in self._texts if other == key[: len(other)]]:
            self._drop(other)
        while self.nbytes + size > self._most:
            self._drop(next(iter(self._texts)))
        self._texts[key] = caches
        self.nbytes += size

    def find(self, tokens: Sequence[int]) -> dict[str, np.ndarray] | None:
        """Returns the keys and values of the longest known beginning of a text, without its last token."""
        wanted = np.asarray(tokens[:-1])
        best, most = None, _LEAST_TOKENS - 1
        for key in self._texts:
            common = min(len(key), len(wanted))
            different = np.asarray(key[:common]) != wanted[:common]
            length = int(different.argmax()) if different.any() else common
            if length > most:
                best, most = key, length
        if best is None:
            return None
        self._texts.move_to_end(best)
        return {name: array[:, :most] for name, array in self._texts[best].items()}

    def _drop(self, key: tuple[int, ...]) -> None:
        self.nbytes -= _bytes_of(self._texts.pop(key))


def _bytes_of(caches: Caches) -> int:
    return sum(array.nbytes for array in caches.values())
