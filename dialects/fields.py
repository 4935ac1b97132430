"""Operands and results of ops declared in Python; `attributes` has their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .op import Op


class OperandField:
    """One operand of an op."""

    def __init__(self, is_optional: bool, doc: str) -> None:
        self.is_optional, self.doc, self.name = is_optional, doc, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, op: Op | None, owner: type) -> Any:
        if op is None:
            return self
        values = op.operand_values() if owner.has_optional_operands else op.operation.operands
        return values[owner.places[self.name]]


class ResultField:
    """One result of an op."""

    def __init__(self, doc: str) -> None:
        self.doc, self.name = doc, ""

    def __set_name__(self, owner: type[Op], name: str) -> None:
        self.name = name

    def __get__(self, op: Op | None, owner: type[Op]) -> Any:
        return self if op is None else op.operation.results[owner.places[self.name]]


def operand(doc: str = "") -> Any:
    """Declares a required operand."""
    return OperandField(False, doc)


def optional_operand(doc: str = "") -> Any:
    """Declares an operand that may be absent (None)."""
    return OperandField(True, doc)


def result(doc: str = "") -> Any:
    """Declares a result."""
    return ResultField(doc)
