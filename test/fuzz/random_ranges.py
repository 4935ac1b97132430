"""Random programs of the stepwell dialect whose sizes vary, with inputs at several sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from proposals import PROPOSALS, Proposal
from random_graphs import Graph, Grower, Value
from stepwell.dialects import dims, discardable
from stepwell.dialects.core import Op, OpError, check_extents
from stepwell.dialects.dims import Dim, DimShape
from stepwell.dialects.types import TensorSpec
from stepwell.passes.ir.functions import main_function
from stepwell.sizes.algebra import UndecidedError
from stepwell.sizes.assumptions import assuming
from stepwell.sizes.ranges import Range

SIZES = 6
"""Number of sizes at which a program is called."""

_HIGHEST = ((6, 7, 9, 11, 13, 18), (10, 12, 14, 19, 20, 24))
"""Upper bounds to draw from for the two symbolic dimensions; no static extent is one of them."""

_STATIC = (1, 2, 3, 4, 5, 8, 16)
_OF_SIZES = ("shape", "starts", "stops", "sizes", "low", "high")
"""Attributes that may be expressions over sizes."""


class WrongShape(AssertionError):
    """The deduced shape of a result is not the one that it has at a size."""


@dataclass
class RangedValue(Value):
    """A tensor of a program.

    Attributes:
        dims: the shape.
        at: the tensor at each of the sizes; the tensor itself is that of the greatest ones.
    """

    dims: DimShape = ()
    at: list[Value] = field(default_factory=list)

    @property
    def spec(self) -> TensorSpec:
        """Type of the value; the contents of a constant are part of it."""
        return TensorSpec(self.dims, self.array.dtype, self.array if self.source == "constant" else None)


class RangedGrower(Grower):
    """Grows one graph, determined by the seed alone.

    Ops are proposed for the greatest sizes. A number in an attribute, or a dimension of a new input, which is there
    that of a symbolic dimension becomes an expression; what does not fit at the other sizes is rejected.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.ranges: dict[str, Range] = {}
        for name, highest in zip("nm", _HIGHEST, strict=True):
            high, step = self.random.choice(highest), self.random.choice((1, 1, 1, 2, 4))
            low = high - step * self.random.randint(1, (high - 1) // step)
            self.ranges[name] = Range(low, high, step)
        self.most = {name: values.high for name, values in self.ranges.items()}
        self.sizes = [self.most, {name: values.low for name, values in self.ranges.items()}]
        while len(self.sizes) < SIZES:
            self.sizes.append(
                {
                    name: self.random.randrange(values.low, values.high + 1, values.step)
                    for name, values in self.ranges.items()
                }
            )
        self.known: dict[int, Dim] = {values.high: dims.named(name) for name, values in self.ranges.items()}

    def grow(self) -> Graph:
        """Returns a graph of 2 to 12 ops."""
        with assuming({name: (values.low, values.high) for name, values in self.ranges.items()}):
            return self.grown(self.random.choice((2, 3, 4, 5, 6, 8, 12)), sorted(PROPOSALS))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Draws a shape of static and symbolic extents."""
        rank = self.random.choice((1, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            shape = tuple(self.random.choice((*_STATIC, *2 * tuple(self.most.values()))) for _ in range(rank))
            if np.prod(shape, dtype=float) <= 10_000:
                return shape

    def fresh(self, shape: Sequence[int], dtype: Any = None, sources: Sequence[str] = ("input", "parameter")) -> int:
        """Adds an input, or a parameter of static shape."""
        wanted = tuple(self.known.get(extent, extent) for extent in shape)
        if dims.is_static(wanted):
            return super().fresh(shape, dtype, sources)
        kind = np.dtype(dtype or self.dtype())
        arrays = [self.numbers_of(_at(wanted, sizes), kind) for sizes in self.sizes]
        return self._add(wanted, [Value(array, _precise(array), True) for array in arrays], "input")

    def add(
        self,
        array: np.ndarray,
        source: str,
        precise: np.ndarray | None = None,
        is_exact: bool = True,
        slack: float = 0.0,
    ) -> int:
        """Adds a value that is the same at all sizes and returns its number."""
        value = Value(array, _precise(array) if precise is None else precise, is_exact, slack=slack)
        return self._add(array.shape, [value] * SIZES, source)

    def _add(self, shape: DimShape, at: list[Value], source: str) -> int:
        first = at[0]
        self.graph.values.append(RangedValue(first.array, first.precise, first.is_exact, source, shape, at))
        return len(self.graph.values) - 1

    def accept(self, name: str, op: type[Op], proposal: Proposal) -> list[int] | None:
        """Adds the results of an op, and sets attributes to expressions; returns None if the op does not fit."""
        operands: list[Any] = [None if index is None else self.graph.values[index] for index in proposal.operands]
        for attributes in self._attributes(operands, proposal.attributes):
            try:
                shapes, results = self._computed(name, op, operands, op._complete(attributes))
            except (OpError, UndecidedError, ValueError, IndexError):
                continue
            proposal.attributes = attributes
            for shape in shapes:
                for dim in shape:
                    if not isinstance(dim, int):
                        self.known.setdefault(int(dims.bind(dim, self.most)), dim)
            return [
                self._add(shape, list(at), "") for shape, at in zip(shapes, zip(*results, strict=True), strict=True)
            ]
        return None

    def _computed(
        self, name: str, op: type[Op], operands: Sequence[RangedValue | None], attributes: dict[str, Any]
    ) -> tuple[list[DimShape], list[list[Value]]]:
        """The deduced shapes of an op's results, and the results at each of the sizes.

        Raises:
            OpError, UndecidedError, ValueError, IndexError: the op does not fit.
            WrongShape: a deduced shape is wrong.
        """
        found = op.infer(*(None if value is None else value.spec for value in operands), **attributes)
        shapes = [spec.shape for spec in (found if isinstance(found, tuple | list) else (found,))]
        if not all(dims.is_known(dim) for shape in shapes for dim in shape):
            raise OpError("has results of unknown sizes")
        results = []
        for place, sizes in enumerate(self.sizes):
            bound = {key: _bound(value, sizes) for key, value in attributes.items()}
            at = [None if value is None else value.at[place] for value in operands]
            if name == "gather" and not _are_indices(at, bound["axis"]):
                raise OpError("has indices out of range")
            alone = op.infer(
                *(None if value is None else TensorSpec(value.array.shape, value.array.dtype) for value in at), **bound
            )
            extents = [spec.shape for spec in (alone if isinstance(alone, tuple | list) else (alone,))]
            check_extents(*extents)
            if extents != [_at(shape, sizes) for shape in shapes]:
                texts = ", ".join(f"({', '.join(map(str, shape))})" for shape in shapes)
                raise WrongShape(f"'stepwell.{name}' with {attributes}: {texts} was deduced, {extents} at {sizes}")
            values = self.referenced(name, op, at, bound)
            if values is None:
                raise OpError("has results that are not tame")
            results.append(values)
        return shapes, results

    def _attributes(self, operands: Sequence[RangedValue | None], given: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Attributes to try: with expressions, and as they are."""
        extents = [dim for value in operands if value is not None for dim in value.dims]
        known = dict(self.known)
        for count in (2, 3):
            for start in range(len(extents) - count + 1):
                merged = dims.product(extents[start : start + count])
                known.setdefault(int(dims.bind(merged, self.most)), merged)
        for dim, factor in itertools.product(extents, (2, 3, 4)):
            known.setdefault(int(dims.bind(dim // factor, self.most)), dim // factor)
        known = {number: dim for number, dim in known.items() if number not in _STATIC}
        expressed = {
            key: tuple(known.get(item, item) for item in value) if key in _OF_SIZES else value
            for key, value in given.items()
        }
        if expressed != given:
            yield expressed
        yield given

    def module(self) -> tuple[ir.Module, dict[str, np.ndarray]]:
        """Returns the program in the phase `import`, with named dimensions, and its parameters."""
        with assuming({name: (values.low, values.high) for name, values in self.ranges.items()}):
            module, parameters = self.graph.module()
        main = main_function(module.operation)
        inputs = [self.graph.values[index].spec for index in self.graph.sources("input")]
        main.attributes["arg_attrs"] = ir.ArrayAttr.get(
            [ir.DictAttr.get(discardable.DIMS.entry(tuple(map(_name, spec.shape)))) for spec in inputs]
        )
        return module, parameters


def _name(dim: Dim) -> Any:
    return dim if isinstance(dim, int) else str(dim)


def _at(shape: DimShape, sizes: dict[str, int]) -> tuple[int, ...]:
    return dims.numbers(dims.bind(dim, sizes) for dim in shape)


def _bound(value: Any, sizes: dict[str, int]) -> Any:
    if isinstance(value, tuple):
        return tuple(_bound(item, sizes) for item in value)
    return dims.bind(value, sizes) if isinstance(value, dims.Symbolic) else value


def _are_indices(operands: Sequence[Value | None], axis: int) -> bool:
    data, indices = (value.array for value in operands if value is not None)
    return bool(np.all((indices >= -data.shape[axis]) & (indices < data.shape[axis])))


def _precise(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if np.issubdtype(array.dtype, np.floating) else array
