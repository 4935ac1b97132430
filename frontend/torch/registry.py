"""Registry of handlers, the functions that import ATen ops, by overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

AtenHandler = Callable[..., Any]
"""`handler(node, **arguments)`: takes those of the schema's arguments that it names; `self` is called `input`, and a
name that is a keyword of Python ends in `_`.

Tensors are values, symbolic integers are numbers or scalars of i64, and dtypes are numpy's. The result is a value, or a
tuple with a value or None for each result of the op; None stands for one that is not supported.
"""

_HANDLERS: dict[str, AtenHandler] = {}
_OPERATORS: dict[str, AtenHandler] = {}
_COMPLEX: dict[str, AtenHandler] = {}


def imports(*overloads: str) -> Callable[[AtenHandler], AtenHandler]:
    """Registers a function as the importer of overloads such as "aten.add.Tensor".

    Raises:
        ValueError: an overload already has a handler.
    """

    def register(handler: AtenHandler) -> AtenHandler:
        for overload in overloads:
            if overload in _HANDLERS:
                raise ValueError(f"two importers for {overload}")
            _HANDLERS[overload] = handler
        return handler

    return register


def handler_for(overload: str) -> AtenHandler | None:
    """Returns the handler of an overload, or None if there is none."""
    return _HANDLERS.get(overload)


def runs(*operators: str) -> Callable[[AtenHandler], AtenHandler]:
    """Registers a function as the importer of higher-order operators, which take graphs, such as "cond".

    It is called with the node and the operator's arguments by position.
    """

    def register(handler: AtenHandler) -> AtenHandler:
        _OPERATORS.update(dict.fromkeys(operators, handler))
        return handler

    return register


def operator_for(name: str) -> AtenHandler | None:
    """Returns the importer of a higher-order operator, or None if there is none."""
    return _OPERATORS.get(name)


def imports_complex(*overloads: str) -> Callable[[AtenHandler], AtenHandler]:
    """Registers a function as the importer of overloads for operands or results of complex numbers."""

    def register(handler: AtenHandler) -> AtenHandler:
        _COMPLEX.update(dict.fromkeys(overloads, handler))
        return handler

    return register


def complex_handler_for(overload: str) -> AtenHandler | None:
    """Returns the handler of an overload for complex numbers, or None if there is none."""
    return _COMPLEX.get(overload)


def supported_overloads() -> list[str]:
    """Returns the overloads that have handlers, sorted."""
    return sorted(_HANDLERS)
