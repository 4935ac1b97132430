"""Traces sizes and contents back to the inputs of a model whose contents a compile would have to know.

This names no operators: an op's own shape function determines which of its operands it reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op, OpError, spec_of
from ....dialects.dims import is_known
from ....dialects.registry import view_of
from ....dialects.stepwell.shape import ShapeOfOp, SizeOfOp
from ....dialects.types import TensorSpec, shape_of_type


class Origins:
    """A backward search from values of a module to the arguments of @main.

    Attributes:
        arguments: positions of the arguments whose contents matter.
    """

    def __init__(self) -> None:
        self.arguments: set[int] = set()
        self._sizes: set[ir.Value] = set()
        self._contents: set[ir.Value] = set()

    def of_sizes(self, values: Iterable[ir.Value]) -> Origins:
        """Traces back from the symbolic extents of values."""
        pending = [value for value in values if is_dynamic(value)]
        self._search(pending, [])
        return self

    def of_contents(self, values: Iterable[ir.Value]) -> Origins:
        """Traces back from the contents of values."""
        self._search([], list(values))
        return self

    def _search(self, sizes: list[ir.Value], contents: list[ir.Value]) -> None:
        while sizes or contents:
            if sizes:
                value = sizes.pop()
                if value not in self._sizes:
                    self._sizes.add(value)
                    self._behind_size(value, sizes, contents)
                continue
            value = contents.pop()
            if value not in self._contents:
                self._contents.add(value)
                self._behind_contents(value, sizes, contents)

    def _behind_size(self, value: ir.Value, sizes: list[ir.Value], contents: list[ir.Value]) -> None:
        op = _maker(value)
        if op is None:
            return
        view = view_of(op)
        if view is None:
            contents.extend(_read_by(op))
            return
        contents.extend(_operands_read(view))
        sizes.extend(operand for operand in op.operands if is_dynamic(operand))

    def _behind_contents(self, value: ir.Value, sizes: list[ir.Value], contents: list[ir.Value]) -> None:
        op = _maker(value)
        if op is None:
            self.arguments.add(ir.BlockArgument(value).arg_number)
        elif op.name in (ShapeOfOp.OPERATION_NAME, SizeOfOp.OPERATION_NAME):
            sizes.extend(operand for operand in op.operands if is_dynamic(operand))
        else:
            contents.extend(_read_by(op))


def _maker(value: ir.Value) -> ir.Operation | None:
    """The op that defines a value (the enclosing op for a block argument); None for @main's own arguments."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return owner.operation
    around = owner.owner.operation
    return None if around.name == "func.func" else around


def is_dynamic(value: ir.Value) -> bool:
    """Returns whether a value is a tensor with an unknown extent."""
    return isinstance(value.type, ir.RankedTensorType) and not all(map(is_known, shape_of_type(value.type)))


def _read_by(op: ir.Operation) -> list[ir.Value]:
    """The values that an op and all ops inside it read."""
    read = list(op.operands)
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                read += _read_by(inner.operation)
    return read


class _Instrumented(TensorSpec):
    """A spec that records whether its contents were read."""

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            object.__setattr__(self, "was_read", True)
        return object.__getattribute__(self, name)


def _operands_read(view: Op) -> list[ir.Value]:
    """The operands with unknown contents on which the op's shape depends.

    Shape functions stop at the first contents that are missing; with a stand-in for these, the next ones are found.
    """
    read: dict[ir.Value, np.ndarray] = {}
    while True:
        watched: dict[ir.Value, _Instrumented] = {}

        def spec(value: ir.Value, watched: dict[ir.Value, _Instrumented] = watched) -> TensorSpec:
            known = spec_of(value)
            if known.value is not None:
                return known
            watched[value] = _Instrumented(known.shape, known.dtype, read.get(value))
            return watched[value]

        with contextlib.suppress(OpError):  # the stand-ins need not be valid
            view.infer_specs(spec)
        fresh = [value for value, item in watched.items() if value not in read and getattr(item, "was_read", False)]
        for value in fresh:
            dims = watched[value].shape
            read[value] = np.ones([dim if isinstance(dim, int) else 1 for dim in dims], watched[value].dtype)
        if not fresh:
            return list(read)
