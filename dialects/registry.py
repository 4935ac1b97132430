"""The ops of all dialects that are declared in Python: ours, and those of other packages."""

from __future__ import annotations

from mlir import ir

from .core import DIALECTS, OPS, Op
from .stepwell import STEPWELL

__all__ = ["OPS", "STEPWELL", "load_dialects", "view_of"]


def view_of(operation: ir.Operation | ir.OpView) -> Op | None:
    """Returns the typed view of an operation; None if no Python class declares the op."""
    operation = operation.operation
    cls = OPS.get(operation.name)
    return None if cls is None else cls.of(operation)


def load_dialects(context: ir.Context) -> None:
    """Makes all declared dialects known to `context`; loading twice does nothing."""
    for dialect in DIALECTS.values():
        dialect.load(context)
