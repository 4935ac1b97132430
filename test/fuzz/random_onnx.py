"""Random ONNX models with symbolic dimensions, with inputs and ONNX Runtime's results at several sizes.

A model is grown by groups of nodes. ONNX Runtime computes each group at all sizes; groups that fail at one of them, or
whose results are not finite or too large, are rejected. Two dimensions are equal if they are so at all sizes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import (
    EPFail,
    Fail,
    InvalidArgument,
    InvalidGraph,
    NotImplemented,
    RuntimeException,
)

SIZES = 6
"""Number of sizes at which a model is called."""

LARGEST = 20_000
"""Maximum number of elements of a value; its absolute values are at most `HIGHEST`."""

HIGHEST = 1e3

_SYMBOLS = "nmk"
_HIGHEST = ((6, 7, 9, 11, 13, 18), (10, 12, 14, 19, 20, 24), (5, 17, 30))
"""Upper bounds to draw from for each symbol."""

_OPSET = 18


@dataclass
class Value:
    """A tensor of a model.

    Attributes:
        name: name in the model.
        at: contents at each of the sizes.
        is_exact: whether compiled code must compute exactly these bits.
    """

    name: str
    at: list[np.ndarray]
    is_exact: bool

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return self.at[0].ndim

    @property
    def dtype(self) -> np.dtype:
        """Type of the elements."""
        return self.at[0].dtype

    @property
    def is_float(self) -> bool:
        """True for floating-point elements."""
        return bool(np.issubdtype(self.dtype, np.floating))

    def extents(self, axis: int) -> tuple[int, ...]:
        """Extents of a dimension at each of the sizes."""
        return tuple(array.shape[axis] for array in self.at)

    @property
    def dims(self) -> tuple[tuple[int, ...], ...]:
        """Extents of all dimensions."""
        return tuple(map(self.extents, range(self.rank)))

    def least(self, axis: int) -> int:
        """The smallest extent of a dimension."""
        return min(self.extents(axis))


@dataclass
class Group:
    """Nodes that are added together.

    Attributes:
        nodes: operator, inputs, outputs and attributes of each node.
        outputs: names of the results that further groups may read.
        is_exact: whether the results have no rounding if no operand has; None for discontinuous operators, which take
            operands without rounding only.
    """

    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]]
    outputs: list[str]
    is_exact: bool | None = False


Propose = Callable[["Grower"], "Group | None"]


@dataclass
class Model:
    """A model with its inputs and expected results at each of the sizes."""

    proto: onnx.ModelProto
    inputs: list[Value]
    outputs: list[Value]


@dataclass
class _Draft:
    """The nodes, inputs and constants of an unfinished group."""

    nodes: list[tuple[str, list[str], list[str], dict[str, Any]]] = field(default_factory=list)
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    inputs: list[Value] = field(default_factory=list)


class Grower:
    """Grows one model, determined by the seed alone."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.ranges: dict[str, tuple[int, int, int]] = {}
        for name, highest in zip(_SYMBOLS, _HIGHEST, strict=True):
            high, step = self.random.choice(highest), self.random.choice((1, 1, 1, 1, 2, 4))
            low = high - step * self.random.randint(1, (high - 1) // step)
            self.ranges[name] = (low, high, step)
        self.sizes = [{name: high for name, (_, high, _) in self.ranges.items()}]
        self.sizes.append({name: low for name, (low, _, _) in self.ranges.items()})
        while len(self.sizes) < SIZES:
            self.sizes.append(
                {name: self.random.randrange(low, high + 1, step) for name, (low, high, step) in self.ranges.items()}
            )
        self.values: dict[str, Value] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.inputs: list[Value] = []
        self.shapes: dict[str, list[int | str]] = {}
        self.draft = _Draft()
        self.count = 0

    def grow(self, proposals: dict[str, Propose]) -> Model:
        """Returns a model of 2 to 10 groups."""
        count, names, added = self.random.choice((2, 3, 4, 5, 6, 8, 10)), sorted(proposals), 0
        for _ in range(30 * count):
            if added == count:
                break
            self.draft = _Draft()
            group = proposals[self.random.choice(names)](self)
            if group is not None:
                added += self._accept(group)
        return self._finished()

    def _accept(self, group: Group) -> bool:
        """Adds a group if it can be computed at all sizes and its results are tame."""
        nodes = [
            helper.make_node(name, given, made, **attributes) for name, given, made, attributes in self.draft.nodes
        ]
        nodes += [helper.make_node(name, given, made, **attributes) for name, given, made, attributes in group.nodes]
        made = {name for node in nodes for name in node.output}
        given = {name: None for node in nodes for name in node.input if name and name not in made}
        fresh = {value.name: value for value in self.draft.inputs}
        read = [fresh.get(name) or self.values[name] for name in given if name not in self.draft.constants]
        if group.is_exact is None and not all(value.is_exact for value in read):
            return False
        results = self._computed(nodes, read, group.outputs)
        if results is None:
            return False
        self.nodes += nodes
        self.constants |= self.draft.constants
        for value in self.draft.inputs:
            self.inputs.append(value)
            self.values[value.name] = value
        is_exact = group.is_exact is not False and all(value.is_exact for value in read)
        for name, at in zip(group.outputs, results, strict=True):
            self.values[name] = Value(name, at, is_exact)
        return True

    def _computed(
        self, nodes: Sequence[onnx.NodeProto], read: Sequence[Value], outputs: Sequence[str]
    ) -> list[list[np.ndarray]] | None:
        """The outputs at each of the sizes; None if there are none, or if they are not tame."""
        proto = _proto(nodes, [(value.name, value.dtype, None) for value in read], outputs, self.draft.constants)
        try:
            session = _session(proto)
            at = [session.run(list(outputs), {value.name: value.at[place] for value in read}) for place in range(SIZES)]
        except _ERRORS:
            return None
        results = [[np.asarray(array) for array in arrays] for arrays in zip(*at, strict=True)]
        return results if all(_is_tame(array) for arrays in results for array in arrays) else None

    def _finished(self) -> Model:
        read = {name for node in self.nodes for name in node.input}
        leaves = [name for name in self.values if name not in read and name not in self.shapes]
        made = [name for name in self.values if name not in self.shapes]
        extra = self.random.sample(made, min(len(made), self.random.choice((0, 0, 1, 2))))
        outputs = [self.values[name] for name in dict.fromkeys([*leaves, *extra])]
        inputs = [value for value in self.inputs if value.name in read]
        proto = _proto(
            self.nodes,
            [(value.name, value.dtype, self.shapes[value.name]) for value in inputs],
            [value.name for value in outputs],
            self.constants,
        )
        return Model(proto, inputs, outputs)

    def name(self, stem: str) -> str:
        """Returns a new name."""
        self.count += 1
        return f"{stem}{self.count}"

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Adds a node with one output to the draft and returns the output's name."""
        out = self.name(op.lower())
        self.draft.nodes.append((op, list(inputs), [out], attributes))
        return out

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        """Adds a constant to the draft and returns its name."""
        name = self.name("c")
        self.draft.constants[name] = np.asarray(value, dtype)
        return name

    def weight(self, *shape: int) -> str:
        """Adds a constant of random floats."""
        return self.constant(self.numbers.uniform(-1, 1, shape), np.float32)

    def one(self, op: str, inputs: Sequence[str], is_exact: bool | None = False, **attributes: Any) -> Group:
        """Returns a group that ends with a node of one output."""
        out = self.name(op.lower())
        return Group([(op, list(inputs), [out], attributes)], [out], is_exact)

    def fresh(self, shape: Sequence[int | str], dtype: Any = np.float32, below: int | None = None) -> Value:
        """Adds an input to the draft; `below` bounds the absolute values of integers."""
        name = self.name("x")
        at = [
            self._contents([dim if isinstance(dim, int) else sizes[dim] for dim in shape], np.dtype(dtype), below)
            for sizes in self.sizes
        ]
        value = Value(name, at, True)
        self.draft.inputs.append(value)
        self.shapes[name] = list(shape)
        return value

    def _contents(self, shape: Sequence[int], dtype: np.dtype, below: int | None) -> np.ndarray:
        if dtype == np.bool_:
            return self.numbers.integers(0, 2, shape).astype(dtype)
        if np.issubdtype(dtype, np.integer):
            most = 5 if below is None else below
            return self.numbers.integers(-4 if below is None else -most, most, shape).astype(dtype)
        return self.numbers.uniform(-2, 2, shape).astype(dtype)

    def shape(self, rank: int | None = None) -> list[int | str]:
        """Draws a shape of static and symbolic extents."""
        rank = self.random.choice((1, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            shape = [self.random.choice((1, 2, 3, 4, 8, *2 * _SYMBOLS)) for _ in range(rank)]
            if np.prod([dim if isinstance(dim, int) else self.ranges[dim][1] for dim in shape], dtype=float) <= 8000:
                return shape

    def dtype(self) -> Any:
        """Draws an element type, mostly float32."""
        return self.random.choice((np.float32,) * 8 + (np.int64, np.int32, np.bool_))

    def pick(self, fits: Callable[[Value], bool]) -> Value | None:
        """Returns one of the existing tensors, or None if none fits."""
        found = [value for value in self.values.values() if fits(value)]
        return self.random.choice(found[-10:]) if found else None

    def any(
        self,
        rank: int | Sequence[int] | None = None,
        dtype: Any = None,
        exact: bool = False,
        fits: Callable[[Value], bool] = lambda value: True,
    ) -> Value:
        """Returns an existing tensor, or sometimes a fresh one."""
        ranks = (rank,) if isinstance(rank, int) else rank

        def agrees(value: Value) -> bool:
            return (
                (ranks is None or value.rank in ranks)
                and (dtype is None or value.dtype == dtype)
                and (value.is_exact or not exact)
                and fits(value)
            )

        found = self.pick(agrees) if self.random.random() < 0.85 else None
        if found is not None:
            return found
        kind = self.dtype() if dtype is None else dtype
        return self.fresh(self.shape(None if ranks is None else self.random.choice(ranks)), kind)

    def float(self, rank: int | Sequence[int] | None = None, **given: Any) -> Value:
        """Returns a tensor of float32."""
        return self.any(rank, np.float32, **given)

    def axis(self, value: Value) -> int:
        """Draws a dimension, counted from either end."""
        return self.random.randrange(-value.rank, value.rank)

    def chance(self, probability: float) -> bool:
        """Returns True with this probability."""
        return self.random.random() < probability


def _proto(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple[str, np.dtype, Sequence[int | str] | None]],
    outputs: Sequence[str],
    constants: dict[str, np.ndarray],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "fuzz",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), shape)
            for name, dtype, shape in inputs
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


_ERRORS = (Fail, InvalidArgument, NotImplemented, InvalidGraph, RuntimeException, EPFail)


def _session(proto: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _is_tame(array: np.ndarray) -> bool:
    if array.size > LARGEST:
        return False
    if not array.size or not np.issubdtype(array.dtype, np.number):
        return True
    return bool(np.isfinite(array).all() and np.abs(array).max() <= HIGHEST)
