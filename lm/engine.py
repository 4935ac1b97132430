"""`Engine`: continues many texts at once, as requests come and go."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType

import numpy as np

from ..support.errors import InputError
from .generation import Generation
from .grammar import GrammarError
from .pages import PagedText
from .prefix_cache import PrefixCache
from .proposals import advance
from .request import End, FinishReason, Request
from .text_model import TextModel
from .text_states import CHUNK, SavedText, chunk_of

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
        proposed: number of tokens that were proposed while one text grew alone.
        accepted: number of those that the model chose too.
        interrupted: how often a text gave up its pages to others, and was read again later.
        pages: number of pages for keys and values.
        free_pages: number of those that no text has, running or ended.
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
    proposed: int = 0
    accepted: int = 0
    interrupted: int = 0
    pages: int = 0
    free_pages: int = 0
    memory_bytes: int = 0


@dataclass(eq=False)
class _Text:
    """A request, and the text that it gets.

    Attributes:
        request: the request.
        generation: its text so far.
        cached: number of tokens of the prompt whose keys and values were known.
        paged: its pages; None while it waits.
        saved: its keys and values while it waits for pages; None if they are computed again.
        given: inputs of its steps that are computed from its source; None before.
    """

    request: Request
    generation: Generation
    cached: int = 0
    paged: PagedText | None = None
    saved: SavedText | None = None
    given: Mapping[str, np.ndarray] | None = None

    @property
    def tokens(self) -> list[int]:
        """The tokens of the prompt and of the text so far."""
        return [*self.request.tokens, *self.generation.tokens]

    def end(self, reason: FinishReason, error: str = "") -> None:
        counts = len(self.request.tokens), self.cached, len(self.generation.tokens)
        self.request.deliver(End(reason, *counts, error))


class Engine:
    """Continues many texts at once in a separate thread (continuous batching; Yu et al., OSDI 2022).

    Each call of the model adds a token to every text in the batch. Requests join between calls: the tokens of their
    prompts are computed in chunks, so that the others wait for a short time only.

    Keys and values are in pages of one pool. Ended texts keep theirs until others need them. If none is left, the text
    that started last gives up its pages; it waits, and is read again. A text starts only if there are pages for its
    prompt and for a further one of each running text.

    While one text grows alone, tokens are proposed for it if the model was loaded for that.
    """

    def __init__(self, model: TextModel) -> None:
        """Starts the thread.

        Args:
            model: the model, loaded for the number of sequences that grow together.
        """
        self._model, self._pool = model, model.pool()
        self._table = self._pool.table
        self._prefixes = PrefixCache(self._table)
        self._proposals = model.proposals()
        self._proposing: _Text | None = None
        """The text that the proposals are for."""
        self._prompt: tuple[_Text, list[int]] | None = None
        """The text whose prompt is read, and the tokens that are not read yet."""
        self._texts: list[_Text] = []
        """The texts that grow, in the order in which they started."""
        self._waiting: deque[_Text] = deque()
        self._changed, self._is_closed = threading.Condition(), False
        self._figures = EngineFigures(pages=self._table.pages, memory_bytes=self._pool.nbytes)
        self._thread = threading.Thread(target=self._run, name="stepwell-engine", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Adds a request; it is answered by its `deliver`.

        Raises:
            InputError: the prompt is empty or leaves no room in the context, the grammar is wrong, the source has
                another form than the model takes, or the engine is closed.
        """
        generation = self._model.generation(request)
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
        counts = {"proposed": self._proposals.proposed, "accepted": self._proposals.accepted}
        counts |= {"running": running, "waiting": len(self._waiting), "free_pages": self._table.free}
        return replace(self._figures, **counts)

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
            self._start()
        if self._prompt is not None:
            self._read(*self._prompt)
        if len(self._texts) == 1 and self._proposals.most:
            self._step_alone(self._texts[0])
        elif self._texts:
            self._step()

    def _start(self) -> None:
        """Starts the first text that waits, if there are pages for it."""
        text = self._waiting.popleft()
        tokens = text.tokens
        self._prompt = text, tokens  # so that the text ends if a later statement fails
        text.paged = (None if text.saved else self._known_beginning(tokens)) or self._table.text()
        needed = self._table.missing(text.paged, len(tokens) + 1) + len(self._texts)
        if self._texts and not self._prefixes.free(needed):
            self._release(text)
            self._waiting.appendleft(text)
            self._prompt = None
            return
        if text.given is None:
            start = time.perf_counter()
            text.given = self._model.inputs_of(text.request.source)
            self._count(prompt_seconds=time.perf_counter() - start)
        text.paged.given = text.given
        saved, text.saved = text.saved, None
        if saved is not None and self._reserve(text.paged, saved.length):
            self._pool.restore(text.paged, saved)
        self._prompt = text, tokens[text.paged.length :]
        if saved is None and not text.generation.tokens:
            text.cached = text.paged.length
            self._count(requests=1, prompt_tokens=len(tokens), cached_tokens=text.cached)

    def _known_beginning(self, tokens: list[int]) -> PagedText | None:
        """Returns a new text with what is known of a prompt; the last token alone would be rounded in another way."""
        if not self._model.shares_beginnings:
            return None
        return self._prefixes.find(tokens, 2 if self._model.is_batch_invariant else 1)

    def _read(self, text: _Text, unread: list[int]) -> None:
        """Reads a chunk of a prompt; after the last one, the text gets its first token and joins the others."""
        assert text.paged is not None
        count = chunk_of(len(unread), _CHUNK_BESIDE_OTHERS if self._texts else CHUNK)
        if not self._reserve(text.paged, text.paged.length + count):
            self._prompt = None
            self._interrupt(text)
            return
        start = time.perf_counter()
        logits = self._pool.step([text.paged], [unread[:count]])
        self._count(prompt_seconds=time.perf_counter() - start)
        if count < len(unread):
            self._prompt = text, unread[count:]
            return
        self._prompt = None
        if self._choose(text, logits[0]):
            self._texts.append(text)
        else:
            self._keep(text)

    def _step(self) -> None:
        """Adds a token to each text for which there is a page."""
        ready: list[tuple[_Text, PagedText]] = []
        for text in list(self._texts):
            if text not in self._texts:  # interrupted for an earlier one
                continue
            assert text.paged is not None
            while not self._reserve(text.paged, text.paged.length + 1):
                self._interrupt(self._texts.pop())
                if text.paged is None:
                    break
            else:
                ready.append((text, text.paged))
        if not ready:
            return
        start = time.perf_counter()
        logits = self._pool.step([paged for _, paged in ready], [text.generation.tokens[-1:] for text, _ in ready])
        self._count(steps=1, step_seconds=time.perf_counter() - start)
        for row, (text, _) in enumerate(ready):
            if not self._choose(text, logits[row]):
                self._texts.remove(text)
                self._keep(text)

    def _step_alone(self, text: _Text) -> None:
        """Adds a token to the only text that grows, and further ones if proposed tokens are the chosen ones."""
        paged, room = text.paged, self._model.context
        assert paged is not None
        most = self._proposals.most
        if not self._reserve(paged, min(paged.length + 1 + most, room)):
            most = 0
            if not self._reserve(paged, paged.length + 1):
                self._interrupt(self._texts.pop())
                return
        if self._proposing is not text or len(self._proposals.tokens) != len(text.tokens):
            self._proposing = text
            self._proposals.start(text.tokens)
        start, goes_on = time.perf_counter(), [True]

        def choose(logits: np.ndarray) -> bool:
            goes_on[0] = self._choose(text, logits)
            return goes_on[0]

        advance(self._pool, paged, text.generation, self._proposals, choose, most)
        self._count(steps=1, step_seconds=time.perf_counter() - start)
        if not goes_on[0]:
            self._texts.remove(text)
            self._keep(text)

    def _reserve(self, paged: PagedText, length: int) -> bool:
        """Gives a text room for tokens up to `length`, of ended texts if need be; returns whether there are pages."""
        if not self._prefixes.free(self._table.missing(paged, length)):
            return False
        self._pool.reserve(paged, length)
        return True

    def _interrupt(self, text: _Text) -> None:
        """Makes a text give up its pages and wait, before all others."""
        if self._model.is_batch_invariant and text.paged is not None and text.paged.length:
            text.saved = self._pool.save(text.paged)
        self._release(text)
        self._waiting.appendleft(text)
        self._count(interrupted=1)

    def _release(self, text: _Text) -> None:
        if text.paged is not None:
            self._table.release(text.paged)
            text.paged = None

    def _keep(self, text: _Text) -> None:
        """Keeps the keys and values of a text that ended."""
        paged, text.paged = text.paged, None
        if paged is None:
            return
        if not self._model.shares_beginnings:
            self._table.release(paged)
            return
        if self._model.is_batch_invariant:  # steps round in another way than prompts
            self._table.truncate(paged, len(text.request.tokens))
        self._prefixes.add(text.tokens, paged)

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

    def _drop_cancelled(self) -> None:
        for text in [text for text in self._texts if text.request.is_cancelled]:
            self._texts.remove(text)
            self._keep(text)
            text.end("cancelled")
        if self._prompt is not None and self._prompt[0].request.is_cancelled:
            text, self._prompt = self._prompt[0], None
            self._keep(text)
            text.end("cancelled")
        with self._changed:
            dropped = [text for text in self._waiting if text.request.is_cancelled]
            self._waiting = deque(text for text in self._waiting if not text.request.is_cancelled)
        for text in dropped:
            text.end("cancelled")

    def _end_all(self, reason: FinishReason, error: str = "") -> None:
        """Ends the texts in progress; at the end of the engine, also those that wait."""
        texts = [*self._texts, *([self._prompt[0]] if self._prompt is not None else [])]
        self._texts, self._prompt = [], None
        if self._is_closed:
            texts += self._waiting
            self._waiting.clear()
        for text in texts:
            self._release(text)
            text.end(reason, error)

    def _count(self, **more: float) -> None:
        values = {name: getattr(self._figures, name) + value for name, value in more.items()}
        self._figures = replace(self._figures, **values)
