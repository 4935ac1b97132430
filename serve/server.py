"""`TextServer`: answers the requests of OpenAI's API with the texts of an engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..frontend.errors import ModelError
from ..lm.grammar import GrammarError
from ..lm.model import LanguageModel
from ..lm.request import End
from ..lm.sampling import SamplingOptions
from ..support.errors import InputError
from .asked import Asked, read_chat, read_completion
from .fields import Fields, RequestError
from .growing import GrowingText
from .metrics import Metrics
from .replies import Reply, encoded, error_of, event

if TYPE_CHECKING:
    from ..lm.engine import Engine

_PAGE = Path(__file__).parent / "assets" / "chat.html"
_ONLY_ITSELF = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
"""Content security policy of the page: it loads nothing, and calls this server only."""
_RETRY_SECONDS = 1
_Read = Callable[[Fields, str, SamplingOptions], Asked]


@dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Attributes:
        name: name of the model for clients.
        sampling: how tokens are chosen where requests do not say it.
        most_requests: number of requests in progress, with those that wait, above which more are refused.
        most_bytes: maximum size of a request.
    """

    name: str
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(temperature=1.0))
    most_requests: int = 64
    most_bytes: int = 4 << 20


class TextServer:
    """A server of one model. All methods run in the event loop.

    Attributes:
        app: the application for an ASGI server.
    """

    def __init__(self, model: LanguageModel, engine: Engine, options: ServerOptions) -> None:
        self._model, self._engine, self._options = model, engine, options
        self._metrics, self._created, self._open = Metrics(engine), int(time.time()), 0
        self._page = _PAGE.read_bytes()
        handlers: dict[Any, Any] = {
            HTTPException: self._http_failed,
            RequestError: self._refused,
            ClientDisconnect: self._left,
            Exception: self._failed,
        }
        routes = [
            Route("/v1/chat/completions", partial(self._answer, read=read_chat), methods=["POST"]),
            Route("/v1/completions", partial(self._answer, read=read_completion), methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/health", self._health),
            Route("/metrics", self._figures),
            Route("/", self._chat_page),
        ]
        self.app = Starlette(routes=routes, exception_handlers=handlers)

    async def _answer(self, http: HttpRequest, read: _Read) -> Response:
        asked = read(Fields.read(await self._body(http)), self._options.name, self._options.sampling)
        text = await self._begin(asked)
        reply = Reply(self._options.name, asked.is_chat, asked.logprobs is not None, asked.includes_usage)
        if asked.streams:
            return _Events(_events(text, reply), text.request.cancel)
        watch = asyncio.create_task(_cancel_at_disconnect(http, text))
        try:
            pieces, end = await text.whole()
        finally:
            watch.cancel()
            text.request.cancel()
        _check(end)
        return _json(reply.whole(pieces, end))

    async def _body(self, http: HttpRequest) -> bytes:
        body = bytearray()
        async for part in http.stream():
            body += part
            if len(body) > self._options.most_bytes:
                raise RequestError(f"the request has more than {self._options.most_bytes} bytes", status=413)
        return bytes(body)

    async def _begin(self, asked: Asked) -> GrowingText:
        """Hands a request to the engine; raises a `RequestError` if there are too many, or it is wrong."""
        if self._open >= self._options.most_requests:
            message = f"{self._open} requests are in progress; try again later"
            raise RequestError(message, status=429, code="too_many_requests", retry_after=_RETRY_SECONDS)
        self._open += 1
        try:
            # Other requests go on meanwhile.
            tokens = await run_in_threadpool(asked.tokens, self._model.tokenizer)
            text = GrowingText(asked, tokens, self._ended)
            await run_in_threadpool(self._engine.submit, text.request)  # which reads the grammar
        except BaseException as error:
            self._open -= 1
            raise _refusal(error) from error
        return text

    def _ended(self, text: GrowingText) -> None:
        self._open -= 1
        self._metrics.ended(text)

    async def _models(self, http: HttpRequest) -> Response:
        details = {"context": self._model.context, "has_chat_template": bool(self._model.tokenizer.template)}
        entry = {"id": self._options.name, "object": "model", "created": self._created, "owned_by": "stepwell"}
        return _json({"object": "list", "data": [{**entry, "meta": details}]})

    async def _health(self, http: HttpRequest) -> Response:
        return _json({"status": "ok"})

    async def _figures(self, http: HttpRequest) -> Response:
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    async def _chat_page(self, http: HttpRequest) -> Response:
        return Response(self._page, media_type="text/html", headers={"Content-Security-Policy": _ONLY_ITSELF})

    async def _refused(self, http: HttpRequest, error: RequestError) -> Response:
        self._metrics.failed(error.status)
        headers = {"Retry-After": str(error.retry_after)} if error.retry_after else {}
        return _json(error_of(error), error.status, headers)

    async def _http_failed(self, http: HttpRequest, error: HTTPException) -> Response:
        message = f"{http.method} {http.url.path}: {error.detail}"
        return await self._refused(http, RequestError(message, status=error.status_code))

    async def _left(self, http: HttpRequest, error: ClientDisconnect) -> Response:
        return Response(status_code=HTTPStatus.BAD_REQUEST)  # not received

    async def _failed(self, http: HttpRequest, error: Exception) -> Response:
        return await self._refused(http, RequestError(f"internal error: {type(error).__name__}", status=500))


class _Events(StreamingResponse):
    """A response of server-sent events; a client that disconnects cancels its text."""

    media_type = "text/event-stream"

    def __init__(self, content: AsyncIterator[bytes], cancel: Callable[[], None]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._cancel = cancel

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._cancel()


async def _events(text: GrowingText, reply: Reply) -> AsyncIterator[bytes]:
    yield b"".join(map(event, reply.start()))
    end: End | None = None
    while end is None:
        pieces, end = await text.next()
        if pieces:
            yield b"".join(event(reply.chunk(piece)) for piece in pieces)
    try:
        _check(end)
    except RequestError as error:  # the response has begun, so it has no status any more
        yield event(error_of(error))
        return
    yield b"".join(map(event, reply.end(end))) + b"data: [DONE]\n\n"


def _check(end: End) -> None:
    """Raises a `RequestError` if a text was not ended by what the client asked for."""
    if end.reason == "error":
        raise RequestError(f"the text failed: {end.error}", status=500)
    if end.reason == "cancelled":
        raise RequestError("the server ends", status=503, code="unavailable")


async def _cancel_at_disconnect(http: HttpRequest, text: GrowingText) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
    text.request.cancel()


def _refusal(error: BaseException) -> BaseException:
    """Returns the error for a client whose request does not suit the model; other errors stay."""
    if isinstance(error, GrammarError):
        return RequestError(str(error), param="response_format", code="invalid_value")
    if isinstance(error, ModelError):
        return RequestError(f"the model {error}", status=422, param="messages")
    return RequestError(str(error), code="context_length_exceeded") if isinstance(error, InputError) else error


def _json(record: Mapping[str, Any], status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(record), status, headers, "application/json")
