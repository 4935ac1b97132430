"""Requests of OpenAI's API for texts, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..lm.grammar import json_schema
from ..lm.sampling import SamplingOptions
from ..lm.tokenizer import TextTokenizer
from ..support.errors import OptionError
from .json_fields import JsonFields, RequestError

_MOST_STOPS, _LONGEST_STOP, _LONGEST_PROMPT = 16, 1000, 1 << 30
_MOST_LOGPROBS = 20  # of OpenAI's API
_MOST_TEXTS = 128
"""Maximum number of texts that a request asks for, as in OpenAI's API."""
_COMPLETION_TOKENS = 16  # the default of OpenAI's API for /v1/completions
_GREEDY_BELOW = 1e-5
"""Temperatures below this choose the most probable token, as in vLLM: logits divided by them might overflow."""

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "echo": (False,),
    "suffix": ("",),
    "logit_bias": ({},),
    "tools": ([],),
    "functions": ([],),
}
"""Fields that would change the text, with the values that change nothing: others would be ignored without notice."""


@dataclass(frozen=True)
class ChatPrompt:
    """The messages of a chat, whose next message is asked for.

    Attributes:
        messages: each with "role" and "content".
    """

    messages: Sequence[Mapping[str, str]]


Prompt: TypeAlias = str | tuple[int, ...] | ChatPrompt


@dataclass(frozen=True)
class TextRequest:
    """The texts that a client asks for.

    Attributes:
        prompts: each a text to continue, or its tokens, or the messages of a chat.
        count: number of texts for each prompt.
        sampling: how tokens are chosen.
        most: maximum number of tokens; None for as many as the context holds.
        stop: texts that end the text.
        logprobs: number of most probable tokens to report for each token; None for no log probabilities.
        streams: whether the text is sent as it grows.
        includes_usage: whether a stream ends with the numbers of tokens.
    """

    prompts: Sequence[Prompt]
    count: int
    sampling: SamplingOptions
    most: int | None
    stop: tuple[str, ...]
    logprobs: int | None
    streams: bool
    includes_usage: bool

    @property
    def is_chat(self) -> bool:
        """True if it is an answer in a chat."""
        return isinstance(self.prompts[0], ChatPrompt)

    def tokens(self, tokenizer: TextTokenizer) -> list[list[int]]:
        """Returns the tokens of each prompt; takes long for long prompts.

        Raises:
            RequestError: a token is not one of the model's.
        """
        return [_tokens(prompt, tokenizer) for prompt in self.prompts]

    def sampling_of(self, number: int) -> SamplingOptions:
        """Returns how the tokens of a text are chosen; texts of one prompt have seeds of their own."""
        seed = self.sampling.seed
        return self.sampling if seed is None else replace(self.sampling, seed=(seed + number) % (1 << 64))


def _tokens(prompt: Prompt, tokenizer: TextTokenizer) -> list[int]:
    if isinstance(prompt, tuple):
        wrong = next((token for token in prompt if token >= tokenizer.count), None)
        if wrong is not None:
            message = f"prompt has the token {wrong}, and the model has {tokenizer.count} tokens"
            raise RequestError(message, param="prompt", code="invalid_value")
        return list(prompt)
    return tokenizer.encode(prompt if isinstance(prompt, str) else tokenizer.chat(prompt.messages))


def read_chat(given: JsonFields, model: str, sampling: SamplingOptions) -> TextRequest:
    """Reads a request of /v1/chat/completions.

    Args:
        given: the request.
        model: name of the model that is served.
        sampling: how tokens are chosen where the request does not say it.

    Raises:
        RequestError: it is wrong.
    """
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise given.wrong("messages", "must be a list of messages")
    prompt = [_message(JsonFields(item, f"messages[{place}]")) for place, item in enumerate(messages)]
    top = given.whole("top_logprobs", 0, _MOST_LOGPROBS)
    has_logprobs = given.flag("logprobs")
    if top is not None and not has_logprobs:
        raise given.wrong("top_logprobs", "needs logprobs to be true")
    most = given.whole("max_completion_tokens", 1, 1 << 31) or given.whole("max_tokens", 1, 1 << 31)
    return _asked(given, model, sampling, [ChatPrompt(prompt)], most, (top or 0) if has_logprobs else None)


