"""Responses in the forms of OpenAI's API, for texts as a whole and as they grow."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..lm.request import End, Piece, TokenChoice
from ..support.version import VERSION
from .request_error import RequestError
from .text_request import TextRequest

_LEAST_LOGPROB = -9999.0  # OpenAI's value for a very unlikely token; JSON has no infinity


class Reply:
    """The response to one request, with one choice for each text.

    Attributes:
        has_usage: whether chunks have a field for the usage.
    """

    def __init__(self, model: str, text_request: TextRequest) -> None:
        self._is_chat, self._has_logprobs, self.has_usage = (
            text_request.is_chat,
            text_request.logprobs is not None,
            text_request.includes_usage,
        )
        self._per_prompt, self._texts = text_request.count, len(text_request.prompts) * text_request.count
        kind = "chat.completion" if self._is_chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if self._is_chat else 'cmpl'}-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"stepwell-{VERSION}",
        }
        self._offsets = [0] * self._texts

    def whole(self, texts: Sequence[tuple[Sequence[Piece], End]]) -> dict[str, Any]:
        """Returns the response with all texts as a whole."""
        choices = [self._whole(number, *text) for number, text in enumerate(texts)]
        return {**self._head, "choices": choices, "usage": self._usage([end for _, end in texts])}

    def _whole(self, number: int, pieces: Sequence[Piece], end: End) -> dict[str, Any]:
        text = "".join(piece.text for piece in pieces)
        content = (
            {"message": {"role": "assistant", "content": text, "refusal": None}} if self._is_chat else {"text": text}
        )
        logprobs = self._logprobs(number, [choice for piece in pieces for choice in piece.choices])
        return {"index": number, **content, "logprobs": logprobs, "finish_reason": end.reason}

    def start(self) -> list[dict[str, Any]]:
        """Returns the chunks before the first text."""
        if not self._is_chat:
            return []
        return [self._chunk(number, {"role": "assistant", "content": ""}) for number in range(self._texts)]

    def chunk(self, number: int, piece: Piece) -> dict[str, Any]:
        """Returns the chunk of a piece of a text."""
        return self._chunk(number, {"content": piece.text}, piece.text, self._logprobs(number, piece.choices))

    def end(self, number: int, end: End) -> dict[str, Any]:
        """Returns the chunk after a text."""
        return self._chunk(number, {}, finish=end.reason)

    def last(self, ends: Sequence[End]) -> list[dict[str, Any]]:
        """Returns the chunks after all texts."""
        if not self.has_usage:
            return []
        return [{**self._chunk(0, {}), "choices": [], "usage": self._usage(ends)}]

    def _usage(self, ends: Sequence[End]) -> dict[str, Any]:
        """Returns the numbers of tokens; a prompt counts once, however many texts continue it."""
        once = ends[:: self._per_prompt]
        prompt, made = sum(end.prompt_tokens for end in once), sum(end.tokens for end in ends)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": made,
            "total_tokens": prompt + made,
            "prompt_tokens_details": {"cached_tokens": sum(end.cached_tokens for end in once)},
        }

    def _chunk(
        self, number: int, delta: Mapping[str, str], text: str = "", logprobs: Any = None, finish: str | None = None
    ) -> dict[str, Any]:
        content = {"delta": delta} if self._is_chat else {"text": text}
        choice = {"index": number, **content, "logprobs": logprobs, "finish_reason": finish}
        kind = "chat.completion.chunk" if self._is_chat else "text_completion"
        rest = {"usage": None} if self.has_usage else {}
        return {**self._head, "object": kind, "choices": [choice], **rest}

    def _logprobs(self, number: int, choices: Iterable[TokenChoice]) -> dict[str, Any] | None:
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
            found["text_offset"].append(self._offsets[number])
            self._offsets[number] += len(choice.text)
        return found


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
