"""`Engine`: continues many texts at once, as requests come and go."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np

from ..support.errors import InputError
from .generation import Generation
from .grammar import GrammarError
from .model import CHUNK, LanguageModel
from .prefix_cache import PrefixCache
from .request import End, FinishReason, Request
from .sequence_pool import SequencePool

_LOGGER = logging.getLogger("stepwell.lm")
_CHUNK_BESIDE_OTHERS = 64
"""Maximum number of tokens of a prompt in one call while other texts wait for their next token."""


@dataclass(frozen=True)
class EngineFigures:
    """The state and the counts of an engine.

    Attributes:
        running: number of texts that grow.
        waiting: number of requests that wait for room.
        requests: number of requests so far.
        prompt_tokens: number of their tokens.
        cached_tokens: number of those that were not computed again.
        tokens: number of generated tokens.
        steps: number of calls that added a token to each text.
        step_seconds: time of these calls.
        prompt_seconds: time of calls for prompts.
        memory_bytes: bytes that keys and values may take at most.
    """

    running: int = 0
    waiting: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    tokens: int = 0
    steps: int = 0
    step_seconds: float = 0.0
    prompt_seconds: float = 0.0
    memory_bytes: int = 0


@dataclass(eq=False)
class _Text:
    """A request, and the text that it gets."""

    request: Request
    generation: Generation
    cached: int = 0

    def end(self, reason: FinishReason, error: str = "") -> None:
        counts = len(self.request.tokens), self.cached, len(self.generation.tokens)
        self.request.deliver(End(reason, *counts, error))


class Engine:
    """Continues many texts at once in a separate thread (continuous batching; Yu et al., OSDI 2022).

    Each call of the model adds a token to every text in the batch. Requests join between calls: the tokens of their
    prompts are computed in chunks, so that the others wait for a short time only. Keys and values have room for all
    texts of the batch at their greatest length, so that a text that has started never runs out of memory.
    """

    def __init__(self, model: LanguageModel, *, cache_bytes: int = 1 << 28) -> None:
        """Starts the thread.

        Args:
            model: the model, loaded for the number of sequences that grow together.
            cache_bytes: maximum number of bytes of keys and values that are kept of ended texts.
        """
        self._model, self._pool, self._prefixes = model, SequencePool(model), PrefixCache(cache_bytes)
        self._prompt_state = model.executable.state({"batch": 1})
        self._prompt: tuple[_Text, list[int]] | None = None
        """The text whose prompt is read, and the tokens that are not read yet."""
        self._texts: list[_Text] = []
        """The texts in the rows of the pool."""
        self._waiting: deque[_Text] = deque()
        self._changed, self._is_closed = threading.Condition(), False
        rows = max(2, model.sequences) + 1
        self._figures = EngineFigures(memory_bytes=rows * model.context * model.bytes_per_token + cache_bytes)
        self._thread = threading.Thread(target=self._run, name="stepwell-engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Adds a request; it is answered by its `deliver`.

        Raises:
            InputError: the prompt is empty or leaves no room in the context, the grammar is wrong, or the engine is
                closed.
        """
        most = self._model.room(request.tokens, request.most)
        generation = Generation(self._model.tokenizer, request.sampling, most, request.stop, request.logprobs)
        with self._changed:
            if self._is_closed:
                raise InputError("the engine is closed")
            self._waiting.append(_Text(request, generation))
            self._changed.notify()

    def close(self) -> None:
        """Ends all texts, and waits for the thread."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    @property
    def figures(self) -> EngineFigures:
        """Its state and counts at this moment."""
        running = len(self._texts) + (self._prompt is not None)
        return replace(self._figures, running=running, waiting=len(self._waiting))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._is_closed or self._waiting or self._texts or self._prompt):
                    self._changed.wait()
                if self._is_closed:
                    break
            try:
                self._advance()
            except Exception as error:  # callers that wait for a text must be told that it ends
                _LOGGER.exception("a step failed; the texts in progress end")
                self._end_all("error", f"{type(error).__name__}: {error}")
        self._end_all("cancelled")

    def _advance(self) -> None:
        """Reads a part of a prompt, and adds a token to each text."""
        self._drop_cancelled()
        if self._prompt is None and self._waiting and len(self._texts) < self._model.sequences:
            self._start(self._waiting.popleft())
        if self._prompt is not None:
            self._read(*self._prompt)
        if self._texts:
            self._step()

    def _start(self, text: _Text) -> None:
        tokens = list(text.request.tokens)
        self._prompt = text, tokens  # so that the text ends if a later statement fails
        caches = self._prefixes.find(tokens)
        self._prompt_state.reset()
        if caches is not None:
            self._prompt_state.put({name: array[None] for name, array in caches.items()})
        text.cached = self._prompt_state.length
        self._prompt = text, tokens[text.cached :]
        self._count(requests=1, prompt_tokens=len(tokens), cached_tokens=text.cached)

    def _read(self, text: _Text, unread: list[int]) -> None:
        """Reads a chunk of a prompt; after the last one, the text gets its first token and joins the pool."""
        start = time.perf_counter()
        count = min(len(unread), _CHUNK_BESIDE_OTHERS if self._texts else CHUNK, self._model.context)
        logits = self._model.step(self._prompt_state, [unread[:count]])
        self._count(prompt_seconds=time.perf_counter() - start)
        if count < len(unread):
            self._prompt = text, unread[count:]
            return
        caches = {name: array[0] for name, array in self._prompt_state.arrays.items()}
        goes_on = self._choose(text, logits[0])
        if goes_on:
            self._pool.add(caches)
            self._texts.append(text)
        self._prompt = None
        if not goes_on:
            self._prefixes.add(text.request.tokens, {name: array.copy() for name, array in caches.items()})

    def _step(self) -> None:
        start = time.perf_counter()
        logits = self._pool.step([text.generation.tokens[-1] for text in self._texts])
        self._count(steps=1, step_seconds=time.perf_counter() - start)
        for row in reversed(range(len(self._texts))):
            if not self._choose(self._texts[row], logits[row]):
                self._remove(row)

    def _choose(self, text: _Text, logits: np.ndarray) -> bool:
        """Chooses the next token of a text and delivers it; returns whether the text goes on."""
        try:
            piece = text.generation.add(logits)
        except GrammarError as error:  # of this text alone
            text.end("error", str(error))
            return False
        self._count(tokens=1)
        if piece.text or piece.choices:
            text.request.deliver(piece)
        if text.generation.finish is not None:
            text.end(text.generation.finish)
        return text.generation.finish is None

    def _remove(self, row: int) -> None:
        """Removes a text from the pool, and keeps its keys and values."""
        text, caches = self._texts[row], self._pool.caches(row)
        read = self._pool.lengths[row]
        self._prefixes.add([*text.request.tokens, *text.generation.tokens][:read], caches)
        self._pool.remove(row)
        self._texts[row] = self._texts[-1]
        self._texts.pop()

    def _drop_cancelled(self) -> None:
        for row in reversed(range(len(self._texts))):
            if self._texts[row].request.is_cancelled:
                text = self._texts[row]
                self._remove(row)
                text.end("cancelled")
        if self._prompt is not None and self._prompt[0].request.is_cancelled:
            text, self._prompt = self._prompt[0], None
            text.end("cancelled")
        with self._changed:
            dropped = [text for text in self._waiting if text.request.is_cancelled]
            self._waiting = deque(text for text in self._waiting if not text.request.is_cancelled)
        for text in dropped:
            text.end("cancelled")

    def _end_all(self, reason: FinishReason, error: str = "") -> None:
        """Ends the texts in progress; at the end of the engine, also those that wait."""
        texts = [*self._texts, *([self._prompt[0]] if self._prompt is not None else [])]
        self._texts, self._prompt, self._pool = [], None, SequencePool(self._model)
        if self._is_closed:
            texts += self._waiting
            self._waiting.clear()
        for text in texts:
            text.end(reason, error)

    def _count(self, **more: float) -> None:
        values = {name: getattr(self._figures, name) + value for name, value in more.items()}
        self._figures = replace(self._figures, **values)