def read_completion(given: JsonFields, model: str, sampling: SamplingOptions) -> TextRequest:
    """Reads a request of /v1/completions; see `read_chat`."""
    if given.get("prompt") is None:
        raise given.wrong("prompt", "is missing")
    prompts = given.prompts("prompt", _MOST_TEXTS, _LONGEST_PROMPT)
    most = given.whole("max_tokens", 1, 1 << 31) or _COMPLETION_TOKENS
    return _asked(given, model, sampling, prompts, most, given.whole("logprobs", 0, _MOST_LOGPROBS))


def _message(given: JsonFields) -> dict[str, str]:
    role = given.text("role")
    if role not in _ROLES:
        raise given.wrong("role", f"must be one of {', '.join(_ROLES)}")
    content = given.get("content")
    if not isinstance(content, list):
        return {"role": _ROLES[role], "content": given.text("content") or ""}
    parts = [JsonFields(item, "content") for item in content]
    if any(part.text("type") != "text" for part in parts):
        raise given.wrong("content", "must be text: the model reads no pictures or sounds")
    return {"role": _ROLES[role], "content": "".join(part.text("text") or "" for part in parts)}


def _asked(
    given: JsonFields,
    model: str,
    sampling: SamplingOptions,
    prompts: Sequence[Prompt],
    most: int | None,
    logprobs: int | None,
) -> TextRequest:
    named = given.text("model")
    if named not in (None, model):
        message = f"there is no model '{named}'; this server has '{model}'"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    for name, harmless in _UNSUPPORTED.items():
        if given.get(name) not in (None, *harmless):
            raise given.wrong(name, "is not supported")
    stop = given.texts("stop", _MOST_STOPS, _LONGEST_STOP)
    includes_usage = JsonFields(given.get("stream_options") or {}, "stream_options").flag("include_usage")
    count = given.whole("n", 1, _MOST_TEXTS) or 1
    chosen, streams = _sampling(given, sampling), given.flag("stream")
    return TextRequest(prompts, count, chosen, most, stop, logprobs, streams, includes_usage)


def _sampling(given: JsonFields, default: SamplingOptions) -> SamplingOptions:
    readers: dict[str, Callable[[str], Any]] = {
        "temperature": lambda name: given.number(name, 0, 100),
        "top_p": lambda name: given.number(name, 0, 1),
        "min_p": lambda name: given.number(name, 0, 1),
        "top_k": lambda name: given.whole(name, -1, 1 << 31),
        "seed": lambda name: given.whole(name, -(1 << 63), (1 << 64) - 1),
        "presence_penalty": lambda name: given.number(name, -2, 2),
        "frequency_penalty": lambda name: given.number(name, -2, 2),
    }
    values = {name: value for name, read in readers.items() if (value := read(name)) is not None}
    if values.get("top_k") == -1:  # all, in vLLM's API
        values["top_k"] = 0
    grammar = _grammar(JsonFields(given.get("response_format") or {}, "response_format"))
    if grammar:
        values["grammar"] = grammar
    if 0 < values.get("temperature", 1) < _GREEDY_BELOW:
        values["temperature"] = 0.0
    if "seed" in values:
        values["seed"] %= 1 << 64
    try:
        return replace(default, **values)
    except OptionError as error:
        raise RequestError(str(error), code="invalid_value") from None


def _grammar(given: JsonFields) -> str:
    """Returns the grammar of a response format; "" if it is any text."""
    kind = given.text("type") or "text"
    if kind not in ("text", "json_object", "json_schema"):
        raise given.wrong("type", "must be text, json_object or json_schema")
    if kind == "text":
        return ""
    schema = JsonFields(given.get("json_schema"), "json_schema").get("schema") if kind == "json_schema" else None
    if schema is not None and not isinstance(schema, dict):
        raise given.wrong("json_schema.schema", "must be an object")
    return json_schema(schema)
