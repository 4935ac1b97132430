"""How far a model may expand: a small file can call functions that call functions, each twice, or without end.

ONNX's own inference and conversion follow every call, so this is seen to before anything else looks at a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import onnx

from ..errors import ModelError
from .names import normal_domain

MAX_NODES = 1_000_000
"""More nodes than any model has."""

MAX_COPIES = 50_000
"""Nodes that functions become where they are used: few bytes may be many of them, which models that are written down
have no need of."""

MAX_PORTS = 4096
"""More inputs and outputs than any model has; what a call does with each takes longer the more there are."""

MAX_GRAPHS = 2048
"""More graphs within nodes than any model has; a branch takes a hundred times as long as a node of few bytes."""

MAX_DEPTH = 64
"""More graphs and functions within each other than any model has; each takes some of Python's and ONNX's stack."""

_Key = tuple[str, str, str]


def check_expansion(model: onnx.ModelProto, name: str) -> None:
    """Checks how many nodes a model has once its functions are inlined, and how deep they lie; and its ports.

    Raises:
        ModelError: too many, too deep, or a function uses itself.
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
        raise ModelError(f"has {count} inputs and outputs; {MAX_PORTS} are the most that are understood")


class _Size(NamedTuple):
    """What some nodes become: how many nodes, how many of them by functions, how many graphs, and how deep they lie."""

    nodes: int
    copies: int
    graphs: int
    height: int


class _Expansion:
    """Counts nodes, those of each function once."""

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self._functions = {(normal_domain(proto.domain), proto.name, proto.overload): proto for proto in functions}
        self._sizes: dict[_Key, _Size] = {}
        self._active: set[_Key] = set()

    def size(self, nodes: Iterable[onnx.NodeProto], depth: int) -> _Size:
        """What some nodes become, so many graphs and functions down."""
        if depth > MAX_DEPTH:
            raise ModelError(f"has more than {MAX_DEPTH} graphs or functions within each other")
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
                raise ModelError(f"has functions that become more than {MAX_COPIES} nodes where they are used")
            if graphs > MAX_GRAPHS:
                raise ModelError(f"has more than {MAX_GRAPHS} graphs within its nodes")
        return _Size(count, copies, graphs, height)

    def _function(self, key: _Key, depth: int) -> _Size:
        if key in self._active:
            raise ModelError(f"has the function '{key[1]}', which uses itself, without end")
        if key not in self._sizes:
            self._active.add(key)
            size = self.size(self._functions[key].node, depth)
            self._sizes[key] = size._replace(copies=size.nodes)
            self._active.discard(key)
        known = self._sizes[key]
        if depth + known.height > MAX_DEPTH:
            raise ModelError(f"has more than {MAX_DEPTH} graphs or functions within each other")
        return known


def _graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    for attribute in node.attribute:
        # ONNX follows a graph that is there, whatever type the attribute says it has.
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
