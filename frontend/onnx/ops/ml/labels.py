"""LabelEncoder (ai.onnx.ml) of numbers, by binary search in a sorted list."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....support.wording import quantity
from ....build import cast, dtype, emit, gathered, scalar
from ....errors import AttributeFault, UnsupportedError
from ...nodes.node import Node
from ...nodes.registry import imports

Value = ir.Value

_KINDS: dict[str, tuple[type, Any]] = {"int64s": (np.int64, -1), "floats": (np.float32, -0.0)}


@imports("LabelEncoder", domain="ai.onnx.ml", since=2)
def label_encoder(node: Node, input: Value) -> Value:
    """LabelEncoder: the value of each element's key, or the default if there is no such key."""
    keys, _ = _given(node, "keys")
    values, default = _given(node, "values")
    if len(keys) != len(values):
        raise AttributeFault(f"has {quantity(len(keys), 'key')}, but {quantity(len(values), 'value')}")
    sought = cast(input, keys.dtype) if dtype(input) != keys.dtype else input
    result, missing = None, np.isnan(keys)
    if missing.any():
        # Before version 4, NaN is not a key.
        result = values[missing][0] if node.opset >= 4 else default
        keys, values = keys[~missing], values[~missing]
    found = _found(node, sought, keys, values, default)
    if result is None:
        return found
    return emit(ew.SelectOp, emit(ew.EqualOp, sought, sought), found, scalar(result, found))


def _found(node: Node, sought: Value, keys: np.ndarray, values: np.ndarray, default: Any) -> Value:
    """The values of elements that are keys; for duplicate keys the first one counts, as in ONNX Runtime."""
    keys, first = np.unique(keys, return_index=True)
    values = values[first]
    size = 1 << max(len(keys) - 1, 0).bit_length()
    padded = np.concatenate([keys, np.repeat(keys[-1:], size - len(keys))]) if len(keys) else np.zeros(1, keys.dtype)
    table = node.importer.weight(f"{node.name}.keys", padded)
    made = np.concatenate([values, np.repeat(values[-1:], size - len(values))]) if len(keys) else np.array([default])
    made = node.importer.weight(f"{node.name}.values", made.astype(values.dtype))
    at = cast(emit(ew.EqualOp, sought, sought), np.int64)
    at = emit(ew.SubOp, at, at)
    while size > 1:
        size //= 2
        further = emit(ew.AddOp, at, scalar(size, at))
        # The keys that pad the list need no distinction: they all equal the last key and have its value.
        at = emit(ew.SelectOp, emit(ew.LessEqualOp, gathered(table, further, 0), sought), further, at)
    value = gathered(made, at, 0)
    if not len(keys):
        return value
    holds = emit(ew.EqualOp, gathered(table, at, 0), sought)
    return emit(ew.SelectOp, holds, value, scalar(default, value))


def _given(node: Node, side: str) -> tuple[np.ndarray, Any]:
    """The keys or the values as an array, and the default of the values."""
    if node.attribute(f"{side}_strings"):
        raise UnsupportedError(f"has {side} that are strings")
    tensor = node.attribute(f"{side}_tensor")
    if tensor is not None:
        default = node.attribute("default_tensor") if side == "values" else None
        array = np.asarray(tensor)
        if array.dtype.kind not in "iuf":
            raise UnsupportedError(f"has {side} that are strings")
        return array, array.dtype.type(-1 if array.dtype.kind in "iu" else 0) if default is None else default.item()
    for name, (kind, otherwise) in _KINDS.items():
        given = node.attribute(f"{side}_{name}")
        if given:
            return np.array(given, kind), node.attribute(f"default_{name[:-1]}", otherwise)
    raise AttributeFault(f"has no {side}")
