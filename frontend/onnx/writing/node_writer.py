"""Builds the nodes and constants of an ONNX graph under unique names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from mlir import ir
from onnx import helper, numpy_helper

from ....dialects.dims import Dim
from ....dialects.types import spec_of_type
from ....sizes.expressions import Expression, expression_of

_OPERATORS = {"+": "Add", "*": "Mul", "mod": "Mod", "floordiv": "Div", "min": "Min", "max": "Max"}
"""Operators of expressions over sizes, which are not negative."""

TensorName = ir.Value | str
"""A value of the IR, or the name of a tensor of the graph."""


class NodeWriter:
    """The nodes and constants of a graph, in the order in which they are added.

    Attributes:
        nodes: the nodes.
        constants: the constant tensors.
        domains: the operator sets of the nodes beside ONNX's own.
    """

    def __init__(self) -> None:
        """Starts an empty graph."""
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.domains: set[str] = set()
        self._names: dict[ir.Value, str] = {}
        self._arrays: dict[str, np.ndarray] = {}
        self._taken: set[str] = set()
        self._where = ""
        self._derived: dict[tuple[str, Any], str] = {}
        self._sizes: dict[str, tuple[str, int]] = {}

    def at(self, where: str) -> None:
        """Sets the name of the model's node that the next nodes stand for."""
        self._where = where

    def bind(self, value: ir.Value, name: str) -> None:
        """Gives a value of the IR the name of a tensor."""
        self._names[value] = name

    def name_of(self, tensor: TensorName) -> str:
        """Returns the name of a tensor."""
        return tensor if isinstance(tensor, str) else self._names[tensor]

    def add(self, kind: str, *inputs: TensorName | None, domain: str = "", **attributes: Any) -> str:
        """Adds a node with one output, and returns its name; an input that is None is left out."""
        return self.add_many(kind, inputs, 1, domain, **attributes)[0]

    def add_many(
        self, kind: str, inputs: Sequence[TensorName | None], outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Adds a node with several outputs, and returns their names."""
        names = ["" if item is None else self.name_of(item) for item in inputs]
        while names and not names[-1]:
            names.pop()
        name = self.unique(self._where or kind)
        results = [name if not place else self.unique(f"{name}_{place}") for place in range(outputs)]
        self.nodes.append(helper.make_node(kind, names, results, name=name, domain=domain, **attributes))
        if domain:
            self.domains.add(domain)
        return results

    def constant(self, array: Any, name: str = "constant") -> str:
        """Adds a constant tensor, and returns its name."""
        contents = np.asarray(array)
        found = self.unique(name)
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(contents).reshape(contents.shape), found))
        self._arrays[found] = contents
        return found

    def integers(self, values: Iterable[int]) -> str:
        """Adds a 1-D constant of 64-bit integers; equal ones are shared."""
        entries = tuple(map(int, values))
        key = ("integers", entries)
        if key not in self._derived:
            self._derived[key] = self.constant(np.array(entries, np.int64), "integers")
        return self._derived[key]

    def bind_size(self, name: str, tensor: str, axis: int) -> None:
        """Records that a dimension of a tensor has the size of a name."""
        self._sizes.setdefault(name, (tensor, axis))

    def sizes(self, dims: Sequence[Dim]) -> str:
        """Returns a 1-D tensor of sizes; nodes compute the symbolic ones."""
        key = ("sizes", tuple(map(str, dims)))
        if key not in self._derived:
            self._derived[key] = self._computed_sizes(dims)
        return self._derived[key]

    def _computed_sizes(self, dims: Sequence[Dim]) -> str:
        parts: list[str] = []
        known: list[int] = []
        for dim in dims:
            if isinstance(dim, int):
                known.append(dim)
                continue
            if known:
                parts.append(self.integers(known))
            parts.append(self._size(expression_of(dim)))
            known = []
        if known or not parts:
            parts.append(self.integers(known))
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)

    def size(self, dim: Dim) -> str:
        """Returns a size as a scalar."""
        return self.add("Squeeze", self.sizes([dim]))

    def _size(self, expression: Expression) -> str:
        """Returns the value of an expression, as a tensor of one element."""
        key = ("size", str(expression))
        if key not in self._derived:
            self._derived[key] = self._computed_size(expression)
        return self._derived[key]

    def _computed_size(self, expression: Expression) -> str:
        match expression:
            case int():
                return self.integers([expression])
            case str():
                tensor, axis = self._sizes[expression]
                return self.add("Shape", tensor, start=axis, end=axis + 1)
        name, left, right = expression
        operands = self._size(left), self._size(right)
        if name == "ceildiv":  # both numbers are non-negative
            below = self.add("Sub", operands[1], self.integers([1]))
            return self.add("Div", self.add("Add", operands[0], below), operands[1])
        return self.add(_OPERATORS[name], *operands)

    def scalar_like(self, value: ir.Value, number: float) -> str:
        """Adds a scalar constant with the element type of a value; equal ones are shared."""
        scalar = np.asarray(number).astype(spec_of_type(value.type).dtype)
        key = ("scalar", (scalar.dtype.str, str(scalar.dtype), scalar.tobytes()))
        if key not in self._derived:
            self._derived[key] = self.constant(scalar, "scalar")
        return self._derived[key]

    def array_of(self, tensor: TensorName) -> np.ndarray | None:
        """Returns the contents of a constant tensor; None for others."""
        return self._arrays.get(self.name_of(tensor))

    def transposed(self, tensor: TensorName, permutation: Sequence[int]) -> str:
        """Returns a tensor with its dimensions in another order; a constant is stored that way."""
        name, order = self.name_of(tensor), tuple(permutation)
        if order == tuple(range(len(order))):
            return name
        array = self._arrays.get(name)
        if array is None:
            return self.add("Transpose", name, perm=order)
        key = (name, order)
        if key not in self._derived:
            self._derived[key] = self.constant(array.transpose(order), f"{name}_transposed")
        return self._derived[key]

    def unique(self, name: str) -> str:
        """Returns a name that no tensor and no node has yet, and reserves it."""
        found, count = name, 1
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found

    def finish(self, outputs: Sequence[tuple[str, TensorName]]) -> None:
        """Gives tensors the names of the model's outputs, and drops constants that no node takes.

        Args:
            outputs: the reserved name and the tensor of each output. A tensor that is no result of a node, or two
                outputs, is copied.
        """
        names = [self.name_of(tensor) for _, tensor in outputs]
        made = {name for node in self.nodes for name in node.output}
        renamed: dict[str, str] = {}
        self.at("")
        for (output, _), name in zip(outputs, names, strict=True):
            if name in made and name not in renamed:
                renamed[name] = output
            else:
                self.nodes.append(helper.make_node("Identity", [name], [output], name=self.unique(output)))
        for node in self.nodes:
            for tensors in (node.input, node.output):
                tensors[:] = [renamed.get(name, name) for name in tensors]
        used = {name for node in self.nodes for name in node.input}
        self.constants = [item for item in self.constants if item.name in used]
