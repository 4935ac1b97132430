"""Attributes of ops declared in Python: one form of MLIR attribute for each Python type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

import numpy as np
from mlir import ir

from ..support.errors import StepwellError
from . import forms
from .dims import Symbolic
from .forms import AttributeForm

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
        except TypeError as error:  # of a kind that the bindings cannot represent
            raise OpError(f"attribute '{self.name}' must be {self.kind_name}") from error
        return self.read(attr)

    def read(self, attr: ir.Attribute) -> T:
        """The Python value of an attribute.

        Raises:
            OpError: the attribute is not of the declared kind, or not one of the choices.
        """
        value = _FORMS[self.kind].read(attr)
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
        return _FORMS[self.kind].text

    def write(self, value: Any) -> ir.Attribute:
        """The MLIR attribute that holds a Python value."""
        return _FORMS[self.kind].write(value)


_REQUIRED: Any = object()


def attribute(
    kind: type[T], default: Any = _REQUIRED, *, choices: tuple[str, ...] = (), doc: str = ""
) -> AttributeField[T]:
    """Declares an attribute: int, float, bool, str, tuple (integers), np.dtype or np.ndarray (a dense constant)."""
    return AttributeField(kind, default, choices, doc)


_FORMS: dict[type, AttributeForm] = {
    int: forms.SIZE,
    float: forms.F64,
    bool: forms.BOOL,
    str: forms.STRING,
    tuple: forms.SIZES,
    np.dtype: forms.ELEMENT_TYPE,
    np.ndarray: forms.DENSE,
}
_NORMALIZERS: dict[type, Callable[[Any], Any]] = {
    int: lambda value: value if isinstance(value, Symbolic) else int(value),
    float: float,
    bool: bool,
    str: str,
    tuple: lambda value: tuple(entry if isinstance(entry, Symbolic) else int(entry) for entry in value),
    np.dtype: np.dtype,
    np.ndarray: np.asarray,
}
