"""Snapshots of a graph at given sizes, independent of its context, to compare graphs of different sizes."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.registry import view_of
from ....dialects.stepwell.movement import DynamicSliceOp, SliceOp
from ...infra.base import PassError
from ...ir.functions import body_of, main_function
from ...ir.named_ops import ops_named
from ...ir.rewriting import walk
from ...ir.values import shape_if_tensor

MOST_PLACES = 1 << 24
"""Maximum size of a dimension for which a mask or index constant is created."""

Shape = tuple[int, ...]


class BoundedError(PassError):
    """A model contains something that cannot be compiled for a range of sizes; the message says what."""


def numbered(count: int) -> np.ndarray:
    """The indices along a dimension as a constant, to compare with extents.

    Raises:
        BoundedError: the dimension is too large for a constant in the program.
    """
    if count > MOST_PLACES:
        raise BoundedError(f"it masks {count} elements, too many for a constant; let the range end lower")
    return np.arange(count)


class VaryingConstant(BoundedError):
    """A constant computed from sizes has no simple form; compiling its computation into the program might work."""


@dataclass(frozen=True)
class OpState:
    """One op of a graph.

    Attributes:
        name: its name.
        operands: numbers of its operands.
        attributes: its attributes by name, as Python values.
        shapes: shapes of its results.
    """

    name: str
    operands: tuple[int, ...]
    attributes: Mapping[str, Any]
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Snapshot:
    """The ops of `@main` in order, at given sizes.

    Attributes:
        sizes: sizes by dimension name.
        ops: state of each op.
        results: numbers of the returned values.
        shapes: shapes of the returned values.
        slices: shapes of each slice's operand and result, before folding.
    """

    sizes: Mapping[str, int]
    ops: Sequence[OpState] = field(repr=False)
    results: tuple[int, ...]
    shapes: tuple[Shape, ...]
    slices: Sequence[tuple[Shape, Shape]] = field(default=(), repr=False)

    @staticmethod
    def of(module: ir.Module, sizes: Mapping[str, int], slices: Sequence[tuple[Shape, Shape]] = ()) -> Snapshot:
        """Records a module with static shapes.

        The ops inside an op come right after it.
        """
        main = main_function(module.operation)
        numbers = {value: index for index, value in enumerate(body_of(main).arguments)}
        ops: list[OpState] = []
        *operations, returned = walk(main)
        for op in operations:
            operands = tuple(numbers[value] for value in op.operands)
            ops.append(OpState(op.name, operands, _attributes(op), tuple(map(shape_if_tensor, op.results))))
            inner = [value for region in op.regions for block in region for value in block.arguments]
            for value in (*inner, *op.results):
                numbers[value] = len(numbers)
        results = tuple(numbers[value] for value in returned.operands)
        return Snapshot(dict(sizes), ops, results, tuple(map(shape_if_tensor, returned.operands)), slices)

    def is_like(self, other: Snapshot) -> bool:
        """Returns whether both are the same graph, apart from sizes and values computed from them."""
        if len(self.ops) != len(other.ops) or self.results != other.results:
            return False
        return all(
            (a.name, a.operands, a.attributes.keys()) == (b.name, b.operands, b.attributes.keys())
            and list(map(len, a.shapes)) == list(map(len, b.shapes))
            for a, b in zip(self.ops, other.ops, strict=True)
        )


def slices_of(module: ir.Module) -> list[tuple[Shape, Shape]]:
    """The shapes of the operand and result of each slice in a module, in the order of the ops."""
    found = ops_named(module.operation, SliceOp.OPERATION_NAME, DynamicSliceOp.OPERATION_NAME)
    return [(shape_if_tensor(op.operands[0]), shape_if_tensor(op.results[0])) for op in found]


def check_slices(samples: Sequence[Snapshot]) -> None:
    """Checks that no slice is empty at greater sizes but not at smaller ones, as [-3:1] is from four elements on.

    Folding removes an empty slice, so the sizes at which it is not empty would miss it. All slices are compared,
    because starts and stops may depend on sizes even if the operand does not vary.

    Raises:
        BoundedError: a slice is.
    """
    for here, there in itertools.permutations(samples, 2):
        is_greater = any(size > there.sizes[name] for name, size in here.sizes.items())
        for (source, part), (other, left) in zip(here.slices, there.slices, strict=False):
            vanishes = is_greater and any(count == 0 < rest for count, rest in zip(part, left, strict=False))
            if vanishes or any(
                size > least and count == 0 for size, count, least in zip(source, part, other, strict=False)
            ):
                text = "x".join(map(str, source))
                raise BoundedError(
                    f"a slice of {text} elements is empty at {listed(here.sizes)} but may not be at smaller sizes"
                )


def listed(sizes: Mapping[str, int]) -> str:
    """Sizes as text."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _attributes(op: ir.Operation) -> Mapping[str, Any]:
    view = view_of(op)
    if view is not None:
        return view.attribute_values()
    if op.name == "arith.constant" and isinstance(op.attributes["value"].type, ir.IndexType):
        return {"value": ir.IntegerAttr(op.attributes["value"]).value}
    return {name: str(op.attributes[name]) for name in op.attributes}


def differing(states: Sequence[OpState]) -> set[str]:
    """The names of the attributes of one op that differ between sizes."""
    first = states[0].attributes
    return {name for state in states[1:] for name, value in state.attributes.items() if not _same(value, first[name])}


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and bool(np.array_equal(left, right, equal_nan=left.dtype.kind == "f"))
    return left == right
