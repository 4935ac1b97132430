"""Grammars of texts: the tokens that may come next, by the package `llguidance`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import InputError
from ..support.packages import require_package

if TYPE_CHECKING:
    from llguidance import LLTokenizer
    from llguidance._lib import JsonCompileOptions


class GrammarError(InputError):
    """A grammar that is wrong, or that a text cannot follow."""


def json_schema(schema: Mapping[str, Any] | None = None) -> str:
    """Returns the grammar of JSON texts of a schema; without one, of any JSON object.

    One space follows each comma and colon, as in `json.dumps`: models that may write any white space write it forever.
    """
    require_package("llguidance", "a grammar", "lm")
    from llguidance import LLMatcher

    spaces: JsonCompileOptions = {"item_separator": ", ", "key_separator": ": ", "whitespace_flexible": False}
    text = json.dumps({"type": "object"} if schema is None else schema)
    return LLMatcher.grammar_from_json_schema(text, defaults=spaces)


def regular_expression(pattern: str) -> str:
    """Returns the grammar of the texts that a regular expression matches as a whole."""
    require_package("llguidance", "a grammar", "lm")
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_regex(pattern)


class GrammarState:
    """A state of a grammar after the tokens of a text so far."""

    def __init__(self, tokenizer: LLTokenizer, grammar: str) -> None:
        """Starts with an empty text.

        Args:
            tokenizer: see `TextTokenizer.for_grammars`.
            grammar: that of `json_schema` or `regular_expression`, or one in the language of Lark.

        Raises:
            GrammarError: the grammar is wrong.
        """
        require_package("llguidance", "a grammar", "lm")
        from llguidance import LLMatcher

        wrong = LLMatcher.validate_grammar(grammar, tokenizer)
        if wrong:
            raise GrammarError(f"the grammar is wrong: {wrong}")
        self._matcher, self._count = LLMatcher(tokenizer, grammar), tokenizer.vocab_size

    def masked(self, logits: np.ndarray) -> np.ndarray:
        """Returns logits with -inf for all tokens that may not come next.

        Raises:
            GrammarError: the package cannot continue at this point of the text.
        """
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        allowed = np.unpackbits(bits, bitorder="little")[: self._count].astype(bool)
        if self._matcher.is_error():
            raise GrammarError(f"the grammar cannot be followed: {self._matcher.get_error()}")
        found = np.full_like(logits, -np.inf)
        found[: self._count][allowed] = logits[: self._count][allowed]
        return found

    def add(self, token: int) -> None:
        """Advances by a token, which must be allowed next."""
        self._matcher.consume_token(token)
