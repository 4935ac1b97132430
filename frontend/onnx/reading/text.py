"""Checks the names in a model: protobuf returns names that are not UTF-8 as bytes, which no other code expects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx

from ...errors import ModelError


def check_text(model: onnx.ModelProto, name: str) -> None:
    """Checks that every name in a model is text.

    Raises:
        ModelError: one is not, so the file is damaged.
    """
    for text in _texts(model):
        if not isinstance(text, str):
            raise ModelError(f"the name {text!r} is not text: the file is damaged", model=name)


def _texts(model: onnx.ModelProto) -> Iterator[object]:
    yield from (entry.domain for entry in model.opset_import)
    yield from _graph_texts(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, function.overload, *function.input, *function.output)
        yield from (entry.domain for entry in function.opset_import)
        yield from function.attribute
        yield from (attribute.name for attribute in function.attribute_proto)
        yield from _node_texts(function.node)


def _graph_texts(graph: onnx.GraphProto) -> Iterator[object]:
    yield graph.name
    for value in (*graph.input, *graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    yield from (tensor.values.name for tensor in graph.sparse_initializer)
    for tensor in graph.initializer:
        yield tensor.name
        for entry in tensor.external_data:
            yield from (entry.key, entry.value)
    yield from _node_texts(graph.node)


def _node_texts(nodes: Iterable[onnx.NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, node.overload, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            # Graphs are checked even if the attribute declares another type: not all readers check that.
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
                yield from _graph_texts(graph)
