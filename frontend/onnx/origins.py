"""Which inputs of a model a size or a content goes back to: those whose contents a compile would have to know.

No operator is named here: an op's own shape function says which of its operands it reads.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from mlir import ir

from ...dialects.core import Op, OpError, spec_of
from ...dialects.registry import view_of
from ...dialects.stepwell.shape import ShapeOfOp, SizeOfOp
from ...dialects.types import TensorSpec


class Origins:
    """A search backwards from values of a module, to the arguments of @main.

    Attributes:
        arguments: the positions of the arguments whose contents were found to matter.
    """

    def __init__(self) -> None:
        self.arguments: set[int] = set()
        self._sizes: set[ir.Value] = set()
        self._contents: set[ir.Value] = set()

    def of_sizes(self, values: Iterable[ir.Value]) -> Origins:
        """Goes back from the extents of values that are not numbers."""
        pending = [value for value in values if is_dynamic(value)]
        self._search(pending, [])
        return self

    def of_contents(self, values: Iterable[ir.Value]) -> Origins:
        """Goes back from what values hold."""
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
    """The op that a value comes from (for an argument of an inner block the op around it); None for @main's own."""
    owner = value.owner
    if not isinstance(owner, ir.Block):
        return owner.operation
    around = owner.owner.operation
    return None if around.name == "func.func" else around


def is_dynamic(value: ir.Value) -> bool:
    """Whether a value is a tensor with an extent that is no number."""
    return isinstance(value.type, ir.RankedTensorType) and not ir.RankedTensorType(value.type).has_static_shape


def _read_by(op: ir.Operation) -> list[ir.Value]:
    """What an op and all ops within it read."""
    read = list(op.operands)
    for region in op.regions:
        for block in region:
            for inner in block.operations:
                read += _read_by(inner.operation)
    return read


class _Watched(TensorSpec):
    """A spec that tells whether its contents were asked for."""

    def __getattribute__(self, name: str) -> Any:
        if name == "value":
            object.__setattr__(self, "was_read", True)
        return object.__getattribute__(self, name)


def _operands_read(view: Op) -> list[ir.Value]:
    """The operands whose contents the op's shape depends on, and that are not known.

    Shape functions stop at the first one that they miss; with something in its place, others show.
    """
    read: dict[ir.Value, np.ndarray] = {}
    while True:
        watched: dict[ir.Value, _Watched] = {}

        def spec(value: ir.Value, watched: dict[ir.Value, _Watched] = watched) -> TensorSpec:
            known = spec_of(value)
            if known.value is not None:
                return known
            watched[value] = _Watched(known.shape, known.dtype, read.get(value))
            return watched[value]

        with contextlib.suppress(OpError):  # what is in their place need not fit
            view.infer_specs(spec)
        fresh = [value for value, item in watched.items() if value not in read and getattr(item, "was_read", False)]
        for value in fresh:
            dims = watched[value].shape
            read[value] = np.ones([dim if isinstance(dim, int) else 1 for dim in dims], watched[value].dtype)
        if not fresh:
            return list(read)
