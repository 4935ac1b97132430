"""Constants, and operators that return their input unchanged."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ...errors import NodeError
from ..nodes.node import Node
from ..nodes.registry import imports

_FORMS: dict[str, np.dtype] = {
    "value_float": np.dtype(np.float32),
    "value_floats": np.dtype(np.float32),
    "value_int": np.dtype(np.int64),
    "value_ints": np.dtype(np.int64),
}


@imports("Constant")
def constant(node: Node) -> ir.Value:
    """Constant: a tensor, or (opset 12) a number or a list of numbers."""
    value: Any = node.attribute("value")
    if value is None:
        given = [(form, node.attribute(form)) for form in _FORMS if node.attribute(form) is not None]
        if len(given) != 1:
            raise NodeError("must have exactly one of value, value_int, value_ints, value_float, value_floats")
        value = np.array(given[0][1], dtype=_FORMS[given[0][0]])
    return node.importer.weight(node.outputs[0], value)


@imports("Identity")
def identity(node: Node, input: ir.Value) -> ir.Value:
    """Identity: needs no op."""
    return input
