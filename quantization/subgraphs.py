"""Graphs in branches and loops: their nodes, names that are unique in the model, and their values as outputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..frontend.onnx.survey import inner_graphs

_PARTS = (("values", TensorProto.FLOAT), ("shape", TensorProto.INT64))
"""The tensors as which a value leaves a graph: a branch that does not compute it returns both empty."""


def graphs_in(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Returns a graph and all graphs inside it."""
    yield graph
    for node in graph.node:
        for inner in inner_graphs(node):
            yield from graphs_in(inner)


def nodes_in(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Returns the nodes of a graph and of all graphs inside it."""
    for each in graphs_in(graph):
        yield from each.node


def name_values(graph: onnx.GraphProto) -> None:
    """Gives every value that a graph inside defines a name that occurs once in the model."""
    taken = {item.name for item in [*graph.input, *graph.initializer]}
    taken |= {name for node in graph.node for name in node.output}
    for node in graph.node:
        for inner in inner_graphs(node):
            _rename(inner, {}, taken)


def _rename(graph: onnx.GraphProto, outer: dict[str, str], taken: set[str]) -> None:
    """Renames the values of a graph; `outer` has the new names of values around it."""
    names = dict(outer)
    defined = [item.name for item in [*graph.input, *graph.initializer]]
    defined += [name for node in graph.node for name in node.output if name]
    for name in dict.fromkeys(defined):
        fresh, count = name, 0
        while fresh in taken:
            count += 1
            fresh = f"{name}_{count}"
        taken.add(fresh)
        names[name] = fresh
    for item in [*graph.input, *graph.initializer, *graph.output, *graph.value_info]:
        item.name = names.get(item.name, item.name)
    for node in graph.node:
        for part in (node.input, node.output):
            part[:] = [names.get(name, name) for name in part]
        for inner in inner_graphs(node):
            _rename(inner, names, taken)


def hoist_constants(graph: onnx.GraphProto) -> None:
    """Turns constant tensors of all graphs into initializers of the outermost one, where names are unique.

    A constant that a graph inside returns stays in it, because results must be values of their graph.
    """
    for each in graphs_in(graph):
        returned = {item.name for item in each.output} if each is not graph else set()
        kept = []
        for node in each.node:
            value = next((item.t for item in node.attribute if item.name == "value"), None)
            if node.op_type == "Constant" and value is not None and node.output[0] not in returned:
                tensor = graph.initializer.add()
                tensor.CopyFrom(value)
                tensor.name = node.output[0]
            else:
                kept.append(node)
        replace_nodes(each, kept)
        if each is not graph:
            graph.initializer.extend(item for item in each.initializer if item.name not in returned)
            left = [item for item in each.initializer if item.name in returned]
            del each.initializer[:]
            each.initializer.extend(left)


def replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    """Replaces the nodes of a graph."""
    kept = [_copy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _copy(node: onnx.NodeProto) -> onnx.NodeProto:
    copied = onnx.NodeProto()
    copied.CopyFrom(node)
    return copied


class InnerValues:
    """Values of branches and bodies of loops, as outputs of a model.

    A value leaves as its elements in one row, and its shape: an `If` returns both for each of its branches, empty in
    those that do not compute the value; a `Loop` or a `Scan` returns those of all iterations.
    """

    def __init__(self, proto: onnx.ModelProto, names: Sequence[str]) -> None:
        """Adds outputs to a model.

        Args:
            proto: the model; changed in place.
            names: float values of graphs inside of the model's graph.
        """
        self._outputs: dict[str, tuple[str, str]] = {}
        wanted = set(names)
        for node in list(proto.graph.node):
            for inner in inner_graphs(node):
                for name in sorted(wanted & _computed(inner)):
                    values, shape = _leave(node, inner, name)
                    self._outputs[name] = (values, shape)
                    for result, (_, kind) in zip((values, shape), _PARTS, strict=True):
                        proto.graph.output.append(helper.make_tensor_value_info(result, kind, None))

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def value(self, name: str, results: dict[str, np.ndarray]) -> np.ndarray | None:
        """Returns a value of a call, with iterations joined along its first axis; None if it was not computed."""
        values, shape = (results[item] for item in self._outputs[name])
        if not values.size or not shape.size:
            return None
        dims = shape.reshape(-1, shape.shape[-1])[0]
        return values.reshape(-1, *dims[1:])


def _computed(graph: onnx.GraphProto) -> set[str]:
    inputs = {item.name for each in graphs_in(graph) for item in each.input}
    return inputs | {name for node in nodes_in(graph) for name in node.output}


def _leave(node: onnx.NodeProto, holder: onnx.GraphProto, name: str) -> tuple[str, str]:
    """Adds the two parts of a value to the outputs of a node, and returns their names."""
    place = next((inner for inner in holder.node if any(name in _computed(each) for each in inner_graphs(inner))), None)
    if place is None:
        parts = _parts(holder, name)
    else:
        (graph,) = [each for each in inner_graphs(place) if name in _computed(each)]
        parts = _leave(place, graph, name)
    for other in inner_graphs(node):
        own = parts if other is holder else _empty_parts(other, name)
        for result, (_, kind) in zip(own, _PARTS, strict=True):
            other.output.append(helper.make_tensor_value_info(result, kind, None))
    for attribute in node.attribute:
        if attribute.name in ("scan_output_axes", "scan_output_directions"):
            attribute.ints.extend([0, 0])
    results = tuple(f"{part}_of_{node.output[0]}" for part in parts)
    node.output.extend(results)
    return results[0], results[1]


def _parts(graph: onnx.GraphProto, name: str) -> tuple[str, str]:
    flat, values, shape = (f"{name}_{part}" for part in ("flat", "values", "shape"))
    everything = numpy_helper.from_array(np.array([-1]), flat)
    graph.node.append(helper.make_node("Constant", [], [flat], value=everything, name=flat))
    graph.node.append(helper.make_node("Reshape", [name, flat], [values], name=values))
    graph.node.append(helper.make_node("Shape", [name], [shape], name=shape))
    return values, shape


def _empty_parts(graph: onnx.GraphProto, name: str) -> tuple[str, str]:
    made = []
    for part, kind in _PARTS:
        result = f"{name}_no_{part}"
        empty = numpy_helper.from_array(np.zeros(0, helper.tensor_dtype_to_np_dtype(kind)), result)
        graph.node.append(helper.make_node("Constant", [], [result], value=empty, name=result))
        made.append(result)
    return made[0], made[1]
