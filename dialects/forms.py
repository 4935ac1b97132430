"""Forms of MLIR attributes, each with the Python type of its values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from mlir import ir

from . import dims
from .types import array_of, dense, dims_attribute, element_type, numpy_dtype

T = TypeVar("T")


@dataclass(frozen=True)
class AttributeForm(Generic[T]):
    """One kind of MLIR attribute, seen from Python as a value of type `T`.

    Attributes:
        text: the kind in words: `an i64 integer`.
        read: returns the value of an attribute; None if the attribute is of another kind.
        write: returns the attribute that holds a value.
    """

    text: str
    read: Callable[[ir.Attribute], T | None]
    write: Callable[[T], ir.Attribute]


def _read_int(attr: ir.Attribute) -> int | None:
    is_i64 = isinstance(attr, ir.IntegerAttr) and isinstance(attr.type, ir.IntegerType) and attr.type.width == 64
    return ir.IntegerAttr(attr).value if is_i64 else None


def _read_float(attr: ir.Attribute) -> float | None:
    return attr.value if isinstance(attr, ir.FloatAttr) and isinstance(attr.type, ir.F64Type) else None


def _read_strings(attr: ir.Attribute) -> dict[str, str] | None:
    if not isinstance(attr, ir.DictAttr) or not all(isinstance(item.attr, ir.StringAttr) for item in attr):
        return None
    return {item.name: ir.StringAttr(item.attr).value for item in attr}


UNIT: AttributeForm[bool] = AttributeForm(
    "a unit attribute", lambda attr: True if isinstance(attr, ir.UnitAttr) else None, lambda _: ir.UnitAttr.get()
)
I64: AttributeForm[int] = AttributeForm(
    "an i64 integer", _read_int, lambda value: ir.IntegerAttr.get(ir.IntegerType.get_signless(64), int(value))
)
F64: AttributeForm[float] = AttributeForm(
    "an f64 number", _read_float, lambda value: ir.FloatAttr.get(ir.F64Type.get(), float(value))
)
BOOL: AttributeForm[bool] = AttributeForm(
    "a bool",
    lambda attr: attr.value if isinstance(attr, ir.BoolAttr) else None,
    lambda value: ir.BoolAttr.get(bool(value)),
)
STRING: AttributeForm[str] = AttributeForm(
    "a string", lambda attr: attr.value if isinstance(attr, ir.StringAttr) else None, ir.StringAttr.get
)
SYMBOL: AttributeForm[str] = AttributeForm(
    "a symbol",
    lambda attr: attr.value if isinstance(attr, ir.FlatSymbolRefAttr) else None,
    ir.FlatSymbolRefAttr.get,
)
I64S: AttributeForm[Sequence[int]] = AttributeForm(
    "an array<i64: ...>",
    lambda attr: tuple(attr) if isinstance(attr, ir.DenseI64ArrayAttr) else None,
    lambda value: ir.DenseI64ArrayAttr.get(list(value)),
)


def _read_dim(attr: ir.Attribute) -> dims.Dim | None:
    return _dim_of_text(attr.value) if isinstance(attr, ir.StringAttr) else _read_int(attr)


def _dim_of_text(text: str) -> dims.Dim | None:
    try:
        dim = dims.parsed(text)
    except ValueError:
        return None
    return dim if isinstance(dim, dims.Symbolic) else None


def _read_dims(attr: ir.Attribute) -> tuple[dims.Dim, ...] | None:
    if isinstance(attr, ir.DenseI64ArrayAttr):
        return tuple(attr)
    if not isinstance(attr, ir.ArrayAttr):
        return None
    found = tuple(map(_read_dim, attr))
    known = tuple(dim for dim in found if dim is not None)
    return known if len(known) == len(found) else None


SIZE: AttributeForm[dims.Dim] = AttributeForm(
    "an i64 integer",
    _read_dim,
    lambda value: ir.StringAttr.get(str(value)) if isinstance(value, dims.Symbolic) else I64.write(value),
)
"""An integer, or an expression over sizes as a string."""

SIZES: AttributeForm[Sequence[dims.Dim]] = AttributeForm(
    "an array<i64: ...>",
    _read_dims,
    lambda value: I64S.write(dims.numbers(value)) if dims.is_static(value) else dims_attribute(tuple(value)),
)
"""Integers, or a list of integers and of expressions over sizes as strings."""

ELEMENT_TYPE: AttributeForm[np.dtype] = AttributeForm(
    "an element type",
    lambda attr: numpy_dtype(attr.value) if isinstance(attr, ir.TypeAttr) else None,
    lambda value: ir.TypeAttr.get(element_type(value)),
)
TYPE: AttributeForm[ir.Type] = AttributeForm(
    "a type", lambda attr: attr.value if isinstance(attr, ir.TypeAttr) else None, ir.TypeAttr.get
)
DENSE: AttributeForm[np.ndarray] = AttributeForm(
    "a dense constant", lambda attr: array_of(attr) if isinstance(attr, ir.DenseElementsAttr) else None, dense
)
DICTIONARY: AttributeForm[ir.DictAttr] = AttributeForm(
    "a dictionary", lambda attr: attr if isinstance(attr, ir.DictAttr) else None, lambda value: value
)
STRINGS_BY_NAME: AttributeForm[Mapping[str, str]] = AttributeForm(
    "a dictionary of strings",
    lambda attr: _read_strings(attr),
    lambda values: ir.DictAttr.get({name: ir.StringAttr.get(value) for name, value in values.items()}),
)
_JSON: AttributeForm[Any] = AttributeForm(
    "a string of JSON",
    lambda attr: _json(attr.value) if isinstance(attr, ir.StringAttr) else None,
    lambda value: ir.StringAttr.get(json.dumps(value)),
)


def list_of(form: AttributeForm[T], text: str) -> AttributeForm[Sequence[T]]:
    """Returns the form of arrays whose entries have a form; `text` is the form in words."""

    def read(attr: ir.Attribute) -> tuple[T, ...] | None:
        if not isinstance(attr, ir.ArrayAttr):
            return None
        found = tuple(map(form.read, attr))
        return None if any(item is None for item in found) else found  # pyright: ignore[reportReturnType]

    return AttributeForm(text, read, lambda value: ir.ArrayAttr.get(list(map(form.write, value))))


def either(
    one: AttributeForm[Any], other: AttributeForm[Any], text: str, is_one: Callable[[Any], bool]
) -> AttributeForm[Any]:
    """Returns the form of attributes of either of two forms; `is_one` returns whether a value has the first form."""

    def read(attr: ir.Attribute) -> Any:
        value = one.read(attr)
        return other.read(attr) if value is None else value

    return AttributeForm(text, read, lambda value: (one if is_one(value) else other).write(value))


def record(
    kind: Callable[..., T], text: str, entries: Mapping[str, tuple[str, AttributeForm[Any]]]
) -> AttributeForm[T]:
    """Returns the form of dictionaries that hold the fields of a dataclass; fields that are None have no entry.

    Args:
        kind: the dataclass.
        text: the form in words.
        entries: by field of the dataclass, the key of its entry and the form of the entry.
    """

    def read(attr: ir.Attribute) -> T | None:
        if not isinstance(attr, ir.DictAttr):
            return None
        found = {}
        for field, (key, form) in entries.items():
            if key in attr:
                found[field] = form.read(attr[key])
                if found[field] is None:
                    return None
        return kind(**found)

    def write(value: T) -> ir.Attribute:
        given = {field: getattr(value, field) for field in entries}
        return ir.DictAttr.get(
            {entries[field][0]: entries[field][1].write(item) for field, item in given.items() if item is not None}
        )

    return AttributeForm(text, read, write)


STRINGS: AttributeForm[Sequence[str]] = list_of(STRING, "a list of strings")
SYMBOLS: AttributeForm[Sequence[str]] = list_of(SYMBOL, "a list of symbols")
DICTIONARIES: AttributeForm[Sequence[ir.DictAttr]] = list_of(DICTIONARY, "a list of dictionaries")
JSONS: AttributeForm[Sequence[Any]] = list_of(_JSON, "a list of strings of JSON")
EXTENTS: AttributeForm[Sequence[Sequence[int]]] = list_of(I64S, "a list of array<i64: ...>")
DIMS: AttributeForm[Sequence[int | str]] = list_of(
    either(I64, STRING, "an i64 integer or a string", lambda value: isinstance(value, int)),
    "a list of i64 integers and strings",
)
SCHEDULE: AttributeForm[ir.DictAttr | str] = either(
    DICTIONARY, SYMBOL, "a dictionary or a symbol", lambda value: isinstance(value, ir.DictAttr)
)


def _read_ranges(attr: ir.Attribute) -> dict[str, tuple[int, int, int]] | None:
    if not isinstance(attr, ir.DictAttr):
        return None
    found: dict[str, tuple[int, int, int]] = {}
    for item in attr:
        values = [] if not isinstance(item.attr, ir.ArrayAttr) else [_read_int(entry) for entry in item.attr]
        match values:
            case [int(low), int(high), int(step)] if 0 <= low <= high and step >= 1:
                found[item.name] = low, high, step
            case _:
                return None
    return found


RANGES: AttributeForm[Mapping[str, Sequence[int]]] = AttributeForm(
    "a dictionary of [minimum, maximum, step] by name, with 0 <= minimum <= maximum and 1 <= step",
    _read_ranges,
    lambda value: ir.DictAttr.get(
        {name: ir.ArrayAttr.get([I64.write(item) for item in values]) for name, values in value.items()}
    ),
)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
