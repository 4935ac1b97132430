"""Limits of sizes that hold while code runs, such as the ranges that a model is compiled for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from .intervals import Interval

_LIMITS: ContextVar[Mapping[str, Interval]] = ContextVar("limits", default=MappingProxyType({}))

_EQUAL: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("equal", default=None)

_NATURAL: Interval = (0, None)


def assumed(name: str) -> Interval:
    """Returns the least and the greatest value of a size; one without limits is at least 0."""
    return _LIMITS.get().get(name, _NATURAL)


def in_force() -> tuple[tuple[str, Interval], ...]:
    """Returns the limits that are assumed, as a key of caches."""
    return tuple(_LIMITS.get().items())


def suppose_equal(left: object, right: object) -> None:
    """Records that a shape is only right if two dimensions are equal, in the enclosing `suppositions`."""
    collected = _EQUAL.get()
    if collected is not None:
        collected.append((left, right))


@contextmanager
def suppositions() -> Iterator[list[tuple[Any, Any]]]:
    """Collects the pairs of dimensions that are supposed to be equal by code that runs in the block."""
    collected: list[tuple[Any, Any]] = []
    token = _EQUAL.set(collected)
    try:
        yield collected
    finally:
        _EQUAL.reset(token)


@contextmanager
def assuming(limits: Mapping[str, Interval]) -> Iterator[None]:
    """Sets the least and the greatest values of sizes, by name, for code that runs in the block."""
    token = _LIMITS.set({**_LIMITS.get(), **limits})
    try:
        yield
    finally:
        _LIMITS.reset(token)
