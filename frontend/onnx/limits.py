"""How far a model may expand: a small file can call functions that call functions, each twice, or without end.

ONNX's own inference and conversion follow every call, so this is seen to before anything else looks at a model.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from ..errors import ModelError
from .names import normal_domain

MAX_NODES = 1_000_000
"""More nodes than any model has."""

MAX_DEPTH = 64
"""More graphs and functions within each other than any model has; each takes some of Python's and ONNX's stack."""

_Key = tuple[str, str, str]


def check_expansion(model: onnx.ModelProto, name: str) -> None:
    """Checks how many nodes a model has once its functions are inlined, and how deep they lie.

    Raises:
        ModelError: too many, too deep, or a function uses itself.
    """
    try:
        _Expansion(model.functions).size(model.graph.node, 0)
    except ModelError as error:
        raise error.at(model=name) from None


class _Expansion:
    """Counts nodes, those of each function once."""

    def __init__(self, functions: Iterable[onnx.FunctionProto]) -> None:
        self._functions = {(normal_domain(proto.domain), proto.name, proto.overload): proto for proto in functions}
        self._sizes: dict[_Key, tuple[int, int]] = {}
        self._active: set[_Key] = set()

    def size(self, nodes: Iterable[onnx.NodeProto], depth: int) -> tuple[int, int]:
        """How many nodes some nodes become, and how many graphs and functions lie within each other there."""
        if depth > MAX_DEPTH:
            raise ModelError(f"has more than {MAX_DEPTH} graphs or functions within each other")
        count, height = 0, 0
        for node in nodes:
            inner = [self.size(graph.node, depth + 1) for graph in _graphs(node)]
            key = (normal_domain(node.domain), node.op_type, node.overload)
            if key in self._functions:
                inner.append(self._function(key, depth + 1))
            count += 1 + sum(item[0] for item in inner)
            height = max([height, *(1 + item[1] for item in inner)])
            if count > MAX_NODES:
                raise ModelError(f"expands to more than {MAX_NODES} nodes")
        return count, height

    def _function(self, key: _Key, depth: int) -> tuple[int, int]:
        if key in self._active:
            raise ModelError(f"has the function '{key[1]}', which uses itself, without end")
        if key not in self._sizes:
            self._active.add(key)
            self._sizes[key] = self.size(self._functions[key].node, depth)
            self._active.discard(key)
        count, height = self._sizes[key]
        if depth + height > MAX_DEPTH:
            raise ModelError(f"has more than {MAX_DEPTH} graphs or functions within each other")
        return count, height


def _graphs(node: onnx.NodeProto) -> Iterable[onnx.GraphProto]:
    for attribute in node.attribute:
        # ONNX follows a graph that is there, whatever type the attribute says it has.
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
