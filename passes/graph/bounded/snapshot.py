"""What a graph says at given sizes, without its context, so that graphs of different sizes can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import STEPWELL
from ...base import PassError
from ...functions import body_of, main_function


class BoundedError(PassError):
    """A model has something that no program for a range of sizes can do; the message says what."""


@dataclass(frozen=True)
class OpState:
    """One op of a graph.

    Attributes:
        name: its name.
        operands: the numbers of the values that it reads.
        attributes: by name, as Python values.
        shapes: those of its results.
    """

    name: str
    operands: tuple[int, ...]
    attributes: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Snapshot:
    """The ops of `@main` in order, at given sizes.

    Attributes:
        sizes: the sizes by the names of the dimensions.
        ops: what each op says.
        results: the numbers of the values that are returned.
    """

    sizes: Mapping[str, int]
    ops: Sequence[OpState] = field(repr=False)
    results: tuple[int, ...]

    @staticmethod
    def of(module: ir.Module, sizes: Mapping[str, int]) -> Snapshot:
        """What a module says, all of whose shapes are known.

        Raises:
            BoundedError: there is control flow that depends on contents.
        """
        body = body_of(main_function(module.operation))
        numbers = {value: index for index, value in enumerate(body.arguments)}
        ops: list[OpState] = []
        *operations, returned = [op.operation for op in body.operations]
        for op in operations:
            view = STEPWELL.view(op)
            if view is None:
                raise BoundedError(f"'{op.name}' op: control flow that depends on contents", op.location)
            operands = tuple(numbers[value] for value in op.operands)
            shapes = tuple(tuple(ir.RankedTensorType(value.type).shape) for value in op.results)
            ops.append(OpState(op.name, operands, view.attribute_values(), shapes))
            for value in op.results:
                numbers[value] = len(numbers)
        return Snapshot(dict(sizes), ops, tuple(numbers[value] for value in returned.operands))

    def is_like(self, other: Snapshot) -> bool:
        """Whether both are the same graph but for sizes and what is made of them."""
        if len(self.ops) != len(other.ops) or self.results != other.results:
            return False
        return all(
            (a.name, a.operands, a.attributes.keys()) == (b.name, b.operands, b.attributes.keys())
            and list(map(len, a.shapes)) == list(map(len, b.shapes))
            for a, b in zip(self.ops, other.ops, strict=True)
        )


def differing(states: Sequence[OpState]) -> set[str]:
    """The attributes of one op that are not the same at all sizes."""
    first = states[0].attributes
    return {name for state in states[1:] for name, value in state.attributes.items() if not _same(value, first[name])}


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))
    return left == right
