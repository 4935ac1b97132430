"""A `repr` for dataclasses that is always short, since notebooks print it automatically."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar

import numpy as np

from .wording import quantity

LONGEST = 900
"""Maximum number of characters of a short `repr`."""

# Numbers of characters of a field and of a text, and of items of a collection, that are shown: choices.
_MAX_FIELD_LENGTH = 80
_MAX_TEXT_LENGTH = 60
_MAX_ITEMS = 4

Kind = TypeVar("Kind", bound=type)


def short_repr(kind: Kind) -> Kind:
    """Decorates a dataclass: makes `described` its `repr`."""
    kind.__repr__ = described  # type: ignore[method-assign]
    return kind


def described(item: Any) -> str:
    """Returns a dataclass as `Name(field=value, ...)`, without fields that have their defaults.

    Arrays and bytes are shown by type and size, long sequences and mappings by their length.
    """
    shown = []
    for field in dataclasses.fields(item):
        value = getattr(item, field.name)
        if field.repr and not _is_default(value, field):
            shown.append(f"{field.name}={brief(value)}")
    return cut(f"{type(item).__name__}({', '.join(shown)})", LONGEST)


def brief(value: Any) -> str:
    """Returns a value in at most 80 characters."""
    if isinstance(value, np.ndarray):
        return f"<{value.dtype.name}{list(value.shape)}>"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{size_of(len(value))}>"
    if isinstance(value, str):
        return repr(cut(value, _MAX_TEXT_LENGTH))
    if isinstance(value, Mapping | Sequence | AbstractSet):
        return _collection(value)
    return cut(" ".join(repr(value).split()), _MAX_FIELD_LENGTH)


def size_of(count: int) -> str:
    """Returns a number of bytes in a suitable unit: "31.2 MB"."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return quantity(count, "byte")


def cut(text: str, longest: int) -> str:
    """Returns a text, or its beginning and an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _collection(value: Mapping[Any, Any] | Sequence[Any] | AbstractSet[Any]) -> str:
    if len(value) <= _MAX_ITEMS:
        if isinstance(value, Mapping):
            text = f"{{{', '.join(f'{brief(key)}: {brief(item)}' for key, item in value.items())}}}"
        else:
            comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
            opening, closing = "()" if isinstance(value, tuple) else "[]" if isinstance(value, list) else "{}"
            text = f"{opening}{', '.join(map(brief, value))}{comma}{closing}"
        if len(text) <= _MAX_FIELD_LENGTH:
            return text
    return f"<{quantity(len(value), 'item')}>"


def _is_default(value: Any, field: dataclasses.Field[Any]) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return isinstance(value, Mapping | Sequence) and len(value) == 0
    return value is field.default or (isinstance(value, str | bytes | tuple | int | float) and value == field.default)
