"""Limits on the expansion of a model: in a small file, functions may call functions twice each, or without end.

ONNX's own inference and conversion follow every call, so these limits are checked before anything else reads a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import onnx

from ...errors import ModelError
from .names import normal_domain

MAX_NODES = 1_000_000
"""Maximum number of nodes; real models have fewer."""

MAX_COPIES = 50_000
"""Maximum number of nodes that inlined functions expand to: a few bytes may expand to many, real models do not."""

MAX_PORTS = 4096
"""Maximum number of inputs and outputs; real models have fewer. The cost of a call grows with their number."""

MAX_GRAPHS = 2048
"""Maximum number of graphs within nodes; real models have fewer. A branch costs as much as a hundred small nodes."""

MAX_DEPTH = 64
"""Maximum nesting of graphs and functions; real models nest less. Each level takes Python's and ONNX's stack."""

_Key = tuple[str, str, str]


def check_expansion(model: onnx.ModelProto, name: str) -> None:
    """Checks the number of nodes after inlining functions, their nesting, and the number of inputs and outputs.

    Raises:
        ModelError: a limit is exceeded, or a function calls itself.
    """
    try:
        _check_ports(model.graph)
        _Expansion(model.functions).size(model.graph.node, 0)
    except ModelError as error:
        raise error.at(model=name) from None


def _check_ports(graph: onnx.GraphProto) -> None:
    stored = {tensor.name for tensor in graph.initializer}
    count = len(graph.output) + sum(value.name not in stored for value in graph.input)
    if count > MAX_PORTS:
        raise ModelError(f"has {count} inputs and outputs; at most {MAX_PORTS} are supported")


class _Size(NamedTuple):
    """The expansion of some nodes: number of nodes, of nodes from functions, of graphs, and nesting depth."""

    nodes: int
    copies: int
    graphs: int
    height: int


class _Expansion:
    """Counts nodes after expansion; each function is counted once and reused."""

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self._functions = {(normal_domain(proto.domain), proto.name, proto.overload): proto for proto in functions}
        self._sizes: dict[_Key, _Size] = {}
        self._active: set[_Key] = set()

    def size(self, nodes: Iterable[onnx.NodeProto], depth: int) -> _Size:
        """Counts the expansion of nodes that are nested `depth` graphs and functions deep."""
        if depth > MAX_DEPTH:
            raise ModelError(f"nests graphs or functions more than {MAX_DEPTH} levels deep")
        count, copies, graphs, height = 0, 0, 0, 0
        for node in nodes:
            inner = [self.size(graph.node, depth + 1) for graph in _graphs(node)]
            key = (normal_domain(node.domain), node.op_type, node.overload)
            graphs += len(inner)
            if key in self._functions:
                inner.append(self._function(key, depth + 1))
            count += 1 + sum(item.nodes for item in inner)
            copies += sum(item.copies for item in inner)
            graphs += sum(item.graphs for item in inner)
            height = max([height, *(1 + item.height for item in inner)])
            if count > MAX_NODES:
                raise ModelError(f"expands to more than {MAX_NODES} nodes")
            if copies > MAX_COPIES:
                raise ModelError(f"has functions that expand to more than {MAX_COPIES} nodes")
            if graphs > MAX_GRAPHS:
                raise ModelError(f"has more than {MAX_GRAPHS} graphs within its nodes")
        return _Size(count, copies, graphs, height)

    def _function(self, key: _Key, depth: int) -> _Size:
        if key in self._active:
            raise ModelError(f"has the function '{key[1]}', which calls itself; recursion is not supported")
        if key not in self._sizes:
            self._active.add(key)
            size = self.size(self._functions[key].node, depth)
            self._sizes[key] = size._replace(copies=size.nodes)
            self._active.discard(key)
        known = self._sizes[key]
        if depth + known.height > MAX_DEPTH:
            raise ModelError(f"nests graphs or functions more than {MAX_DEPTH} levels deep")
        return known


def _graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    for attribute in node.attribute:
        # ONNX follows any graph that is present, whatever type the attribute declares.
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
