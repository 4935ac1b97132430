"""Texts that grow together, by one token each in a call: their keys and values end at one position of a state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .model import LanguageModel

Caches = Mapping[str, np.ndarray]
"""Keys and values of a text by the names of the model's inputs, each [key heads, tokens, depth]."""

_ROWS, _PLACES = 0, 2
"""The dimensions of the state's arrays for texts, and for tokens."""

_LEAST_ROWS = 2
"""Smallest batch of the program for several texts; a text that is alone shares it with an empty one."""

_SLACK = 64
"""Maximum number of unused positions before all texts; beyond it, the texts are moved to the beginning."""


class SequencePool:
    """A batch of texts of any lengths, each a row of the state.

    Texts end at the same position, so that the next tokens of all of them are written there. A shorter text begins
    later.

    Attributes:
        lengths: number of tokens of each text.
    """

    def __init__(self, model: LanguageModel) -> None:
        """Starts without texts."""
        self._model, self._least = model, min(_LEAST_ROWS, model.sequences)
        self._state = (model.together or model.executable).state({"batch": self._least})
        self.lengths: list[int] = []

    def add(self, caches: Caches) -> None:
        """Adds a text as the last row."""
        length = next(iter(caches.values())).shape[1]
        row, end = len(self.lengths), max(self._state.length, length)
        self.lengths.append(length)
        if end > self._state.length:
            self._move(end)
        self._state.resize(_ROWS, max(len(self.lengths), self._least))
        for name, array in self._state.arrays.items():
            array[row, :, end - length :] = caches[name]
            array[row, :, : end - length] = 0  # masked, but must be finite: it is multiplied by 0

    def remove(self, row: int) -> None:
        """Removes a text; the last one takes its row."""
        last = len(self.lengths) - 1
        length = self.lengths[last]
        if row != last:
            for array in self._state.arrays.values():
                start = array.shape[_PLACES] - length
                array[row, :, start:] = array[last, :, start:]
                array[row, :, :start] = 0
        self.lengths[row] = length
        self.lengths.pop()
        if self.lengths:
            self._state.resize(_ROWS, max(len(self.lengths), self._least))
        else:
            self._state.reset()

    def caches(self, row: int) -> dict[str, np.ndarray]:
        """Returns a copy of the keys and values of a text."""
        length = self.lengths[row]
        return {
            name: array[row, :, array.shape[_PLACES] - length :].copy() for name, array in self._state.arrays.items()
        }

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        """Adds a token to each text; returns the logits after it, f32[texts, vocabulary]."""
        longest = max(self.lengths)
        if self._state.length > min(longest + longest // 4 + _SLACK, self._model.context - 1):
            self._move(longest)
        end = self._state.length
        empty = self._least - len(self.lengths)
        starts = [*(end - length for length in self.lengths), *[end] * empty]
        logits = self._model.step(self._state, [[token] for token in (*tokens, *[0] * empty)], starts)
        self.lengths = [length + 1 for length in self.lengths]
        return logits[: len(tokens)]

    def _move(self, end: int) -> None:
        """Moves all texts, so that they end at a position."""
        moved = {}
        for name, array in self._state.arrays.items():
            rows, heads, old, depth = array.shape
            moved[name] = np.zeros((rows, heads, end, depth), array.dtype)
            for row, length in enumerate(self.lengths[:rows]):
                kept = min(length, old)
                moved[name][row, :, end - kept :] = array[row, :, old - kept :]
        self._state.put(moved)
