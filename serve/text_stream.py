"""Texts that an engine continues, as they reach the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..lm.request import End, Piece, Request, Source
from .text_request import TextRequest


class TextStream:
    """A text that an engine continues on its thread, for a coroutine to read.

    Attributes:
        request: the request for the engine.
        first_seconds: time from the request to the first token; None before.
        seconds: time from the request to the end of the text; None before.
    """

    def __init__(
        self,
        text_request: TextRequest,
        inputs: tuple[Sequence[int], Source | None],
        number: int,
        ended: Callable[[TextStream], None],
    ) -> None:
        """Makes the request for an engine.

        Args:
            text_request: what the client asks for.
            inputs: the tokens of the prompt, and the source if there is one.
            number: the number of the text among those of the prompt.
            ended: called in the event loop at the end of the text, even if it is not read.
        """
        self._loop, self._ended, self._start = asyncio.get_running_loop(), ended, time.monotonic()
        self._items: list[Piece | End] = []
        self._arrived = asyncio.Event()
        self.first_seconds: float | None = None
        self.seconds: float | None = None
        sampling, (tokens, source) = text_request.sampling_of(number), inputs
        most, stop, logprobs = text_request.most, text_request.stop, text_request.logprobs
        self.request = Request(tokens, self._deliver, sampling, most, stop, logprobs, source)

    def _deliver(self, item: Piece | End) -> None:
        with suppress(RuntimeError):  # the loop is closed: the server has ended
            self._loop.call_soon_threadsafe(self._take, item)

    def _take(self, item: Piece | End) -> None:
        if not self._items:
            self._arrived.set()
        self._items.append(item)
        if self.first_seconds is None:
            self.first_seconds = time.monotonic() - self._start
        if isinstance(item, End):
            self.seconds = time.monotonic() - self._start
            self._ended(self)

    async def next(self) -> tuple[list[Piece], End | None]:
        """Waits for text; returns the pieces since the last call, and the end if it was reached."""
        await self._arrived.wait()
        self._arrived.clear()
        items, self._items = self._items, []
        end = next((item for item in items if isinstance(item, End)), None)
        return [item for item in items if isinstance(item, Piece)], end

    async def whole(self) -> tuple[list[Piece], End]:
        """Waits for the end of the text; returns all of its pieces."""
        pieces: list[Piece] = []
        while True:
            more, end = await self.next()
            pieces += more
            if end is not None:
                return pieces, end
