"""Random programs of the stepwell dialect, with inputs on which they are well conditioned.

A program is grown op by op from the dialect's own definitions: an op proposes operands and attributes, `infer` checks
them, and `reference` computes the results. Results that are not finite or too large are rejected. So every program is
legal, and every result is known, both in the dtypes of the program and in float64.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from proposals import PROPOSALS, Proposal
from stepwell.dialects.core import Op, OpError, check_extents
from stepwell.dialects.registry import OPS
from stepwell.dialects.stepwell.constant import ConstantOp, ParameterOp
from stepwell.dialects.types import TensorSpec, tensor_type

LARGEST = 40_000
"""Maximum number of elements of a value; its absolute values are at most `HIGHEST`."""

HIGHEST = 1e4

_EXACT = {
    *("abs", "neg", "relu", "clip", "maximum", "minimum", "sign", "floor", "ceil", "round", "not", "and", "or", "xor"),
    *("equal", "less", "less_equal", "greater", "greater_equal", "select", "concat", "slice", "transpose", "reshape"),
    *("reverse", "tile", "pad", "gather", "broadcast_to", "expand_dims", "squeeze", "max_pool", "reduce_max"),
    *("reduce_min", "argmax", "cast"),
}
"""Ops without rounding: their results are equal to the reference's."""

_JUMPS = {
    *("floor", "ceil", "round", "sign", "cast", "mod", "argmax", "equal", "less", "less_equal", "greater", "select"),
    *("greater_equal", "bitcast", "pow"),
}
"""Discontinuous ops, whose results may change much by a small change of the operands: they take exact operands only."""


@dataclass
class Value:
    """A tensor of a program.

    Attributes:
        array: contents of the tensor.
        precise: contents computed in float64, if they are floats.
        is_exact: whether compiled code must compute exactly these bits.
        source: "input", "parameter" or "constant", or "" for the result of a step.
        slack: about the largest error that rounding in every step causes, in whichever direction.
    """

    array: np.ndarray
    precise: np.ndarray
    is_exact: bool
    source: str = ""
    slack: float = field(default=0.0, kw_only=True)

    @property
    def spec(self) -> TensorSpec:
        """Type of the value; the contents of a constant are part of it."""
        return TensorSpec(self.array.shape, self.array.dtype, self.array if self.source == "constant" else None)


@dataclass
class Step:
    """One op: its class, its operands and its results."""

    op: type[Op]
    operands: list[int | None]
    attributes: dict[str, Any]
    results: list[int]


@dataclass
class Graph:
    """A program, and all values that it computes."""

    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)

    def sources(self, kind: str) -> list[int]:
        """Returns the values of one source."""
        return [index for index, value in enumerate(self.values) if value.source == kind]

    def module(self) -> tuple[ir.Module, dict[str, np.ndarray]]:
        """Returns the program in the phase `import`, in the current context, and its parameters."""
        names = {index: f"p{index}" for index in self.sources("parameter")}
        module = ir.Module.create()
        inputs = self.sources("input")
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([tensor_type(self.values[index].spec) for index in inputs], []))
        block = main.add_entry_block()
        made: dict[int, ir.Value] = dict(zip(inputs, block.arguments, strict=True))
        with ir.InsertionPoint(block):
            for index, name in names.items():
                array, place = self.values[index].array, ir.Location.name(name)
                made[index] = ParameterOp(name=name, shape=array.shape, dtype=array.dtype, loc=place).result
            for index in self.sources("constant"):
                made[index] = ConstantOp(value=self.values[index].array, loc=ir.Location.name(f"c{index}")).result
            for number, step in enumerate(self.steps):
                operands = [None if index is None else made[index] for index in step.operands]
                op = step.op(*operands, **step.attributes, loc=ir.Location.name(f"{step.op.__name__}_{number}"))
                made.update(zip(step.results, op.operation.results, strict=True))
            func.ReturnOp([made[index] for index in self.outputs])
        main.attributes["function_type"] = ir.TypeAttr.get(
            ir.FunctionType.get([value.type for value in block.arguments], [made[index].type for index in self.outputs])
        )
        return module, {name: self.values[index].array for index, name in names.items()}


