"""Sorts nodes topologically: ONNX requires that order, but ONNX Runtime and exporters do not keep to it."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

import onnx


def in_order(proto: onnx.ModelProto) -> onnx.ModelProto:
    """Moves each node after the nodes whose outputs it reads; returns the model itself if it is in order already.

    If several nodes could come next, the first one in the file does. A graph that cannot be ordered is not changed.
    """
    if all(_order_of(graph) is None for graph in _graphs(proto.graph)):
        return proto
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    for graph in _graphs(changed.graph):
        order = _order_of(graph)
        if order is None:
            continue
        nodes = [onnx.NodeProto.FromString(graph.node[index].SerializeToString()) for index in order]
        del graph.node[:]
        graph.node.extend(nodes)
    return changed


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields a graph after the graphs inside its nodes, so that its own nodes are moved last."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)
    yield graph


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """Yields every name that a node may read, including those in its graphs."""
    yield from node.input
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield from (output.name for output in attribute.g.output)
            for inner in attribute.g.node:
                yield from _reads(inner)


def _order_of(graph: onnx.GraphProto) -> list[int] | None:
    """The order of a graph's nodes; None if they are in order, or cannot be ordered."""
    made_by = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    needs = [{made_by[name] for name in _reads(node) if name in made_by} for node in graph.node]
    if all(max(needed, default=-1) < index for index, needed in enumerate(needs)):
        return None
    readers: list[list[int]] = [[] for _ in needs]
    for index, needed in enumerate(needs):
        for other in needed:
            readers[other].append(index)
    waiting = [len(needed) for needed in needs]
    ready = [index for index, count in enumerate(waiting) if not count]
    order = []
    while ready:
        index = heapq.heappop(ready)
        order.append(index)
        for reader in readers[index]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order if len(order) == len(needs) else None
