"""Common parts of the handlers of special functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from mlir import ir

from .....dialects.types import is_float
from ....build import cast, dtype
from ....formulas import Formula
from ...node import AtenNode
from ...registry import imports


def imports_function(*overloads: str) -> Callable[[Callable[[Formula], Formula]], Callable[[Formula], Formula]]:
    """Registers a formula as the importer of a function of one tensor; it is computed in f32 or f64."""

    def register(formula: Callable[[Formula], Formula]) -> Callable[[Formula], Formula]:
        def handler(node: AtenNode, input: ir.Value) -> ir.Value:
            return cast(formula(widened(input, node.dtype())).value, node.dtype())

        imports(*overloads)(handler)
        return formula

    return register


def widened(value: ir.Value, kind: np.dtype) -> Formula:
    """A value in the type in which a result of an element type is computed."""
    narrow = is_float(kind) and kind.itemsize < 4
    return Formula(cast(value, np.dtype(np.float32) if narrow else kind))


def epsilon(x: Formula) -> float:
    """The distance from 1 to the next number."""
    return float(np.finfo(dtype(x.value)).eps)
