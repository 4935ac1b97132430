"""Cuts a model into subgraphs that are compiled and, between them, nodes that run on the host.

Subgraphs are as large as the order of the nodes allows: a subgraph takes every node whose inputs are available, and
ends when only nodes on the host could provide more. Constants belong to each subgraph that reads them, so that it knows
their contents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np
import onnx
from onnx import helper, numpy_helper

from ....passes.infra.failure import CompileError
from ....runtime.host.fallback import Fallback
from ...errors import AttributeFault, ModelError, NeedsContents, NodeError, SizedByData
from ..reading.inferred import inferred_types
from ..reading.model import Model, is_native, opsets, type_text
from ..reading.names import node_name, normal_domain
from ..reading.weights import tensor_array
from ..survey import has_sequences, live_nodes, reads, unknown_operators, with_types

_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators whose results differ from run to run."""

SIZED_BY_DATA = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Operators with outputs whose sizes depend on the contents of inputs."""


@dataclass(frozen=True)
class Subgraph:
    """A step of a partitioned model: a subgraph, or one node on the host.

    Attributes:
        nodes: indices of its nodes in the graph, including constants.
        inputs: the values it reads from the model's inputs or earlier steps.
        outputs: the values that later steps or the model's outputs read from it.
        fallback: the reason why it runs on the host; None if it is compiled.
    """

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    fallback: Fallback | None = None


def nodes_on_host(model: Model, error: ModelError | None) -> dict[int, Fallback]:
    """The nodes that cannot be compiled: the one that an error is about, and others that no shapes would change.

    The latter are nodes of unknown operators, and all nodes that read or write non-native values.
    """
    types = inferred_types(model, suspect=error.position if isinstance(error, NodeError) else None)
    found = unknown_operators(model, types)
    foreign = {name: type_text(kind) for name, kind in types.items() if not is_native(kind)}
    for index, node in enumerate(model.proto.graph.node):
        touched = next((name for name in [*reads(node), *node.output] if name in foreign), None)
        if index in found or node.op_type == "Constant":
            continue
        if touched is not None:
            reason = f"'{touched}' is a {foreign[touched]}, which is not computed natively"
        elif has_sequences(node):
            # The model as a whole would have been compiled, but sequences cannot leave a subgraph of it.
            reason = "it computes on sequences"
        else:
            continue
        found[index] = with_types(fallback_of(model, index, reason, "type"), node.input, types)
    if error is not None and error.position is not None and error.position not in found:
        node = model.proto.graph.node[error.position]
        kind = "size" if isinstance(error, NeedsContents) else "attribute"
        within = f"'{error.node}' ({error.op_type}): " if error.op_type not in ("", node.op_type) else ""
        record = fallback_of(model, error.position, within + error.reason, kind)
        found[error.position] = with_types(record, node.input, types)
    return found


def nodes_that_failed(model: Model, names: Sequence[str], error: CompileError) -> dict[int, Fallback]:
    """The node at which the compiler failed: the first one that the error's location names, or the model's only node.

    A kernel stands for several nodes, and the first does most of the work (`passes/ir/locations.py`). The others are
    compiled without it; if the compiler fails again, the next one follows. An error without a location, such as a
    crash, is attributed to the nodes of the kernel in which it occurred.

    Args:
        model: the model or a subgraph of it.
        names: the names in the error's location, the dominant node first.
        error: the failure.
    """
    reason, reproducer = f"the compiler failed: {error}", str(error.reproducer or "")
    if not names and error.failure is not None:
        names = [op.name for op in error.failure.ops]
    nodes = [(index, node) for index, node in enumerate(model.proto.graph.node) if node.op_type != "Constant"]
    positions = {node_name(node, index): index for index, node in nodes}
    # The name of a node inside another one begins with the outer node's name.
    known = [name if name in positions else name.partition("/")[0] for name in names]
    found = [positions[name] for name in known if name in positions][:1]
    if len(nodes) == 1:
        found = [nodes[0][0]]
    return {
        index: replace(
            fallback_of(model, index, reason, "error"),
            phase=error.phase,
            pass_name=error.pass_name,
            reproducer=reproducer,
        )
        for index in found
    }


def halves(model: Model) -> list[Subgraph]:
    """Cuts a model's graph into two halves, one of which contains the cause of a compiler failure."""
    graph = model.proto.graph
    wanted = [output.name for output in graph.output]
    live = live_nodes(graph.node, wanted)
    constants = {graph.node[index].output[0]: index for index in live if graph.node[index].op_type == "Constant"}
    rest = [index for index in live if index not in constants.values()]
    groups = [group for group in (rest[: len(rest) // 2], rest[len(rest) // 2 :]) if group]
    groups += [[index] for name, index in constants.items() if name in wanted]
    return _with_interfaces(model, groups, constants, wanted, {})


def accepts(model: Model, error: ModelError) -> bool:
    """Returns whether an error is about an attribute that ONNX's own checker accepts."""
    if error.position is None or not isinstance(error, AttributeFault):
        return False
    context = onnx.checker.C.CheckerContext()
    context.ir_version = model.proto.ir_version
    context.opset_imports = opsets(model.proto.opset_import, model.name)
    try:
        onnx.checker.check_node(model.proto.graph.node[error.position], context)
    except onnx.checker.ValidationError:
        return False
    return True


def fallback_of(model: Model, index: int, reason: str, kind: str, suggestion: str = "") -> Fallback:
    """The record of a node that runs on the host."""
    node = model.proto.graph.node[index]
    domain = normal_domain(node.domain)
    opset = opsets(model.proto.opset_import, model.name).get(domain)
    return Fallback(node_name(node, index), node.op_type, domain, opset, reason, suggestion, kind)


def sized_by_data(model: Model, error: ModelError | None) -> set[int]:
    """The nodes with outputs whose sizes depend on data, which other nodes read; the latter are compiled apart.

    Args:
        model: the model.
        error: the error of compiling it as a whole, which may name such an output.
    """
    decided, read = follow_from_shapes(model), {name for node in model.proto.graph.node for name in reads(node)}
    named = error.value if isinstance(error, SizedByData) else None
    return {
        index
        for index, node in enumerate(model.proto.graph.node)
        if named in node.output
        or (node.op_type in SIZED_BY_DATA and read.intersection(node.output) and not decided.issuperset(reads(node)))
    }


def partition(model: Model, on_host: Mapping[int, Fallback], last: Collection[int] = ()) -> list[Subgraph]:
    """Cuts a model's graph into steps in an executable order; nodes that nothing needs are left out.

    Args:
        model: the model.
        on_host: the nodes that run on the host.
        last: nodes whose outputs no other node of their subgraph may read.

    Raises:
        ModelError: a node or an output names a value that nothing provides, or that a later node provides.
    """
    graph = model.proto.graph
    wanted = [output.name for output in graph.output]
    live = live_nodes(graph.node, wanted)
    constants = {graph.node[index].output[0]: index for index in live if graph.node[index].op_type == "Constant"}
    available = {info.name for info in graph.input} | {tensor.name for tensor in model.initializers} | set(constants)
    pending = [index for index in live if graph.node[index].op_type != "Constant"]
    produced = {name for index in pending for name in graph.node[index].output if name}
    _check_names(graph, pending, available | produced)
    groups: list[list[int]] = []
    while pending:
        native = _ready(graph, pending, available, produced, lambda index: index not in on_host, last)
        available.update(name for index in native for name in graph.node[index].output if name)
        host = _ready(graph, pending, available, produced, lambda index: index in on_host)
        groups += [native] if native else []
        groups += [[index] for index in host]
        if not native and not host:
            node = graph.node[pending[0]]
            raise NodeError("reads values that only later nodes provide", node=node.name, op_type=node.op_type)
        taken = {*native, *host}
        pending = [index for index in pending if index not in taken]
    groups += [[index] for name, index in constants.items() if name in wanted]
    return _with_interfaces(model, groups, constants, wanted, on_host)


def _check_names(graph: onnx.GraphProto, nodes: Iterable[int], known: set[str]) -> None:
    for index in nodes:
        node = graph.node[index]
        unknown = [name for name in node.input if name and name not in known]
        if unknown:
            message = f"reads '{unknown[0]}', which no input, weight or node provides"
            raise NodeError(message, node=node_name(node, index), op_type=node.op_type)
    missing = [output.name for output in graph.output if output.name not in known]
    if missing:
        raise ModelError(f"declares the output '{missing[0]}', which no input, weight or node provides")


def _ready(
    graph: onnx.GraphProto,
    pending: Sequence[int],
    available: set[str],
    produced: set[str],
    belongs: Callable[[int], bool],
    last: Collection[int] = (),
) -> list[int]:
    """The nodes for which `belongs` holds that can run now, one after the other.

    Their outputs become available, except those of nodes in `last`.
    """
    taken = []
    for index in pending:
        node = graph.node[index]
        if belongs(index) and all(name in available or name not in produced for name in reads(node)):
            taken.append(index)
            available.update(name for name in node.output if name and index not in last)
    return taken


def _with_interfaces(
    model: Model,
    groups: Sequence[Sequence[int]],
    constants: Mapping[str, int],
    wanted: Sequence[str],
    on_host: Mapping[int, Fallback],
) -> list[Subgraph]:
    graph = model.proto.graph
    stored = {tensor.name for tensor in model.initializers}
    fed = {info.name for info in graph.input} - stored
    made = fed | {name for group in groups for index in group for name in graph.node[index].output}
    needed, cuts = set(wanted), []
    for group in reversed(groups):
        read = dict.fromkeys(name for index in group for name in reads(graph.node[index]))
        own = dict.fromkeys(name for index in group for name in graph.node[index].output if name)
        inputs = tuple(name for name in read if name in made and name not in own and name not in constants)
        used = [constants[name] for name in read if name in constants and name not in own]
        outputs = tuple(name for name in own if name in needed)
        needed.update(inputs)
        fallback = on_host.get(group[0])
        cuts.append(Subgraph((*sorted(used), *group), inputs, outputs, fallback))
    weights = tuple(name for name in dict.fromkeys(wanted) if name in stored and name not in made)
    return [*cuts[::-1], *([Subgraph((), (), weights)] if weights else [])]


def follow_from_shapes(model: Model) -> set[str]:
    """The values that depend on at most the shapes of the inputs: for each set of shapes their contents are fixed."""
    decided = {tensor.name for tensor in model.initializers}
    for node in model.proto.graph.node:
        if node.op_type in _RANDOM:
            continue
        if node.op_type in ("Shape", "Size") or all(name in decided for name in reads(node)):
            decided.update(name for name in node.output if name)
    return decided


def model_of(model: Model, cut: Subgraph, kinds: Mapping[str, str]) -> Model:
    """Makes a model of a subgraph that shares the whole model's weights; its outputs have no types.

    Args:
        model: the model.
        cut: the subgraph.
        kinds: element types of its inputs, as numpy names; "" if an input is not a tensor.
    """
    proto = _around(model, cut)
    for info in proto.graph.input:
        set_type(info, kinds[info.name])
    read = {name for node in proto.graph.node for name in reads(node)} | set(cut.outputs)
    return replace(model, proto=proto, weights=[tensor for tensor in model.initializers if tensor.name in read])


def set_type(info: onnx.ValueInfoProto, kind: str) -> None:
    """Sets the type of a value: `kind` is a numpy name of an element type, "object" for strings, "" for no tensor."""
    if not kind:
        info.type.sequence_type.SetInParent()
    elif kind == "object":
        info.type.tensor_type.elem_type = onnx.TensorProto.STRING
    else:
        dtype = np.dtype(kind) if hasattr(np, kind) else np.dtype(getattr(ml_dtypes, kind))
        info.type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(dtype)


def host_model(model: Model, cut: Subgraph) -> bytes:
    """Serialises a node on the host as a self-contained model."""
    proto = _around(model, cut)
    read = {name for node in proto.graph.node for name in reads(node)}
    for tensor in model.initializers:
        if tensor.name in read and tensor.data_location == onnx.TensorProto.EXTERNAL:
            proto.graph.initializer.append(numpy_helper.from_array(tensor_array(tensor, model.folder), tensor.name))
        elif tensor.name in read:
            proto.graph.initializer.append(tensor)
    return proto.SerializeToString(deterministic=True)


def _around(model: Model, cut: Subgraph) -> onnx.ModelProto:
    """Makes a model of some nodes, without weights."""
    whole = model.proto
    proto = onnx.ModelProto(ir_version=whole.ir_version, functions=whole.functions)
    proto.opset_import.extend(
        helper.make_opsetid(normal_domain(entry.domain), entry.version) for entry in whole.opset_import
    )
    proto.graph.name = whole.graph.name or "graph"
    for index in cut.nodes:
        node = proto.graph.node.add()
        node.CopyFrom(whole.graph.node[index])
        node.domain = normal_domain(node.domain)
        node.name = node_name(node, index)
    proto.graph.input.extend(onnx.ValueInfoProto(name=name) for name in cut.inputs)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in cut.outputs)
    return proto
