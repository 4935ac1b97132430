"""Pass options: conversion between the text in the braces of a pipeline element and the fields of a Python pass.

    max-elements=64 modes=a,b verbose      <-->  max_elements=64, modes=("a", "b"), verbose=True

The text follows MLIR: `key=value` pairs separated by spaces. A value may be quoted ('..', "..") or braced, a list is
separated by commas, and a bool without a value is true.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Union

from ...support.errors import StepwellError
from .base import Pass

_BRACKETS = {"{": "}", "(": ")", "[": "]", "<": ">"}
_MOST_BRACKETS = 100
"""Maximum nesting of brackets: a choice far above real pipelines and far below Python's limit of 1000 nested calls."""


class PipelineError(StepwellError, ValueError):
    """A textual pipeline, or an option in it, is invalid; the message says why and may suggest a correction."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` for the closest of the known words; "" if none is close."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def split_balanced(text: str, separator: Callable[[str], bool]) -> list[str]:
    """Splits at the separators that are outside quotes and brackets; drops empty parts.

    Raises:
        PipelineError: a quote or a bracket is not closed, or brackets are nested too deeply for Python's stack.
    """
    pieces, start, closers, quote = [], 0, [], ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif char in _BRACKETS and char != "<":
            closers.append(_BRACKETS[char])
            if len(closers) > _MOST_BRACKETS:
                raise PipelineError(f"more than {_MOST_BRACKETS} nested brackets in '{text[:60]}...'")
        elif closers and char == closers[-1]:
            closers.pop()
        elif not closers and separator(char):
            pieces.append(text[start:position])
            start = position + 1
    if quote or closers:
        raise PipelineError(f"missing {quote or closers[-1]} in '{text}'")
    return [piece.strip() for piece in [*pieces, text[start:]] if piece.strip()]


def parse_options(text: str) -> dict[str, str | None]:
    """The options of one pass by name, as written but without quotes or braces; None for an option without a value.

    Raises:
        PipelineError: a quote or a bracket is not closed.
    """
    options: dict[str, str | None] = {}
    for piece in split_balanced(text, str.isspace):
        key, equals, value = piece.partition("=")
        options[key] = _unwrap(value) if equals else None
    return options


def _unwrap(value: str) -> str:
    if len(value) > 1 and value[0] + value[-1] in ("''", '""', "{}"):
        return value[1:-1]
    return value


@functools.cache
def option_types(cls: type[Pass]) -> Mapping[str, Any]:
    """The declared types of a pass's options, by the options' textual names."""
    hints = typing.get_type_hints(cls)
    return types.MappingProxyType(
        {field.name.replace("_", "-"): hints[field.name] for field in dataclasses.fields(cls)}
    )


def make_pass(cls: type[Pass], text: str) -> Pass:
    """Returns a pass with the options in the text and defaults for the others.

    Raises:
        PipelineError: an option is unknown or missing, or its value has the wrong type.
    """
    kinds = option_types(cls)
    values = {}
    for key, value in parse_options(text).items():
        if key not in kinds:
            known = f" (it has: {', '.join(kinds)})" if kinds else " (it has none)"
            raise PipelineError(f"pass '{cls.name}' has no option '{key}'{suggestion(key, kinds)}{known}")
        values[key.replace("-", "_")] = _read_option(cls, key, kinds[key], value)
    missing = [
        field.name.replace("_", "-")
        for field in dataclasses.fields(cls)
        if field.name not in values and _default(field) is dataclasses.MISSING
    ]
    if missing:
        raise PipelineError(f"pass '{cls.name}' needs the option '{missing[0]}'")
    return cls(**values)


def print_options(instance: Pass) -> str:
    """The options that differ from their defaults, in the format of `parse_options`."""
    words = []
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if value != _default(field):
            words.append(f"{field.name.replace('_', '-')}={print_value(value)}")
    return " ".join(words)


def type_name(kind: Any) -> str:
    """The type of an option as shown in the help: int, bool, float, str, `list of int`, or the choices."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return type_name(_without_none(kind))
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    return " or ".join(arguments) if origin is Literal else kind.__name__


def _default(field: dataclasses.Field) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def print_value(value: Any) -> str:
    """The value of an option as text, quoted if necessary."""
    if isinstance(value, tuple):
        return "{" + ",".join(map(print_value, value)) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return f"'{text}'" if not text or any(char.isspace() or char in ",(){}" for char in text) else text


def _read_option(cls: type[Pass], key: str, kind: Any, value: str | None) -> Any:
    if value is None and kind is not bool:
        raise PipelineError(f"option '{key}' of pass '{cls.name}' needs a value: {key}=<{type_name(kind)}>")
    try:
        return _read_value(kind, "true" if value is None else value)
    except ValueError:
        message = f"option '{key}' of pass '{cls.name}' must be {type_name(kind)}, but is '{value}'"
        raise PipelineError(message) from None


def _read_value(kind: Any, text: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_value(_without_none(kind), text)
    if origin is tuple:
        return tuple(_read_value(arguments[0], _unwrap(piece)) for piece in split_balanced(text, ",".__eq__))
    if origin is Literal:
        return arguments[arguments.index(text)]
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}[_checked_bool(text)]
    return kind(text)


def _checked_bool(text: str) -> str:
    if text.lower() not in ("true", "false", "0", "1"):
        raise ValueError(text)
    return text.lower()


def _without_none(kind: Any) -> Any:
    return next(argument for argument in typing.get_args(kind) if argument is not types.NoneType)
