"""A compiled decoder with its tokenizer, which continues prompts."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..driver.api import compile as compile_model
from ..driver.options import Options
from ..frontend.errors import ModelError
from ..frontend.gguf.decoder import DecoderSizes
from ..frontend.gguf.reader import read_gguf
from ..runtime.executable import Executable
from ..support.errors import InputError
from .sampling import SamplingOptions
from .tokenizer import TextTokenizer

_CHUNK = 512
"""Tokens of a prompt that one call takes; scratch memory grows with it."""

_CONTEXT = 4096
"""Length of texts unless the caller says it: keys and values of all tokens are kept in memory."""


def load(path: str | os.PathLike[str], context: int | None = None, threads: int | None = None) -> LanguageModel:
    """Loads a GGUF file, and compiles its decoder or takes it from the cache.

    Args:
        path: the file.
        context: maximum number of tokens of a text with its prompt; by default that of the file, at most 4,096.
        threads: number of threads of a call; by default one for each core.

    Raises:
        ModelError: the file is damaged, or its decoder or tokenizer is not supported.
        InputError: the model was not made for texts of this length.
    """
    path = Path(path)
    try:
        file = read_gguf(path)
        most = DecoderSizes.of(file).context
        tokenizer = TextTokenizer(file)
    except ModelError as error:
        raise error.at(model=path.name) from error.__cause__
    if context is not None and not 1 < context <= most:
        raise InputError(f"context is {context}, and must be from 2 to {most}, the length that the model was made for")
    context = min(most, _CONTEXT) if context is None else context
    sizes = {"batch": 1, "length": (1, min(_CHUNK, context)), "past": (0, context - 1), "outputs": 1}
    return LanguageModel(compile_model(path, threads=threads, options=Options(dims=sizes)), tokenizer, context)


class LanguageModel:
    """A model that continues texts.

    Attributes:
        executable: the compiled decoder.
        tokenizer: the tokenizer of its file.
        context: maximum number of tokens of a text with its prompt.
    """

    def __init__(self, executable: Executable, tokenizer: TextTokenizer, context: int) -> None:
        self.executable, self.tokenizer, self.context = executable, tokenizer, context

    def session(self) -> TextSession:
        """Returns a new session, which is independent of others."""
        return TextSession(self)

    def stream(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Continues a prompt; see `TextSession.stream`."""
        return self.session().stream(prompt, sampling, most=most, stop=stop)

    def generate(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> str:
        """Continues a prompt, and returns the text as a whole."""
        return "".join(self.stream(prompt, sampling, most=most, stop=stop))


class TextSession:
    """A text in progress, with the keys and values of its tokens; a prompt that begins with it computes only the rest.

    Attributes:
        tokens: the tokens whose keys and values are kept.
    """

    def __init__(self, model: LanguageModel) -> None:
        self._model = model
        self._state = model.executable.state({"batch": 1})
        self.tokens: list[int] = []

    def chat(
        self,
        messages: Sequence[Mapping[str, str]],
        sampling: SamplingOptions | None = None,
        *,
        most: int | None = None,
        stop: Sequence[str] = (),
    ) -> Iterator[str]:
        """Answers the last message of a chat, by the model's chat template.

        Args:
            messages: each with "role" ("system", "user" or "assistant") and "content".
            sampling: see `stream`.
            most: see `stream`.
            stop: see `stream`.
        """
        return self.stream(self._model.tokenizer.chat(messages), sampling, most=most, stop=stop)

    def stream(
        self, prompt: str, sampling: SamplingOptions | None = None, *, most: int | None = None, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Continues a prompt until the model ends the text, and yields the text as it grows.

        Args:
            prompt: the text to continue. A beginning that it shares with the text so far is not computed again.
            sampling: how tokens are chosen; by default the most probable one.
            most: maximum number of tokens; by default as many as the context holds.
            stop: texts that end the text; they are not part of it.

        Raises:
            InputError: the prompt is empty or leaves no room in the context.
        """
        tokenizer, context = self._model.tokenizer, self._model.context
        tokens = tokenizer.encode(prompt)
        if not tokens:
            raise InputError("the prompt is empty")
        if len(tokens) >= context:
            raise InputError(f"the prompt has {len(tokens)} tokens, and the context {context}; load it with more")
        room = context - len(tokens)
        return self._stream(tokens, sampling or SamplingOptions(), room if most is None else min(most, room), stop)

    def _stream(
        self, tokens: Sequence[int], sampling: SamplingOptions, most: int, stop: Sequence[str]
    ) -> Iterator[str]:
        random, text = np.random.default_rng(sampling.seed), self._model.tokenizer.stepwise()
        ending = _StopText(stop)
        unread = self._unread(tokens)
        for _ in range(most):
            token = sampling.choose(self._logits(unread), random)
            if token in self._model.tokenizer.ends:
                break
            if ready := ending.add(text.add(token)):
                yield ready
            if ending.is_found:
                return
            unread = [token]
        if ending.rest:
            yield ending.rest

    def _unread(self, tokens: Sequence[int]) -> Sequence[int]:
        """Keeps what the state and some tokens have in common; returns the tokens after it, at least the last one."""
        pairs = zip(self.tokens, tokens[:-1], strict=False)
        common = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
        self._state.truncate(common)
        del self.tokens[common:]
        return tokens[common:]

    def _logits(self, tokens: Sequence[int]) -> np.ndarray:
        """Runs the decoder on one or more tokens; returns the logits after the last one."""
        chunk, logits = min(_CHUNK, self._model.context), np.empty(0)
        for start in range(0, len(tokens), chunk):
            part = list(tokens[start : start + chunk])
            logits = self._state(input_ids=np.array([part]), selected=np.array([len(part) - 1]))[0, 0]
            self.tokens += part
        return logits


class _StopText:
    """Text that ends at a stop text. Characters that may be the beginning of one are held back.

    Attributes:
        is_found: whether a stop text was found.
        rest: the characters held back.
    """

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [item for item in stop if item]
        self.is_found, self.rest = False, ""

    def add(self, text: str) -> str:
        """Adds text; returns the text that may be passed on."""
        whole = self.rest + text
        ends = [place for item in self._stop if (place := whole.find(item)) >= 0]
        if ends:
            self.is_found, self.rest = True, ""
            return whole[: min(ends)]
        kept = max((_overlap(whole, item) for item in self._stop), default=0)
        self.rest = whole[len(whole) - kept :]
        return whole[: len(whole) - kept]


def _overlap(text: str, other: str) -> int:
    """Returns the number of characters at the end of a text with which another text begins."""
    most = min(len(text), len(other) - 1)
    return next((count for count in range(most, 0, -1) if text.endswith(other[:count])), 0)
