"""The graphs inside control-flow nodes as models of their own, to be compiled if the node itself cannot be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import onnx

from ....runtime.host.fallback import Fallback
from ....runtime.hybrid.control import Sliced, Stacked
from ....runtime.hybrid.plan import FEWEST_OPERANDS, ControlStep, NativeStep
from ..reading.inferred import shape_of_type
from ..reading.model import Model, host_dtype, opsets
from ..reading.names import normal_domain
from ..survey import inner_graphs
from .partition import Subgraph, set_type

_GRAPHS = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}
_SCAN_WITHOUT_BATCHES = 9
"""The first opset whose Scan has no batch axis of its own."""


def control_steps(model: Model, cut: Subgraph, fallback: Fallback) -> list[NativeStep | ControlStep]:
    """Makes the steps of a control-flow node with bodies to compile: its constants, if any, then the node.

    Args:
        model: the model.
        cut: the node.
        fallback: the reason why it is not compiled.

    Returns:
        The steps; empty if the node is not a control-flow node with valid bodies.
    """
    index = cut.nodes[-1]
    node = model.proto.graph.node[index]
    versions = opsets(model.proto.opset_import, model.name)
    is_known = normal_domain(node.domain) == "" and node.op_type in _GRAPHS
    if not is_known or (node.op_type == "Scan" and versions.get("", 0) < _SCAN_WITHOUT_BATCHES):
        return []
    attributes = {attribute.name: attribute for attribute in node.attribute}
    graphs = [(name, attributes[name].g) for name in _GRAPHS[node.op_type] if name in attributes]
    passed = 0 if node.op_type == "If" else len(node.input)
    is_valid = len(graphs) == len(_GRAPHS[node.op_type]) and len(node.input) >= FEWEST_OPERANDS[node.op_type]
    if not is_valid or any(len(graph.input) != passed for _, graph in graphs):
        return []
    stored, bodies = _stored(model), []
    for name, graph in graphs:
        captured = tuple(sorted(free_names(graph) - stored))
        inputs = (*(value.name for value in graph.input), *captured)
        bodies.append(NativeStep(inputs, tuple(value.name for value in graph.output), (), body=(index, name)))
    count, slicing = 0, ()
    if node.op_type == "Loop":
        count = len(graphs[0][1].input) - 2
    elif node.op_type == "Scan":
        taken = attributes["num_scan_inputs"].i
        count = len(node.input) - taken
        slicing = _slicing(attributes, taken)
    stacks = () if node.op_type == "If" else _stacks(node.op_type, graphs[0][1], attributes, count)
    constants = tuple(name for name in dict.fromkeys(node.input) if name in stored)
    nodes = tuple(index for index in cut.nodes[:-1] if model.proto.graph.node[index].output[0] in constants)
    step = ControlStep(
        tuple(dict.fromkeys((*cut.inputs, *constants))),
        cut.outputs,
        node.op_type,
        tuple(node.input),
        tuple(node.output),
        tuple(bodies),
        count,
        slicing,
        stacks,
        fallback,
    )
    return [NativeStep((), constants, nodes), step] if constants else [step]


def _slicing(attributes: Mapping[str, onnx.AttributeProto], count: int) -> tuple[Sliced, ...]:
    axes, backwards = (
        _integers(attributes, "scan_input_axes", count),
        _integers(attributes, "scan_input_directions", count),
    )
    return tuple(Sliced(axis, bool(flag)) for axis, flag in zip(axes, backwards, strict=True))


def _stacks(
    op_type: str, graph: onnx.GraphProto, attributes: Mapping[str, onnx.AttributeProto], count: int
) -> tuple[Stacked, ...]:
    stacked = list(graph.output)[count + (op_type == "Loop") :]
    axes = _integers(attributes, "scan_output_axes", len(stacked))
    backwards = _integers(attributes, "scan_output_directions", len(stacked))
    stacks = []
    for value, axis, flag in zip(stacked, axes, backwards, strict=True):
        kind = value.type.tensor_type.elem_type or onnx.TensorProto.FLOAT
        shape = tuple(dim if isinstance(dim, int) else 0 for dim in shape_of_type(value.type) or ())
        stacks.append(Stacked(host_dtype(kind, value.name).name, shape, axis, bool(flag)))
    return tuple(stacks)


def _integers(attributes: Mapping[str, onnx.AttributeProto], name: str, count: int) -> list[int]:
    return list(attributes[name].ints) if name in attributes else [0] * count


def body_of(model: Model, step: NativeStep, kinds: Mapping[str, str]) -> Model:
    """Makes a model of a graph inside a node; the values it reads from enclosing graphs become inputs.

    Args:
        model: the model.
        step: the step for the graph.
        kinds: element types of its inputs, as numpy names; "" if an input is not a tensor.
    """
    assert step.body is not None
    index, name = step.body
    graph = next(item.g for item in model.proto.graph.node[index].attribute if item.name == name)
    read = free_names(graph)
    proto = onnx.ModelProto(ir_version=model.proto.ir_version, functions=model.proto.functions)
    proto.opset_import.extend(model.proto.opset_import)
    proto.graph.name = graph.name or "body"
    proto.graph.node.extend(node for node in _constants(model) if node.output[0] in read)
    proto.graph.node.extend(graph.node)
    for item in step.inputs:
        set_type(proto.graph.input.add(name=item), kinds[item])
    proto.graph.output.extend(onnx.ValueInfoProto(name=value.name) for value in graph.output)
    outer = [tensor for tensor in model.initializers if tensor.name in read]
    return replace(model, proto=proto, weights=[*graph.initializer, *outer])


def free_names(graph: onnx.GraphProto) -> set[str]:
    """The names that a graph reads from enclosing graphs."""
    own = {value.name for value in graph.input} | {tensor.name for tensor in graph.initializer}
    own |= {tensor.values.name for tensor in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read = {value.name for value in graph.output}
    for node in graph.node:
        read.update(node.input)
        for inner in inner_graphs(node):
            read |= free_names(inner)
    return {name for name in read - own if name}


def _constants(model: Model) -> list[onnx.NodeProto]:
    return [node for node in model.proto.graph.node if node.op_type == "Constant"]


def _stored(model: Model) -> set[str]:
    """The names of constants: weights and outputs of Constant nodes."""
    return {tensor.name for tensor in model.initializers} | {node.output[0] for node in _constants(model)}
