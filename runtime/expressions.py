"""Expressions over sizes that vary: as lists, which programs and artefacts hold, and as texts, which people write."""

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

_LONGEST = 1000
"""Longer texts are no expressions."""

_TOKEN = re.compile(r"\s*(?:(\d+)|([^\W\d][\w.:]*)|(//|[-+*()]))")


def evaluate(expression: Expression, sizes: Mapping[str, Any]) -> Any:
    """The value of an expression at given sizes: a number, or a dimension where they are such.

    Raises:
        ValueError: it is none, or has a size that is not given.
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
    """What a text such as `past + length`, `2 * n - 1` or `(n + 1) // 2` says.

    Raises:
        ValueError: it is no sum, product or quotient of names and numbers.
    """
    if len(text) > _LONGEST:
        raise ValueError("it is too long for an expression")
    parser = _Parser(text)
    found = parser.sum()
    parser.expect("")
    return found


def names_in(expression: Expression) -> Iterator[str]:
    """The names of the sizes that an expression is over."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, list):
        for part in expression[1:]:
            yield from names_in(part)


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """An expression with others in the place of some names."""
    if isinstance(expression, list):
        return [expression[0], *(substitute(part, by) for part in expression[1:])]
    return by.get(expression, expression) if isinstance(expression, str) else expression


def text_of(expression: Expression) -> str:
    """An expression as people write it."""
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
                raise ValueError(f"'{self._text}' is no expression over dimensions")
            place = match.end()
            yield match.group().strip()
        yield ""

    def expect(self, token: str) -> None:
        """Goes on behind a token, which must come next."""
        if self._tokens.pop(0) != token:
            raise ValueError(f"'{self._text}' is no expression over dimensions")

    def sum(self) -> Expression:
        """One term, or several."""
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
            raise ValueError(f"'{self._text}' is no expression over dimensions")
        return token
