"""Expressions over dynamic sizes: as lists in programs and artefacts, as text for people."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Expression = int | str | list
"""A number, the name of a size, or [operator, left, right]."""

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "*": operator.mul,
    "mod": operator.mod,
    "floordiv": operator.floordiv,
    "ceildiv": lambda left, right: -(-left // right),
    "min": min,
    "max": max,
}

_MAX_LENGTH = 1000
"""Maximum length of an expression's text."""

_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d][\w.:]*)|(//|[-+*()]))")


def evaluate(expression: Expression, sizes: Mapping[str, Any]) -> Any:
    """Returns the value of an expression: a number, or a dimension if the given sizes are dimensions.

    Raises:
        ValueError: it is not an expression, or contains a size that is not given.
    """
    match expression:
        case int():
            return expression
        case str() if expression in sizes:
            return sizes[expression]
        case [str(name), left, right] if name in _OPERATORS:
            return _OPERATORS[name](evaluate(left, sizes), evaluate(right, sizes))
    raise ValueError(f"{expression!r} is not an expression over {', '.join(sizes) or 'no sizes'}")


def parse_expression(text: str) -> Expression:
    """Parses a text such as `past + length`, `2 * n - 1` or `(n + 1) // 2`.

    Raises:
        ValueError: it is not a sum, product or quotient of names and numbers.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"an expression has at most {_MAX_LENGTH} characters, but this one has {len(text)}")
    parser = _Parser(text)
    found = parser.sum()
    parser.expect("")
    return found


def names_in(expression: Expression) -> Iterator[str]:
    """Yields the names of the sizes in an expression."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, list):
        for part in expression[1:]:
            yield from names_in(part)


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """Returns an expression with some names replaced by other expressions."""
    if isinstance(expression, list):
        return [expression[0], *(substitute(part, by) for part in expression[1:])]
    return by.get(expression, expression) if isinstance(expression, str) else expression


def text_of(expression: Expression) -> str:
    """Returns an expression as people write it."""
    text = _text_of(expression)
    return text[1:-1] if isinstance(expression, list) else text


def _text_of(expression: Expression) -> str:
    match expression:
        case ["+", left, ["*", right, -1]]:
            return f"({_text_of(left)} - {_text_of(right)})"
        case [name, left, right]:
            return f"({_text_of(left)} {'//' if name == 'floordiv' else name} {_text_of(right)})"
    return str(expression)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())

    def _split(self) -> Iterator[str]:
        place = 0
        while self._text[place:].strip():
            match = _TOKEN.match(self._text, place)
            if match is None:
                raise ValueError(f"'{self._text}' is not an expression over dimensions")
            place = match.end()
            yield match.group().strip()
        yield ""

    def expect(self, token: str) -> None:
        """Consumes a token, which must come next."""
        if self._tokens.pop(0) != token:
            raise ValueError(f"'{self._text}' is not an expression over dimensions")

    def sum(self) -> Expression:
        """Parses a sum of one or more terms."""
        found = self._product()
        while self._tokens[0] in ("+", "-"):
            sign = self._tokens.pop(0)
            term = self._product()
            found = ["+", found, term if sign == "+" else ["*", term, -1]]
        return found

    def _product(self) -> Expression:
        found = self._factor()
        while self._tokens[0] in ("*", "//"):
            found = ["*" if self._tokens.pop(0) == "*" else "floordiv", found, self._factor()]
        return found

    def _factor(self) -> Expression:
        token = self._tokens.pop(0)
        if token == "(":
            found = self.sum()
            self.expect(")")
            return found
        if token.isdecimal():
            return int(token)
        if not token[:1].isalpha() and token[:1] != "_":
            raise ValueError(f"'{self._text}' is not an expression over dimensions")
        return token
