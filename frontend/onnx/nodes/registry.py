"""Registry of handlers, the functions that import operators, by operator and opset."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import onnx

OnnxHandler = Callable[..., Any]
"""`handler(node, *inputs)`: gets the inputs as values, None for omitted ones; returns a value or a tuple of values.

Outputs beyond those returned are not supported; using one is an error.
"""

_HANDLERS: dict[tuple[str, str], dict[int, OnnxHandler]] = {}


_MISPLACED = frozenset({"SimplifiedLayerNormalization"})
"""Operators of ONNX Runtime that it places in ONNX's domain."""


def imports(*op_types: str, since: int = 1, domain: str = "") -> Callable[[OnnxHandler], OnnxHandler]:
    """Registers a function as the importer of operators, from opset `since` up to the next one registered.

    Raises:
        ValueError: the operator already has a handler for that opset.
    """

    def register(handler: OnnxHandler) -> OnnxHandler:
        for op_type in op_types:
            versions = _HANDLERS.setdefault((domain, op_type), {})
            if since in versions:
                raise ValueError(f"two importers for {op_type} since opset {since}")
            versions[since] = handler
        return handler

    return register


def handler_for(domain: str, op_type: str, opset: int) -> OnnxHandler | None:
    """The handler for an operator at an opset, or None if there is none."""
    domain = "com.microsoft" if not domain and op_type in _MISPLACED else domain
    versions = _HANDLERS.get((domain, op_type), {})
    eligible = [since for since in versions if since <= opset]
    is_declared = bool(domain) or schema_of(op_type, opset) is not None
    return versions[max(eligible)] if eligible and is_declared else None


@functools.cache
def schema_of(op_type: str, opset: int, domain: str = "") -> onnx.defs.OpSchema | None:
    """ONNX's own declaration of an operator at an opset; None if the opset has no such operator."""
    try:
        return onnx.defs.get_schema(op_type, opset, domain)
    except onnx.defs.SchemaError:
        return None
