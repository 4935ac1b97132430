"""A tokenizer by the package `tokenizers`, with the chat template of its model."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..frontend.errors import ModelError
from ..support.errors import InputError
from ..support.packages import require_package

if TYPE_CHECKING:
    from llguidance import LLTokenizer
    from tokenizers import Tokenizer


class TextTokenizer:
    """Converts text to tokens and back.

    Attributes:
        count: number of tokens.
        ends: the tokens that end a text.
        template: the source of the chat template; empty if there is none.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        count: int,
        first: Sequence[int],
        ends: Sequence[int],
        template: str,
        texts: Mapping[str, str],
    ) -> None:
        """Takes a tokenizer.

        Args:
            tokenizer: the tokenizer.
            count: number of tokens.
            first: the tokens that begin a text.
            ends: the tokens that end a text.
            template: the source of the chat template; empty for none.
            texts: the texts of tokens by their names in chat templates, such as "bos_token".
        """
        self._tokenizer, self.count, self._first, self._texts = tokenizer, count, list(first), dict(texts)
        self.ends, self.template = frozenset(ends), template

    def encode(self, text: str, begins: bool = True) -> list[int]:
        """Returns the tokens of a text, in which control tokens may be spelled out.

        Args:
            text: the text.
            begins: whether to add a token for the beginning, if the model has one.
        """
        found = self._tokenizer.encode(text, add_special_tokens=False).ids
        return [*(self._first if begins and found[:1] != self._first else []), *found]

    def encode_whole(self, text: str) -> list[int]:
        """Returns the tokens of a text with those that the tokenizer itself puts around it."""
        return self._tokenizer.encode(text, add_special_tokens=True).ids

    def number(self, text: str) -> int:
        """Returns the token whose text is given, such as a control token.

        Raises:
            InputError: there is none.
        """
        found = self._tokenizer.token_to_id(text)
        if found is None:
            raise InputError(f"no token is {text!r}")
        return found

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without control tokens."""
        return self._tokenizer.decode(list(tokens))

    def difference(self, other: TextTokenizer) -> str:
        """Returns the first token that both tokenizers have, with different texts; "" if there is none."""
        own, theirs = ({token: text for text, token in item._tokenizer.get_vocab().items()} for item in (self, other))
        for token in sorted(own.keys() & theirs.keys()):
            if own[token] != theirs[token]:
                return f"token {token} is {own[token]!r} here and {theirs[token]!r} there"
        return ""

    def stepwise(self) -> TokenText:
        """Returns a converter of tokens that come one by one."""
        return TokenText(self._tokenizer)

    @functools.cached_property
    def for_grammars(self) -> LLTokenizer:
        """The tokenizer in the form that grammars need; making it takes about a second for 100,000 tokens."""
        require_package("llguidance", "a grammar", "lm")
        from llguidance import LLTokenizer

        return LLTokenizer(self._tokenizer.to_str(), n_vocab=self.count, eos_token=sorted(self.ends))

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """Returns the text that asks the model for the next message of a chat.

        Args:
            messages: each with "role" ("system", "user" or "assistant") and "content".

        Raises:
            ModelError: there is no chat template, or it fails for these messages.
        """
        if not self.template:
            raise ModelError("has no chat template")
        require_package("jinja2", "a chat template", "lm")
        from jinja2 import TemplateError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        def refuse(reason: str) -> None:
            raise TemplateError(reason)

        # A template is part of an untrusted file.
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = refuse
        values: dict[str, Any] = self._texts
        try:
            template = environment.from_string(self.template)
            return template.render(messages=list(messages), add_generation_prompt=True, **values)
        except Exception as error:  # templates are code, which may raise anything
            raise ModelError(f"its chat template fails: {type(error).__name__}: {error}") from error


class TokenText:
    """Converts tokens one by one; a character is returned once all of its bytes are known."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer, self._stream = tokenizer, DecodeStream(skip_special_tokens=True)

    def add(self, token: int) -> str:
        """Returns the text that a token completes; "" if it completes none."""
        return self._stream.step(self._tokenizer, token) or ""
