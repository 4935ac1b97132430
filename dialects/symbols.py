"""Names of symbols, such as functions, and of the functions that calls refer to."""

from __future__ import annotations

from mlir import ir


def symbol_of(op: ir.Operation | ir.OpView) -> str:
    """The name of a function or another op of a symbol table; "" if the op has none."""
    return ir.StringAttr(op.attributes["sym_name"]).value if "sym_name" in op.attributes else ""


def callee_of(call: ir.Operation | ir.OpView) -> str:
    """The name of the function that a `func.call` or `llvm.call` calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value
