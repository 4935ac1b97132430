"""`TextServer`: answers the requests of OpenAI's API with the texts of an engine."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..frontend.errors import ModelError
from ..lm.grammar import GrammarError
from ..lm.request import End
from ..lm.sampling import SamplingOptions
from ..lm.text_model import TextModel
from ..support.errors import InputError
from .metrics import Metrics
from .replies import Reply, encoded, error_of, event
from .request_error import RequestError
from .text_request import TextRequest, read_chat, read_completion
from .text_stream import TextStream

if TYPE_CHECKING:
    from ..lm.engine import Engine

_PAGE = Path(__file__).parent / "assets" / "chat.html"
_ONLY_ITSELF = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"
"""Content security policy of the page: it loads nothing, and calls this server only."""
_RETRY_SECONDS = 1
"""The header Retry-After (RFC 9110) of a refusal: a choice, as texts end all the time."""
_Read = Callable[[bytes, str, SamplingOptions], TextRequest]


@dataclass(frozen=True)
class ServerOptions:
    """Options of a server.

    Attributes:
        name: name of the model for clients.
        sampling: the default for requests that do not specify how tokens are chosen.
        most_requests: maximum number of texts in progress, including those that wait; further requests are refused.
        most_bytes: maximum size of a request.
        api_key: the key that requests to /v1 and /metrics must have; empty for none.
        origins: addresses of the pages of other servers that may ask this one, such as "https://example.org"; "*" for
            all.
    """

    name: str
    sampling: SamplingOptions = field(default_factory=lambda: SamplingOptions(temperature=1.0))
    most_requests: int = 64
    most_bytes: int = 4 << 20
    api_key: str = field(default="", repr=False)
    origins: tuple[str, ...] = ()


class TextServer:
    """A server of one model. All methods run in the event loop.

    Attributes:
        app: the application for an ASGI server.
    """

    def __init__(self, model: TextModel, engine: Engine, options: ServerOptions) -> None:
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
        headers = ("Authorization", "Content-Type")
        crossing = Middleware(
            CORSMiddleware, allow_origins=options.origins, allow_methods=("GET", "POST"), allow_headers=headers
        )
        middleware = [crossing] if options.origins else []
        self.app = Starlette(routes=routes, exception_handlers=handlers, middleware=middleware)

    async def _answer(self, http: HttpRequest, read: _Read) -> Response:
        self._check_key(http)
        text_request = read(await self._body(http), self._options.name, self._options.sampling)
        texts = await self._begin(text_request)
        reply = Reply(self._options.name, text_request)
        if text_request.streams:
            return _Events(_events(texts, reply), texts)
        watch = asyncio.create_task(_cancel_at_disconnect(http, texts))
        try:
            found = [await text.whole() for text in texts]
        finally:
            watch.cancel()
            _cancel(texts)
        for _, end in found:
            _check(end)
        return _json(reply.whole(found))

    def _check_key(self, http: HttpRequest) -> None:
        """Raises a `RequestError` if the server has a key that the request lacks."""
        key, given = self._options.api_key, http.headers.get("Authorization", "")
        if key and not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            raise RequestError("the API key is missing or wrong", status=401, code="invalid_api_key")

    async def _body(self, http: HttpRequest) -> bytes:
        body = bytearray()
        async for part in http.stream():
            body += part
            if len(body) > self._options.most_bytes:
                raise RequestError(f"the request has more than {self._options.most_bytes} bytes", status=413)
        return bytes(body)

    async def _begin(self, text_request: TextRequest) -> list[TextStream]:
        """Hands a request to the engine; raises a `RequestError` if there are too many, or it is wrong."""
        count, most = len(text_request.prompts) * text_request.count, self._options.most_requests
        if count > most:
            raise RequestError(f"asks for {count} texts, and the server makes at most {most}", code="invalid_value")
        if self._open + count > most:
            message = f"{self._open} texts are in progress, and {count} more are too many; try again later"
            raise RequestError(message, status=429, code="too_many_requests", retry_after=_RETRY_SECONDS)
        self._open += count
        texts: list[TextStream] = []
        try:
            # Other requests continue meanwhile.
            for inputs in await run_in_threadpool(text_request.inputs, self._model):
                for number in range(text_request.count):
                    text = TextStream(text_request, inputs, number, self._ended)
                    await run_in_threadpool(self._engine.submit, text.request)  # which reads the grammar
                    texts.append(text)
        except BaseException as error:  # also a cancelled request
            self._open -= count - len(texts)
            _cancel(texts)
            raise _refusal(error) from error
        return texts

    def _ended(self, text: TextStream) -> None:
        self._open -= 1
        self._metrics.ended(text)

    async def _models(self, http: HttpRequest) -> Response:
        self._check_key(http)
        details = {"context": self._model.context, "has_chat_template": bool(self._model.tokenizer.template)}
        entry = {"id": self._options.name, "object": "model", "created": self._created, "owned_by": "stepwell"}
        return _json({"object": "list", "data": [{**entry, "meta": details}]})

    async def _health(self, http: HttpRequest) -> Response:
        return _json({"status": "ok"})

    async def _figures(self, http: HttpRequest) -> Response:
        self._check_key(http)
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

    def __init__(self, content: AsyncIterator[bytes], texts: Sequence[TextStream]) -> None:
        super().__init__(content, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        self._texts = texts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            _cancel(self._texts)


async def _events(texts: Sequence[TextStream], reply: Reply) -> AsyncIterator[bytes]:
    yield b"".join(map(event, reply.start()))
    waiting = {asyncio.ensure_future(text.next()): number for number, text in enumerate(texts)}
    ends: dict[int, End] = {}
    try:
        while waiting:
            ready, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in ready:
                number, (pieces, end) = waiting.pop(task), task.result()
                chunks = [reply.chunk(number, piece) for piece in pieces]
                if end is None:
                    waiting[asyncio.ensure_future(texts[number].next())] = number
                else:
                    _check(end)
                    ends[number] = end
                    chunks.append(reply.end(number, end))
                if chunks:
                    yield b"".join(map(event, chunks))
    except RequestError as error:  # the response has begun, so it has no status any more
        yield event(error_of(error))
        return
    finally:
        for task in waiting:
            task.cancel()
    yield b"".join(map(event, reply.last([ends[number] for number in sorted(ends)]))) + b"data: [DONE]\n\n"


def _cancel(texts: Sequence[TextStream]) -> None:
    for text in texts:
        text.request.cancel()


def _check(end: End) -> None:
    """Raises a `RequestError` if a text was not ended by what the client asked for."""
    if end.reason == "error":
        raise RequestError(f"the text failed: {end.error}", status=500)
    if end.reason == "cancelled":
        raise RequestError("the server ends", status=503, code="unavailable")


async def _cancel_at_disconnect(http: HttpRequest, texts: Sequence[TextStream]) -> None:
    while (await http.receive())["type"] != "http.disconnect":
        pass
    _cancel(texts)


def _refusal(error: BaseException) -> BaseException:
    """Returns the error for a client whose request does not suit the model; other errors stay."""
    if isinstance(error, GrammarError):
        return RequestError(str(error), param="response_format", code="invalid_value")
    if isinstance(error, ModelError):
        return RequestError(f"the model {error}", status=422, param="messages")
    return RequestError(str(error), code="context_length_exceeded") if isinstance(error, InputError) else error


def _json(record: Mapping[str, Any], status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encoded(record), status, headers, "application/json")
