"""Expressions over dynamic sizes: as lists in programs and artefacts, as text for people."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from . import algebra, extrema

Expression = int | str | list
"""A number, the name of a size, or [operator, left, right]."""

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "*": operator.mul,
    "mod": operator.mod,
    "floordiv": operator.floordiv,
    "ceildiv": algebra.ceil_div,
    "min": lambda left, right: extrema.least((left, right)),
    "max": lambda left, right: extrema.greatest((left, right)),
}

_ON_ARRAYS: dict[str, Callable[[Any, Any], Any]] = {
    **_OPERATORS,
    "ceildiv": lambda left, right: -(-left // right),
    "min": np.minimum,
    "max": np.maximum,
}

_MAX_LENGTH = 1000
"""Maximum length of an expression's text."""

_NAME = re.compile(r"[^\W\d][\w.:]*")
_FUNCTION = re.compile(r"(?:min|max)(?=\s*\()")
_ALLOWED = re.compile(r"[\w.:\s()+*/%,-]*")

_SIGNS = {"floordiv": "//", "mod": "%"}

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
}


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


def evaluate_all(expression: Expression, sizes: Mapping[str, np.ndarray]) -> np.ndarray | int:
    """Returns the values of an expression at many sizes; one number if it contains no size."""
    match expression:
        case int():
            return expression
        case str():
            return sizes[expression]
    name, left, right = expression
    return _ON_ARRAYS[name](evaluate_all(left, sizes), evaluate_all(right, sizes))


def expression_of(dim: algebra.Dimension) -> Expression:
    """Returns an expression as it is stored in programs and artefacts."""
    found: Expression | None = None
    for product, factor in algebra.terms_of(dim):
        part: Expression | None = None
        for atom in product:
            part = _expression_of_atom(atom) if part is None else ["*", part, _expression_of_atom(atom)]
        if part is None:
            part = factor
        elif factor != 1:
            part = ["*", part, factor]
        found = part if found is None else ["+", found, part]
    return 0 if found is None else found


def _expression_of_atom(atom: algebra.Atom) -> Expression:
    match atom:
        case algebra.Size(name):
            return name
        case algebra.Quotient(numerator, divisor):
            return ["floordiv", expression_of(numerator), expression_of(divisor)]
        case algebra.Remainder(numerator, divisor):
            return ["mod", expression_of(numerator), expression_of(divisor)]
        case algebra.Extremum(is_least, items):
            first, *others = map(expression_of, items)
            for other in others:
                first = ["min" if is_least else "max", first, other]
            return first


def parse_expression(text: str) -> Expression:
    """Parses a text such as `past + length`, `2 * n - 1`, `(n + 1) // 2`, `n % 4` or `min(n, 512)`.

    Raises:
        ValueError: it is not made of names, numbers and these operators.
    """
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"an expression has at most {_MAX_LENGTH} characters, but this one has {len(text)}")
    # Names of dimensions need not be identifiers of Python: `x.0`, `in`.
    plain = " ".join(text.split())
    functions = {match.start() for match in _FUNCTION.finditer(plain)}
    matches = [match for match in _NAME.finditer(plain) if match.start() not in functions]
    names = list(dict.fromkeys(match.group() for match in matches))
    spelled = plain
    for match in reversed(matches):
        spelled = f"{spelled[: match.start()]} _{names.index(match.group())} {spelled[match.end() :]}"
    try:
        if not _ALLOWED.fullmatch(text) or not all(name[0].isidentifier() for name in names):
            raise ValueError("it has other characters")
        return _read(ast.parse(spelled.strip(), mode="eval").body, names)
    except (SyntaxError, ValueError) as error:
        raise ValueError(
            f"'{text}' is not an expression over dimensions: write names, whole numbers, +, -, *, //, %, min, max and "
            "parentheses"
        ) from error


def _read(node: ast.expr, names: Sequence[str]) -> Expression:
    """Returns the expression of a syntax tree, in which `_<n>` stands for the n-th name.

    Raises:
        ValueError: the tree has other nodes.
    """
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return names[int(name[1:])]
        case ast.UnaryOp(ast.USub(), ast.Constant(value=int(number))):
            return -number
        case ast.Call(ast.Name(id="min" | "max" as name), [first, *others], []):
            found = _read(first, names)
            for other in others:
                found = [name, found, _read(other, names)]
            return found
        case ast.BinOp(left, operation, right) if type(operation) in _BINARY:
            name, first, second = _BINARY[type(operation)], _read(left, names), _read(right, names)
            return ["+", first, ["*", second, -1]] if name == "-" else [name, first, second]
    raise ValueError(f"{type(node).__name__} is not part of expressions")


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
    return text[1:-1] if text.startswith("(") else text


def _text_of(expression: Expression) -> str:
    match expression:
        case ["+", left, ["*", right, -1]]:
            return f"({_text_of(left)} - {_text_of(right)})"
        case ["min" | "max" as name, left, right]:
            return f"{name}({text_of(left)}, {text_of(right)})"
        case ["ceildiv", left, right]:
            return f"(-1 * ((-1 * {_text_of(left)}) // {_text_of(right)}))"
        case [name, left, right]:
            return f"({_text_of(left)} {_SIGNS.get(name, name)} {_text_of(right)})"
    return str(expression)
