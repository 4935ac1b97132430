"""Model outputs as table rows and as JSON, and their comparison: numbers, strings, sequences, maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

# Numbers of texts of an output that are shown in a table and in JSON.
_SHOWN = 4
_LISTED = 16

Flat = Mapping[str, np.ndarray | None]
"""Arrays by name; None for an empty sequence, and for an optional value that is absent."""


def flatten(outputs: Mapping[str, Any]) -> dict[str, np.ndarray | None]:
    """Returns every array in the outputs by name: `y`, `y[0]` in a sequence, `y.keys` and `y.values` of a map."""
    return dict(pair for name, value in outputs.items() for pair in _flat(name, value))


def _flat(name: str, value: Any) -> Iterator[tuple[str, np.ndarray | None]]:
    if value is None or (isinstance(value, list | tuple) and not value):
        yield name, None
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _flat(f"{name}[{index}]", item)
    elif isinstance(value, dict):
        yield from _flat(f"{name}.keys", np.array(list(value)))
        yield from _flat(f"{name}.values", np.array(list(value.values())))
    else:
        yield name, np.asarray(value)


def is_text(array: np.ndarray) -> bool:
    """Returns whether an array holds strings."""
    return array.dtype.kind in "OUS"


def type_name(array: np.ndarray) -> str:
    """An array's element type."""
    return "string" if is_text(array) else array.dtype.name


def storable(flat: Flat) -> dict[str, np.ndarray]:
    """Returns the arrays as an .npz file holds them, strings with a fixed length."""
    return {name: a.astype(str) if is_text(a) else a for name, a in flat.items() if a is not None}


def row(name: str, array: np.ndarray | None) -> tuple[str, ...]:
    """Returns a table row: name, type, shape, and the minimum, mean and maximum, or the first strings."""
    if array is None:
        return name, "nothing", "", "", "", ""
    shape = "x".join(map(str, array.shape)) or "scalar"
    if is_text(array):
        shown = ", ".join(repr(str(item)) for item in array.reshape(-1)[:_SHOWN])
        return name, "string", shape, shown + (", ..." if array.size > _SHOWN else ""), "", ""
    if not array.size:
        return name, array.dtype.name, shape, "", "", ""
    values = _numbers(array)
    return name, array.dtype.name, shape, *(f"{value:.6g}" for value in (values.min(), values.mean(), values.max()))


def record(name: str, array: np.ndarray | None) -> dict[str, Any]:
    """Returns a value's figures for JSON, which cannot express infinities and NaN; for strings, the first ones."""
    if array is None:
        return {"name": name, "type": None, "shape": None}
    found: dict[str, Any] = {"name": name, "type": type_name(array), "shape": list(array.shape)}
    if is_text(array):
        return {**found, "first": [str(item) for item in array.reshape(-1)[:_LISTED]]}
    values = _numbers(array)
    finite = values[np.isfinite(values)]
    figures = {"min": finite.min(), "mean": finite.mean(), "max": finite.max()} if finite.size else {}
    rounded = {key: float(figures[key]) if key in figures else None for key in ("min", "mean", "max")}
    return {**found, **rounded, "not_finite": array.size - finite.size}


def difference(array: np.ndarray, reference: np.ndarray, rtol: float, atol: float) -> tuple[bool, str]:
    """Returns whether a value is close to its reference, and the difference as text."""
    if array.shape != reference.shape:
        return False, f"shape {array.shape}, expected {reference.shape}"
    if is_text(array) != is_text(reference):
        return False, f"type {type_name(array)}, expected {type_name(reference)}"
    if not array.size:
        return True, "empty"
    if is_text(array):
        return _difference_of_texts(array.astype(str), reference.astype(str))
    left, right = _numbers(array), _numbers(reference)
    wrong = ~np.isclose(left, right, rtol=rtol, atol=atol, equal_nan=True)
    distance = np.where(wrong | np.isfinite(left), np.abs(left - right), 0.0)
    text = f"largest difference {np.nanmax(distance, initial=0.0):.3g}"
    if not wrong.any():
        return True, text
    place = _first(wrong)
    first = f"first at {place}: {left[place]:.6g}, expected {right[place]:.6g}"
    return False, f"{text}; {wrong.sum()} of {wrong.size} elements, {first}"


def _difference_of_texts(left: np.ndarray, right: np.ndarray) -> tuple[bool, str]:
    wrong = np.asarray(left != right)
    if not wrong.any():
        return True, "equal"
    place = _first(wrong)
    first = f"first at {place}: {str(left[place])!r}, expected {str(right[place])!r}"
    return False, f"{wrong.sum()} of {wrong.size} elements, {first}"


def _first(wrong: np.ndarray) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(wrong)[0])


def _numbers(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind == "c" else array.astype(np.float64)
