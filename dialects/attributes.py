"""Attributes of ops declared in Python: one kind of MLIR attribute for each Python type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import numpy as np
from mlir import ir

from ..support.errors import StepwellError
from .types import array_of, dense, element_type, numpy_dtype

T = TypeVar("T")


class OpError(StepwellError):
    """An op breaks its own rules; the message states which rule and how."""


class AttributeField(Generic[T]):
    """One attribute of an op, seen from Python as a value of type `T`."""

    def __init__(self, kind: type[T], default: Any, choices: tuple[str, ...], doc: str) -> None:
        self.kind, self.default, self.choices, self.doc, self.name = kind, default, choices, doc, ""

    @property
    def is_required(self) -> bool:
        """Returns whether the attribute has no default and must be given."""
        return self.default is _REQUIRED

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, op: None, owner: type) -> AttributeField[T]: ...
    @overload
    def __get__(self, op: ir.OpView, owner: type) -> T: ...
    def __get__(self, op: ir.OpView | None, owner: type) -> AttributeField[T] | T:
        if op is None:
            return self
        attributes = op.operation.attributes
        if self.name not in attributes:
            return self.default
        try:
            attr = attributes[self.name]
        except TypeError as error:  # of a kind that Python cannot represent, an array of unsigned integers for one
            raise OpError(f"attribute '{self.name}' must be {self.kind_name}") from error
        return self.read(attr)

    def read(self, attr: ir.Attribute) -> T:
        """The Python value of an attribute.

        Raises:
            OpError: the attribute is not of the declared kind, or not one of the choices.
        """
        value = _READERS[self.kind](attr)
        if value is None:
            raise OpError(f"attribute '{self.name}' must be {self.kind_name}, but is {attr}")
        return self._chosen(value)

    def normalize(self, value: Any) -> T:
        """Converts a value given by a caller to the form that `read` returns.

        Raises:
            OpError: the value is not one of the choices.
        """
        return self._chosen(_NORMALIZERS[self.kind](value))

    def _chosen(self, value: T) -> T:
        if self.choices and value not in self.choices:
            raise OpError(f"attribute '{self.name}' must be one of {', '.join(self.choices)}, but is {value}")
        return value

    @property
    def kind_name(self) -> str:
        """The kind of value in words: `an i64 integer`."""
        return _KIND_NAMES[self.kind]

    def write(self, value: Any) -> ir.Attribute:
        """The MLIR attribute that holds a Python value."""
        return _WRITERS[self.kind](value)


_REQUIRED: Any = object()


def attribute(
    kind: type[T], default: Any = _REQUIRED, *, choices: tuple[str, ...] = (), doc: str = ""
) -> AttributeField[T]:
    """Declares an attribute: int, float, bool, str, tuple (integers), np.dtype or np.ndarray (a dense constant)."""
    return AttributeField(kind, default, choices, doc)


def _read_float(attr: ir.Attribute) -> float | None:
    return attr.value if isinstance(attr, ir.FloatAttr) and isinstance(attr.type, ir.F64Type) else None


def _read_int(attr: ir.Attribute) -> int | None:
    is_i64 = isinstance(attr, ir.IntegerAttr) and isinstance(attr.type, ir.IntegerType) and attr.type.width == 64
    return ir.IntegerAttr(attr).value if is_i64 else None


_READERS: dict[type, Callable[[ir.Attribute], Any]] = {
    int: _read_int,
    float: _read_float,
    bool: lambda attr: attr.value if isinstance(attr, ir.BoolAttr) else None,
    str: lambda attr: attr.value if isinstance(attr, ir.StringAttr) else None,
    tuple: lambda attr: tuple(attr) if isinstance(attr, ir.DenseI64ArrayAttr) else None,
    np.dtype: lambda attr: numpy_dtype(attr.value) if isinstance(attr, ir.TypeAttr) else None,
    np.ndarray: lambda attr: array_of(attr) if isinstance(attr, ir.DenseElementsAttr) else None,
}
_WRITERS: dict[type, Callable[[Any], ir.Attribute]] = {
    int: lambda value: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value)),
    float: lambda value: ir.FloatAttr.get(ir.F64Type.get(), float(value)),
    bool: lambda value: ir.BoolAttr.get(bool(value)),
    str: ir.StringAttr.get,
    tuple: lambda value: ir.DenseI64ArrayAttr.get(list(value)),
    np.dtype: lambda value: ir.TypeAttr.get(element_type(value)),
    np.ndarray: dense,
}
_NORMALIZERS: dict[type, Callable[[Any], Any]] = {
    int: int,
    float: float,
    bool: bool,
    str: str,
    tuple: lambda value: tuple(int(entry) for entry in value),
    np.dtype: np.dtype,
    np.ndarray: np.asarray,
}
_KIND_NAMES: dict[type, str] = {
    int: "an i64 integer",
    float: "an f64 number",
    bool: "a bool",
    str: "a string",
    tuple: "an array<i64: ...>",
    np.dtype: "an element type",
    np.ndarray: "a dense constant",
}
