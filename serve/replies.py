"""Responses in the forms of OpenAI's API, for texts as a whole and as they grow."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..lm.request import End, Piece, TokenChoice
from ..support.version import VERSION
from .fields import RequestError

_LEAST_LOGPROB = -9999.0  # OpenAI's sign for a token that is very unlikely; JSON has no infinity


class Reply:
    """The response to one request.

    Attributes:
        has_usage: whether chunks have a field for the usage.
    """

    def __init__(self, model: str, is_chat: bool, has_logprobs: bool, has_usage: bool) -> None:
        self._is_chat, self._has_logprobs, self.has_usage = is_chat, has_logprobs, has_usage
        kind = "chat.completion" if is_chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"stepwell-{VERSION}",
        }
        self._offset = 0

    def whole(self, pieces: Sequence[Piece], end: End) -> dict[str, Any]:
        """Returns the response with the text as a whole."""
        text = "".join(piece.text for piece in pieces)
        content = (
            {"message": {"role": "assistant", "content": text, "refusal": None}} if self._is_chat else {"text": text}
        )
        logprobs = self._logprobs([choice for piece in pieces for choice in piece.choices])
        choice = {"index": 0, **content, "logprobs": logprobs, "finish_reason": end.reason}
        return {**self._head, "choices": [choice], "usage": usage(end)}

    def start(self) -> list[dict[str, Any]]:
        """Returns the chunks before the first text."""
        return [self._chunk({"role": "assistant", "content": ""})] if self._is_chat else []

    def chunk(self, piece: Piece) -> dict[str, Any]:
        """Returns the chunk of a piece of text."""
        return self._chunk({"content": piece.text}, piece.text, self._logprobs(piece.choices))

    def end(self, end: End) -> list[dict[str, Any]]:
        """Returns the chunks after the last text."""
        last = self._chunk({}, finish=end.reason)
        return [last, {**last, "choices": [], "usage": usage(end)}] if self.has_usage else [last]

    def _chunk(
        self, delta: Mapping[str, str], text: str = "", logprobs: Any = None, finish: str | None = None
    ) -> dict[str, Any]:
        content = {"delta": delta} if self._is_chat else {"text": text}
        choice = {"index": 0, **content, "logprobs": logprobs, "finish_reason": finish}
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        rest = {"usage": None} if self.has_usage else {}
        return {**self._head, "object": kind, "choices": [choice], **rest}

    def _logprobs(self, choices: Iterable[TokenChoice]) -> dict[str, Any] | None:
        if not self._has_logprobs:
            return None
        if self._is_chat:
            content = [
                {
                    **_token(choice.text, choice.logprob),
                    "top_logprobs": [_token(text, logprob) for _, text, logprob in choice.top],
                }
                for choice in choices
            ]
            return {"content": content, "refusal": None}
        found: dict[str, list[Any]] = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for choice in choices:
            found["tokens"].append(choice.text)
            found["token_logprobs"].append(_finite(choice.logprob))
            found["top_logprobs"].append({text: _finite(logprob) for _, text, logprob in choice.top})
            found["text_offset"].append(self._offset)
            self._offset += len(choice.text)
        return found


def usage(end: End) -> dict[str, Any]:
    """Returns the numbers of tokens of a text."""
    return {
        "prompt_tokens": end.prompt_tokens,
        "completion_tokens": end.tokens,
        "total_tokens": end.prompt_tokens + end.tokens,
        "prompt_tokens_details": {"cached_tokens": end.cached_tokens},
    }


def error_of(error: RequestError) -> dict[str, Any]:
    """Returns the error object of a request that is not answered."""
    kind = "invalid_request_error" if error.status < 500 and error.status != 429 else "server_error"
    kind = "rate_limit_error" if error.status == 429 else kind
    return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code or None}}


def event(record: Mapping[str, Any]) -> bytes:
    """Returns a server-sent event with a record."""
    return b"data: %s\n\n" % encoded(record)


def encoded(record: Mapping[str, Any]) -> bytes:
    """Returns a record as JSON."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": _finite(logprob), "bytes": list(text.encode("utf-8"))}


def _finite(logprob: float) -> float:
    return max(logprob, _LEAST_LOGPROB)
