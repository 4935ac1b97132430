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
from ...rewriting import walk


class BoundedError(PassError):
    """A model has something that no program for a range of sizes can do; the message says what."""


class VaryingConstant(BoundedError):
    """A constant that is computed from sizes, which might do as what it is computed by."""


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
        shapes: theirs.
    """

    sizes: Mapping[str, int]
    ops: Sequence[OpState] = field(repr=False)
    results: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]

    @staticmethod
    def of(module: ir.Module, sizes: Mapping[str, int]) -> Snapshot:
        """What a module says, all of whose shapes are known.

        Those inside an op come right after it.
        """
        main = main_function(module.operation)
        numbers = {value: index for index, value in enumerate(body_of(main).arguments)}
        ops: list[OpState] = []
        *operations, returned = walk(main)
        for op in operations:
            operands = tuple(numbers[value] for value in op.operands)
            ops.append(OpState(op.name, operands, _attributes(op), tuple(map(_shape, op.results))))
            inner = [value for region in op.regions for block in region for value in block.arguments]
            for value in (*inner, *op.results):
                numbers[value] = len(numbers)
        results = tuple(numbers[value] for value in returned.operands)
        return Snapshot(dict(sizes), ops, results, tuple(map(_shape, returned.operands)))

    def is_like(self, other: Snapshot) -> bool:
        """Whether both are the same graph but for sizes and what is made of them."""
        if len(self.ops) != len(other.ops) or self.results != other.results:
            return False
        return all(
            (a.name, a.operands, a.attributes.keys()) == (b.name, b.operands, b.attributes.keys())
            and list(map(len, a.shapes)) == list(map(len, b.shapes))
            for a, b in zip(self.ops, other.ops, strict=True)
        )


def listed(sizes: Mapping[str, int]) -> str:
    """Sizes in words."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _attributes(op: ir.Operation) -> Mapping[str, Any]:
    view = STEPWELL.view(op)
    if view is not None:
        return view.attribute_values()
    if op.name == "arith.constant" and isinstance(op.attributes["value"].type, ir.IndexType):
        return {"value": ir.IntegerAttr(op.attributes["value"]).value}
    return {item.name: str(item.attr) for item in op.attributes}


def _shape(value: ir.Value) -> tuple[int, ...]:
    return tuple(ir.RankedTensorType(value.type).shape) if isinstance(value.type, ir.RankedTensorType) else ()


def differing(states: Sequence[OpState]) -> set[str]:
    """The attributes of one op that are not the same at all sizes."""
    first = states[0].attributes
    return {name for state in states[1:] for name, value in state.attributes.items() if not _same(value, first[name])}


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))
    return left == right
