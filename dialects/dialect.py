"""Dialects declared in Python: sets of op classes, defined by IRDL."""

from __future__ import annotations

import functools
import io
from collections.abc import Sequence

from mlir import ir
from mlir._mlir_libs import _mlir
from mlir.dialects import irdl

from .op import Op

DIALECTS: dict[str, Dialect] = {}
"""The declared dialects by namespace."""

OPS: dict[str, type[Op]] = {}
"""The declared ops of all dialects by name."""


class Dialect:
    """A set of op classes under one namespace, loadable into any number of contexts."""

    def __init__(self, namespace: str, ops: Sequence[type[Op]]) -> None:
        """Declares a dialect, or replaces the declaration by the same module, which a notebook may run twice.

        Raises:
            ValueError: another module has declared a dialect of this name.
        """
        places = {op.__module__ for op in ops}
        other = DIALECTS.get(namespace)
        if other is not None and not places & {op.__module__ for op in other.ops.values()}:
            both = " and ".join(sorted(places)[:1] + sorted(op.__module__ for op in other.ops.values())[:1])
            raise ValueError(f"two dialects are called '{namespace}': those of {both}")
        self.namespace = namespace
        self.ops: dict[str, type[Op]] = {op.OPERATION_NAME: op for op in ops}
        DIALECTS[namespace] = self
        OPS.update(self.ops)

    def load(self, context: ir.Context) -> None:
        """Registers the dialect in `context`. A second call does nothing (MLIR itself would abort)."""
        marker = f"{self.namespace}.{next(iter(self.ops)).split('.', 1)[1]}"
        if context.is_registered_operation(marker):
            return
        with context, ir.Location.unknown():
            irdl.load_dialects(ir.Module.parse(self._bytecode))  # pyright: ignore[reportAttributeAccessIssue]

    @functools.cached_property
    def _bytecode(self) -> bytes:
        """The definition as bytecode for any context: reading it takes a fifth of the time of building it."""
        buffer = io.BytesIO()
        self.irdl_module().operation.write_bytecode(buffer)
        return buffer.getvalue()

    def irdl_module(self) -> ir.Module:
        """The dialect's definition in IRDL, in the current context."""
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            definition = irdl.dialect(self.namespace)
        with ir.InsertionPoint(definition.body):
            for op in self.ops.values():
                _define(op)
        return module


def _define(op: type[Op]) -> None:
    definition = irdl.operation_(op.OPERATION_NAME.split(".", 1)[1])
    with ir.InsertionPoint(definition.body):
        operands = op.operand_fields()
        if operands:
            kinds = [irdl.Variadicity.optional if field.is_optional else irdl.Variadicity.single for field in operands]
            irdl.operands_([irdl.any() for _ in operands], [field.name for field in operands], kinds)
        required = [field.name for field in op.attribute_fields() if field.is_required]
        if required:
            irdl.attributes_([irdl.any() for _ in required], required)
        results = op.result_fields()
        kinds = [irdl.Variadicity.single] * len(results)
        irdl.results_([irdl.any() for _ in results], [field.name for field in results], kinds)


# MLIR looks for a Python module of a dialect's name whenever it creates a view of one of its ops. Without this prefix
# it finds none for our dialects, does not remember that, and searches the file system for every operation in a walk.
_mlir.globals.append_dialect_search_prefix(__name__.rpartition(".")[0])
