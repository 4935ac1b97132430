"""An engine that repeats prompts, in place of a model: for tests of the server, and its measurement."""

from __future__ import annotations

import queue
import threading
from dataclasses import asdict
from types import SimpleNamespace

from stepwell.lm.engine import EngineFigures
from stepwell.lm.grammar import GrammarError
from stepwell.lm.request import End, Piece, Request, TokenChoice
from stepwell.lm.tokenizer import TextTokenizer
from stepwell.support.errors import InputError


class EchoEngine:
    """Answers with the tokens of the prompt, again and again; those of a prompt with "#fail" end with an error."""

    def __init__(self, tokenizer: TextTokenizer, context: int = 64) -> None:
        self.model = SimpleNamespace(
            tokenizer=tokenizer,
            context=context,
            prompt=lambda text: (tokenizer.encode(text), None),
            prompt_of_tokens=lambda tokens: (tokens, None),
        )
        self.figures, self.seen, self._context = (
            SimpleNamespace(**asdict(EngineFigures(memory_bytes=1000))),
            [],
            context,
        )
        self.is_held = False
        """True if texts wait until they are cancelled."""
        self._requests: queue.Queue[Request | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        if len(request.tokens) >= self._context:
            raise InputError(f"the prompt has {len(request.tokens)} tokens, and the context {self._context}")
        if self.model.tokenizer.decode(request.tokens) == "#grammar":
            raise GrammarError("the grammar is wrong: as asked for")
        self.seen.append(request)
        self._requests.put(request)

    def close(self) -> None:
        self._requests.put(None)
        self._thread.join()

    def _run(self) -> None:
        texts: list[tuple[Request, list[str], int]] = []
        is_closed = False
        while not (is_closed and not texts):
            while not texts or not self._requests.empty():
                request = self._requests.get()
                if request is None:
                    is_closed = True
                    break
                words = [self.model.tokenizer.decode([token]) for token in request.tokens]
                texts.append((request, words, 0))
                self.figures.requests += 1
            texts = [following for text in texts if (following := self._step(*text, is_closed))]

    def _step(self, request: Request, words: list[str], done: int, is_closed: bool) -> tuple | None:
        room = self._context - len(words)
        most = room if request.most is None else min(request.most, room)
        reason = "cancelled" if request.is_cancelled or is_closed else "length" if done == most else None
        reason = "error" if "".join(words) == "#fail" and done == 2 else reason
        if reason is not None:
            request.deliver(End(reason, len(words), 1, done, "broken" if reason == "error" else ""))
            return None
        if self.is_held and done == 1:
            threading.Event().wait(0.001)
            return request, words, done
        token = request.tokens[done % len(words)]
        text = words[done % len(words)]
        top = ((token, text, -0.5), (0, "!", float("-inf")))[: request.logprobs or 0]
        request.deliver(Piece(text, () if request.logprobs is None else (TokenChoice(token, text, -0.5, top),)))
        self.figures.tokens += 1
        return request, words, done + 1
