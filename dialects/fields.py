"""Operands and results of ops declared in Python; `attributes` has their attributes."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from mlir import ir


class DeclaredOp(Protocol):
    """An op that declares fields; see `Op`."""

    field_places: ClassVar[dict[str, int]]
    has_optional_operands: ClassVar[bool]

    @property
    def operation(self) -> ir.Operation:
        """The operation that the op views."""
        ...

    def operand_values(self) -> list[ir.Value | None]:
        """One entry per declared operand: its value, or None if an optional operand is absent."""
        ...


class OperandField:
    """One operand of an op."""

    def __init__(self, is_optional: bool, doc: str) -> None:
        self.is_optional, self.doc, self.name = is_optional, doc, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, op: DeclaredOp | None, owner: type) -> Any:
        if op is None:
            return self
        values = op.operand_values() if owner.has_optional_operands else op.operation.operands
        return values[owner.field_places[self.name]]


class ResultField:
    """One result of an op."""

    def __init__(self, doc: str) -> None:
        self.doc, self.name = doc, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, op: DeclaredOp | None, owner: type[DeclaredOp]) -> Any:
        return self if op is None else op.operation.results[owner.field_places[self.name]]


def operand(doc: str = "") -> Any:
    """Declares a required operand."""
    return OperandField(False, doc)


def optional_operand(doc: str = "") -> Any:
    """Declares an operand that may be absent (None)."""
    return OperandField(True, doc)


def result(doc: str = "") -> Any:
    """Declares a result."""
    return ResultField(doc)