class Grower:
    """Grows one graph, determined by the seed alone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.graph = Graph()

    def grow(self) -> Graph:
        """Returns a graph of 3 to 30 ops."""
        return self.grown(self.random.choice((3, 4, 5, 6, 8, 12, 20, 30)), sorted(PROPOSALS))

    def grown(self, count: int, names: Sequence[str]) -> Graph:
        """Returns a graph of at most `count` ops, proposed by name."""
        for _ in range(40 * count):
            if len(self.graph.steps) == count:
                break
            self._try(self.random.choice(names))
        read = {index for step in self.graph.steps for index in step.operands}
        made = [index for step in self.graph.steps for index in step.results]
        leaves = [index for index in made if index not in read]
        extra = self.random.sample(made, min(len(made), self.random.choice((0, 0, 1, 2))))
        self.graph.outputs = list(dict.fromkeys([*leaves, *extra]))
        return self.graph

    def _try(self, name: str) -> None:
        graph, count = self.graph, len(self.graph.values)
        proposal = PROPOSALS[name](self)
        if proposal is None or not self._accept(name, proposal):
            del graph.values[count:]

    def _accept(self, name: str, proposal: Proposal) -> bool:
        op = OPS[f"stepwell.{name}"]
        given = [self.graph.values[index] for index in proposal.operands if index is not None]
        if name in _JUMPS and not all(value.is_exact for value in given):
            return False
        results = self.accept(name, op, proposal)
        if results is None:
            return False
        self.graph.steps.append(Step(op, proposal.operands, proposal.attributes, results))
        return True

    def accept(self, name: str, op: type[Op], proposal: Proposal) -> list[int] | None:
        """Adds the results of an op and returns their numbers; None if the op does not fit."""
        operands = [None if index is None else self.graph.values[index] for index in proposal.operands]
        try:
            attributes = op._complete(proposal.attributes)
            specs = op.infer(*(None if value is None else value.spec for value in operands), **attributes)
            specs = specs if isinstance(specs, tuple | list) else (specs,)
            check_extents(*(spec.shape for spec in specs))
        except OpError:
            return None
        if any(np.prod(spec.shape, dtype=float) > LARGEST for spec in specs):
            return None
        values = self.referenced(name, op, operands, attributes)
        if values is None:
            return None
        return [self.add(value.array, "", value.precise, value.is_exact, value.slack) for value in values]

    def referenced(
        self, name: str, op: type[Op], operands: Sequence[Value | None], attributes: dict[str, Any]
    ) -> list[Value] | None:
        """The results of an op's reference; None if they are not finite, too large, or not defined."""
        given = [value for value in operands if value is not None]
        if name == "reduce_prod" and _overflows_in_some_order(given[0].precise, attributes["axes"]):
            return None
        try:
            with np.errstate(all="ignore"):
                arrays, precise, moved = (
                    _tuple(op.reference(*(None if value is None else view(value) for value in operands), **attributes))
                    for view in (lambda value: value.array, lambda value: value.precise, _moved)
                )
        except ValueError:  # contents that break a rule, such as a negative power of an integer
            return None
        if not all(_is_tame(array) for array in (*arrays, *precise, *moved)):
            return None
        exact = name in _EXACT and all(value.is_exact for value in given)
        return [
            Value(
                np.asarray(array),
                _as_precise(np.asarray(double), array.dtype),
                exact,
                slack=0.0 if exact else _slack(array.dtype, double, other),
            )
            for array, double, other in zip(arrays, precise, moved, strict=True)
        ]

    def add(
        self,
        array: np.ndarray,
        source: str,
        precise: np.ndarray | None = None,
        is_exact: bool = True,
        slack: float = 0.0,
    ) -> int:
        """Adds a value and returns its number."""
        double = _as_precise(array, array.dtype) if precise is None else precise
        self.graph.values.append(Value(array, double, is_exact, source, slack=slack))
        return len(self.graph.values) - 1

    def fresh(self, shape: Sequence[int], dtype: Any = None, sources: Sequence[str] = ("input", "parameter")) -> int:
        """Adds an input or parameter."""
        array = self.numbers_of(shape, np.dtype(dtype or self.dtype()))
        return self.add(array, self.random.choice(list(sources)))

    def numbers_of(self, shape: Sequence[int], kind: np.dtype) -> np.ndarray:
        """Draws the contents of a tensor."""
        if kind == np.bool_:
            array = self.numbers.integers(0, 2, shape).astype(kind)
        elif np.issubdtype(kind, np.integer):
            array = self.numbers.integers(-4 if np.issubdtype(kind, np.signedinteger) else 0, 5, shape).astype(kind)
        else:
            array = self.numbers.uniform(-2, 2, shape).astype(kind)
        return np.asarray(array)

    def dtype(self) -> str:
        """Draws an element type, mostly float32."""
        return self.random.choice(("float32",) * 8 + ("float64", "float16", "int32", "int64", "int8", "uint8", "bool"))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """Draws a shape of mixed extents."""
        rank = self.random.choice((1, 2, 2, 3, 3, 4)) if rank is None else rank
        extents = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 32, 33, 64)
        while True:
            shape = tuple(self.random.choice(extents) for _ in range(rank))
            if np.prod(shape, dtype=float) <= LARGEST / 4:
                return shape

    def pick(self, fits: Callable[[np.ndarray], bool] = lambda array: True) -> int | None:
        """Returns one of the existing tensors, or None if none fits."""
        found = [index for index, value in enumerate(self.graph.values) if fits(value.array)]
        return self.random.choice(found[-12:]) if found else None


def _tuple(value: Any) -> tuple[np.ndarray, ...]:
    return tuple(map(np.asarray, value)) if isinstance(value, tuple | list) else (np.asarray(value),)


def _moved(value: Value) -> np.ndarray:
    """The precise contents, each of them moved up or down by the slack."""
    if not value.slack:
        return value.precise
    return value.precise + value.slack * np.random.default_rng(0).choice([-1, 1], value.precise.shape)


def _slack(dtype: np.dtype, precise: np.ndarray, moved: np.ndarray) -> float:
    """The largest error of a result: that of its operands, and its own rounding."""
    if not np.issubdtype(dtype, np.floating) or not precise.size:
        return 0.0
    return float(np.abs(moved - precise).max() + np.finfo(dtype).eps * np.abs(precise).max())


def _overflows_in_some_order(array: np.ndarray, axes: tuple[int, ...]) -> bool:
    """Returns whether the product of some elements, instead of all, may leave the range of float16."""
    if not np.issubdtype(array.dtype, np.floating):
        return False
    digits = np.abs(np.log2(np.abs(array), where=array != 0, out=np.zeros_like(array)))
    return bool(np.any(digits.sum(axes) > -np.finfo(np.float16).minexp))


def _is_tame(array: np.ndarray) -> bool:
    if not np.issubdtype(array.dtype, np.floating) or not array.size:
        return True
    return bool(np.isfinite(array).all() and np.abs(array).max() <= HIGHEST)


def _as_precise(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    return array.astype(np.float64) if np.issubdtype(dtype, np.floating) else array
