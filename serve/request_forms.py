"""Forms of the requests of OpenAI's API, which msgspec reads and checks; null counts as absent."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from .request_error import RequestError

MOST_TEXTS = 128
"""Maximum number of texts that a request asks for, as in OpenAI's API."""

Share = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Tokens = Annotated[int, Meta(ge=1, le=1 << 31)]
Logprobs = Annotated[int, Meta(ge=0, le=20)]
Stop = Annotated[str, Meta(max_length=1000)]


class MessagePart(Struct):
    """A part of a message."""

    type: Literal["text"]
    text: str | None = None


class Message(Struct):
    """A message of a chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[MessagePart] | None = None


class StreamOptions(Struct):
    """Options of a stream."""

    include_usage: bool | None = None


class JsonSchema(Struct):
    """A named JSON schema."""

    schema: dict[str, Any] | None = None


class ResponseFormat(Struct):
    """The form that the text must have."""

    type: Literal["text", "json_object", "json_schema"] | None = None
    json_schema: JsonSchema | None = None


class TextForm(Struct, kw_only=True):
    """The fields that all requests for texts have."""

    model: str | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_TEXTS)] | None = None
    max_tokens: Tokens | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=16)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    temperature: Annotated[float, Meta(ge=0, le=100)] | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    top_k: Annotated[int, Meta(ge=-1, le=1 << 31)] | None = None
    seed: int | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    # Fields that would change the text, but are not supported: see `_HARMLESS`.
    best_of: Any = None
    echo: Any = None
    suffix: Any = None
    logit_bias: Any = None
    tools: Any = None
    functions: Any = None


class ChatForm(TextForm, kw_only=True):
    """A request of /v1/chat/completions."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_completion_tokens: Tokens | None = None
    logprobs: bool | None = None
    top_logprobs: Logprobs | None = None


class CompletionForm(TextForm, kw_only=True):
    """A request of /v1/completions."""

    prompt: str | list[str | int | list[int]]
    logprobs: Logprobs | None = None


_HARMLESS = {"best_of": 1, "echo": False, "suffix": "", "logit_bias": {}, "tools": [], "functions": []}
"""Values of unsupported fields that have no effect; others are errors, because they would be ignored silently."""

Form = TypeVar("Form", bound=TextForm)


def wrong(name: str, rule: str) -> RequestError:
    """Returns the error of a field that breaks a rule."""
    return RequestError(f"{name} {rule}", param=name, code="invalid_value")


def read_form(body: bytes, kind: type[Form]) -> Form:
    """Reads the body of a request.

    Raises:
        RequestError: it is not JSON, not of this form, or requests an unsupported feature.
    """
    try:
        form = msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise _refusal(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"the request is not JSON: {error}", code="invalid_json") from None
    for name, harmless in _HARMLESS.items():
        if getattr(form, name) not in (None, harmless):
            raise wrong(name, "is not supported")
    return form


def _refusal(message: str) -> RequestError:
    """Returns the error for a message of msgspec, such as "Expected `float` <= 1.0 - at `$.top_p`"."""
    rule, _, place = message.partition(" - at `$")
    path = [place.strip(".`")] if place else []
    if "missing required field" in rule:
        path.append(rule.split("`")[1])
        rule = "is missing"
    name = ".".join(filter(None, path))
    return RequestError(f"{name or 'the request'}: {rule}", param=name or None, code="invalid_value")
