"""Finding functions in a module, by name or by having a body."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from ..base import PassError


def functions_with_bodies(module: ir.Operation) -> Iterator[ir.Operation]:
    """The functions of a module that are not mere declarations; the op itself, where it is one."""
    if module.name == "func.func":
        yield module
        return
    for op in list(module.regions[0].blocks[0].operations):
        if op.operation.name == "func.func" and len(op.operation.regions[0].blocks):
            yield op.operation


def function_named(module: ir.Operation, name: str) -> ir.Operation | None:
    """The function called `name`, if the module has it."""
    names = ((ir.StringAttr(op.attributes["sym_name"]).value, op) for op in functions_with_bodies(module))
    return next((op for found, op in names if found == name), None)


def main_function(module: ir.Operation) -> ir.Operation:
    """The function that is the model.

    Raises:
        PassError: there is none.
    """
    function = function_named(module, "main")
    if function is None:
        raise PassError("the module has no function @main", module.location)
    return function


def body_of(function: ir.Operation) -> ir.Block:
    """The one block of a function."""
    return function.regions[0].blocks[0]
