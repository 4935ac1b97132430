"""Limits of sizes that hold while code runs, such as the ranges that a model is compiled for.

They are in a context variable, because operators such as `dim < 8` and the shape functions of ops, which compare
dimensions by them, take no further argument. `PipelineRunner` sets the limits that a module declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from .intervals import Interval


@dataclass(frozen=True)
class _Assumptions:
    """The limits of sizes, and the list that collects supposed equalities."""

    limits: Mapping[str, Interval] = field(default_factory=dict)
    equal: list[tuple[Any, Any]] | None = None


_CURRENT: ContextVar[_Assumptions] = ContextVar("assumptions", default=_Assumptions())  # noqa: B039  it is immutable

_NATURAL: Interval = (0, None)


def assumed(name: str) -> Interval:
    """Returns the least and the greatest value of a size; one without limits is at least 0."""
    return _CURRENT.get().limits.get(name, _NATURAL)


def in_force() -> tuple[tuple[str, Interval], ...]:
    """Returns the limits that are assumed, as a key of caches."""
    return tuple(_CURRENT.get().limits.items())


def suppose_equal(left: object, right: object) -> None:
    """Records that a shape is only right if two dimensions are equal, in the enclosing `suppositions`."""
    collected = _CURRENT.get().equal
    if collected is not None:
        collected.append((left, right))


@contextmanager
def suppositions() -> Iterator[list[tuple[Any, Any]]]:
    """Collects the pairs of dimensions that are supposed to be equal by code that runs in the block."""
    collected: list[tuple[Any, Any]] = []
    with _set(equal=collected):
        yield collected


@contextmanager
def assuming(limits: Mapping[str, Interval]) -> Iterator[None]:
    """Sets the least and the greatest values of sizes, by name, for code that runs in the block."""
    with _set(limits={**_CURRENT.get().limits, **limits}):
        yield


@contextmanager
def _set(**changed: Any) -> Iterator[None]:
    token = _CURRENT.set(replace(_CURRENT.get(), **changed))
    try:
        yield
    finally:
        _CURRENT.reset(token)
