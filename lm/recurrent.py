"""Models such as Mamba and RWKV, whose texts have a state of fixed size instead of keys and values of all tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..frontend.huggingface.parts.recurrent import NEXT, STATE
from ..runtime.executable import Executable
from ..support.errors import InputError
from .model import LanguageModel
from .model_file import ModelFile
from .pages import PagedText, PageTable
from .text_states import CHUNK, SavedText, TextStates

_LEAST_STATES = 2
"""Minimum number of states in a pool: a text that continues a kept one begins with a copy of its state."""


class RecurrentStates(TextStates):
    """Texts whose states are arrays of fixed size; each state is a page."""

    def __init__(
        self, alone: Executable, together: Executable | None, table: PageTable, initial: Mapping[str, float]
    ) -> None:
        """Starts without texts.

        Args:
            alone: the step, for one text.
            together: the step for several texts; None for one only.
            table: the pages, all of them free.
            initial: the numbers that fill parts of the state of a text without tokens, by the ends of their names.
        """
        self._alone, self._together, self.table = alone, together, table
        infos = [info for info in alone.inputs if info.name.startswith(STATE)]
        self._names = [info.name.removeprefix(STATE) for info in infos]
        self._arrays = [np.zeros((table.pages, *map(int, info.shape[1:])), info.dtype) for info in infos]
        self._initial = [initial.get(name.rpartition(".")[2], 0.0) for name in self._names]
        self.nbytes = sum(array.nbytes for array in self._arrays)

    def step(self, texts: Sequence[PagedText], tokens: Sequence[Sequence[int]]) -> np.ndarray:
        """See `TextStates`."""
        for text in texts:
            self.reserve(text, text.length + len(tokens[0]))
        pages = np.array([int(text.table[0]) for text in texts])
        for text, page in zip(texts, pages.tolist(), strict=True):
            if not text.length:
                for array, number in zip(self._arrays, self._initial, strict=True):
                    array[page] = number
        logits, states = self._run(np.asarray(tokens), [array[pages] for array in self._arrays])
        for array, state in zip(self._arrays, states, strict=True):
            array[pages] = state
        for text in texts:
            text.length += len(tokens[0])
        return logits

    def _run(self, tokens: np.ndarray, states: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Returns the logits after tokens of each text, i64[texts, tokens], and the next states."""
        if len(tokens) > 1 and self._together is None:
            rows = [slice(row, row + 1) for row in range(len(tokens))]
            logits, made = zip(*(self._run(tokens[row], [item[row] for item in states]) for row in rows), strict=True)
            return np.concatenate(logits), [np.concatenate(items) for items in zip(*made, strict=True)]
        run = self._alone if len(tokens) == 1 or self._together is None else self._together
        given = {f"{STATE}{name}": state for name, state in zip(self._names, states, strict=True)}
        outputs = run.outputs_for({"input_ids": tokens, **given})
        made = dict(zip((info.name for info in run.outputs), outputs, strict=True))
        return made["logits"], [made[f"{NEXT}{name}"] for name in self._names]

    def check(self, text: PagedText, tokens: Sequence[int]) -> np.ndarray:
        """See `TextStates`; not supported."""
        raise InputError("tokens of a text with a state of fixed size cannot be proposed")

    def reserve(self, text: PagedText, length: int) -> None:
        """See `TextStates`."""
        replaced = self.table.reserve(text, length)
        if replaced is not None:
            old, new = replaced
            for array in self._arrays:
                array[new] = array[old]

    def save(self, text: PagedText) -> SavedText:
        """See `TextStates`."""
        return SavedText(text.length, [array[int(text.table[0])].copy() for array in self._arrays])

    def restore(self, text: PagedText, saved: SavedText) -> None:
        """See `TextStates`."""
        self.table.reserve(text, saved.length)
        text.length = saved.length
        for array, state in zip(self._arrays, saved.rows, strict=True):
            array[int(text.table[0])] = state


class RecurrentModel(LanguageModel):
    """A model whose texts have a state of fixed size."""

    def __init__(
        self,
        alone: Executable,
        together: Executable | None,
        stored: ModelFile,
        context: int,
        pages: int,
        sequences: int,
        is_batch_invariant: bool,
    ) -> None:
        """Takes the step.

        Args:
            alone: the step, for one text.
            together: the step for several texts; None for one only.
            stored: the model, whose texts have a state of fixed size.
            context: maximum number of tokens of a text.
            pages: number of states.
            sequences: maximum number of texts that grow together.
            is_batch_invariant: whether each text is the one that it is alone.
        """
        super().__init__(
            alone,
            stored.tokenizer,
            context,
            pages,
            together,
            sequences,
            is_batch_invariant=is_batch_invariant,
            page_size=context,
        )
        self._initial = stored.initial or {}

    def pool(self) -> TextStates:
        """See `LanguageModel`."""
        table = PageTable(self.pages, self.page_size, self.pages_of_text, is_whole=True)
        return RecurrentStates(self.executable, self.together, table, self._initial)


def load_recurrent(
    stored: ModelFile, context: int, threads: int | None, sequences: int, memory: int, is_batch_invariant: bool
) -> RecurrentModel:
    """Compiles a model whose texts have a state of fixed size; see `load`.

    Args:
        stored: the model.
        context: maximum number of tokens of a text.
        threads: number of threads of a call; None for one for each core.
        sequences: maximum number of texts that grow together.
        memory: bytes for states of texts besides two for each of those.
        is_batch_invariant: whether each text is the one that it is alone, which then steps alone.
    """
    lengths = [1] if context == 2 else [1, (2, min(CHUNK, context))]
    alone = compile_model(stored.source, threads=threads, options=Options(dims={"batch": 1, "length": lengths}))
    together = None
    if sequences > 1 and not is_batch_invariant:
        sizes = {"batch": (2, sequences), "length": 1}
        together = compile_model(stored.source, threads=threads, options=Options(dims=sizes, batch_invariant=True))
    infos = [info for info in stored.source.interface()[0] if info.name.startswith(STATE)]
    bytes_of_text = sum(info.dtype.itemsize * math.prod(map(int, info.shape[1:])) for info in infos)
    pages = max(_LEAST_STATES * sequences, memory // bytes_of_text)
    return RecurrentModel(alone, together, stored, context, pages, sequences, is_batch_invariant)
