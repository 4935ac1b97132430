"""Requests of OpenAI's API for texts, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ..lm.grammar import json_schema
from ..lm.request import Source
from ..lm.sampling import SamplingOptions
from ..lm.text_model import TextModel
from ..support.errors import OptionError
from .request_error import RequestError
from .request_forms import MOST_TEXTS, ChatForm, CompletionForm, Message, ResponseFormat, TextForm, read_form, wrong

_COMPLETION_TOKENS = 16  # the default of OpenAI's API for /v1/completions
_LONGEST_PROMPT = 1 << 30
"""Maximum number of characters of a prompt: a choice; bodies of requests have a limit of their own."""
_GREEDY_BELOW = 1e-5
"""Temperatures below this choose the most probable token, as in vLLM: logits divided by them might overflow."""
_ROLES = {"developer": "system"}
"""Roles by the names that chat templates have for them."""
_SAMPLING = ("temperature", "top_p", "min_p", "top_k", "seed", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True)
class ChatPrompt:
    """The messages of a chat, whose next message is to be generated.

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

    def inputs(self, model: TextModel) -> list[tuple[Sequence[int], Source | None]]:
        """Returns the tokens to continue and the source for each prompt; takes long for long prompts.

        Raises:
            RequestError: a token is not one of the model's.
            InputError: the model takes no text.
        """
        return [_inputs(prompt, model) for prompt in self.prompts]

    def sampling_of(self, number: int) -> SamplingOptions:
        """Returns the sampling options of a text; each text of a prompt has its own seed."""
        seed = self.sampling.seed
        return self.sampling if seed is None else replace(self.sampling, seed=(seed + number) % (1 << 64))


def _inputs(prompt: Prompt, model: TextModel) -> tuple[Sequence[int], Source | None]:
    count = model.tokenizer.count
    if isinstance(prompt, tuple):
        unknown = next((token for token in prompt if token >= count), None)
        if unknown is not None:
            raise wrong("prompt", f"has the token {unknown}, and the model has {count} tokens")
        return model.prompt_of_tokens(list(prompt))
    return model.prompt(prompt if isinstance(prompt, str) else model.tokenizer.chat(prompt.messages))


def read_chat(body: bytes, model: str, sampling: SamplingOptions) -> TextRequest:
    """Reads a request of /v1/chat/completions.

    Args:
        body: the request.
        model: name of the model that is served.
        sampling: the default for options that the request does not specify.

    Raises:
        RequestError: it is wrong.
    """
    form = read_form(body, ChatForm)
    if form.top_logprobs is not None and not form.logprobs:
        raise wrong("top_logprobs", "needs logprobs to be true")
    prompt = ChatPrompt([{"role": _ROLES.get(item.role, item.role), "content": _text(item)} for item in form.messages])
    most = form.max_completion_tokens or form.max_tokens
    return _request(form, model, sampling, [prompt], most, (form.top_logprobs or 0) if form.logprobs else None)


def read_completion(body: bytes, model: str, sampling: SamplingOptions) -> TextRequest:
    """Reads a request of /v1/completions; see `read_chat`."""
    form = read_form(body, CompletionForm)
    given = form.prompt
    items: list[Any] = given if isinstance(given, list) and given and not isinstance(given[0], int) else [given]
    if len(items) > MOST_TEXTS:
        raise wrong("prompt", f"must have at most {MOST_TEXTS} prompts")
    if not all(map(_is_prompt, items)):
        raise wrong("prompt", "must be a text, a list of tokens, or a list of texts or of lists of tokens")
    prompts = [item if isinstance(item, str) else tuple(item) for item in items]
    return _request(form, model, sampling, prompts, form.max_tokens or _COMPLETION_TOKENS, form.logprobs)


def _is_prompt(item: Any) -> bool:
    if isinstance(item, str):
        return len(item) <= _LONGEST_PROMPT
    return isinstance(item, list) and bool(item) and all(isinstance(token, int) and token >= 0 for token in item)


def _text(message: Message) -> str:
    content = message.content
    return "".join(part.text or "" for part in content) if isinstance(content, list) else content or ""


def _request(
    form: TextForm,
    model: str,
    sampling: SamplingOptions,
    prompts: Sequence[Prompt],
    most: int | None,
    logprobs: int | None,
) -> TextRequest:
    if form.model not in (None, model):
        message = f"there is no model '{form.model}'; this server has '{model}'"
        raise RequestError(message, status=404, param="model", code="model_not_found")
    stop = tuple(filter(None, [form.stop] if isinstance(form.stop, str) else form.stop or ()))
    includes_usage = form.stream_options is not None and bool(form.stream_options.include_usage)
    chosen = _sampling(form, sampling)
    return TextRequest(prompts, form.n or 1, chosen, most, stop, logprobs, bool(form.stream), includes_usage)


def _sampling(form: TextForm, default: SamplingOptions) -> SamplingOptions:
    values = {name: value for name in _SAMPLING if (value := getattr(form, name)) is not None}
    if values.get("top_k") == -1:  # all, in vLLM's API
        values["top_k"] = 0
    if 0 < values.get("temperature", 1) < _GREEDY_BELOW:
        values["temperature"] = 0.0
    if "seed" in values:
        if not -(1 << 63) <= values["seed"] < 1 << 64:
            raise wrong("seed", "must be from -2**63 to 2**64 - 1")
        values["seed"] %= 1 << 64
    grammar = _grammar(form.response_format or ResponseFormat())
    try:
        return replace(default, **values, **({"grammar": grammar} if grammar else {}))
    except OptionError as error:
        raise RequestError(str(error), code="invalid_value") from None


def _grammar(form: ResponseFormat) -> str:
    """Returns the grammar of a response format; "" if it is any text."""
    if form.type in (None, "text"):
        return ""
    if form.type == "json_schema" and form.json_schema is None:
        raise wrong("response_format.json_schema", "must be an object")
    return json_schema(None if form.json_schema is None else form.json_schema.schema)
