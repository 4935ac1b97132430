"""Divides graphs of ATen ops into pieces that are compiled and ops that torch runs between them."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from ...runtime.host.fallback import Fallback
from ..errors import UnsupportedError
from .aliases import separate_views
from .complex_views import with_real_interface
from .live import LiveProgram, Whole
from .node import READS, arguments_of, fallback_of, is_complex, obstacle_of_size, overload_of, sizes_by_data
from .piece import program_of
from .registry import complex_handler_for, handler_for, operator_for
from .strides import accept_any_strides
from .tensors import part_dtype
from .updates import is_in_place

_PREFIX = "piece_"
_VIEWS = frozenset(
    {
        *("getitem", "aten.view.default", "aten._unsafe_view.default", "aten.permute.default", "aten.t.default"),
        *("aten.transpose.int", "aten.unsqueeze.default", "aten.squeeze.default", "aten.squeeze.dim"),
        *("aten.squeeze.dims", "aten.expand.default", "aten.slice.Tensor", "aten.select.int", "aten.alias.default"),
        *("aten.detach.default", "aten.split.Tensor", "aten.split_with_sizes.default", "aten.unbind.int"),
        *("aten.reshape.default", "aten._conj.default", "aten.view_as_real.default", "aten.view_as_complex.default"),
    }
)
"""Ops that torch runs without reading data: a piece of only such ops is not worth a call."""

_DROPOUTS = (torch.ops.aten.dropout.default, torch.ops.aten.native_dropout.default)


@dataclass(frozen=True)
class Division:
    """A graph of pieces and ops.

    Attributes:
        graph: the module of torch that calls each piece as a submodule, by name.
        pieces: the pieces, by these names.
        fallbacks: the ops that torch runs because they cannot be compiled.
    """

    graph: torch.fx.GraphModule
    pieces: Mapping[str, LiveProgram]
    fallbacks: tuple[Fallback, ...]


def divide(
    graph: torch.fx.GraphModule,
    whole: Whole,
    weights: Mapping[str, torch.Tensor],
    found: Mapping[str, Fallback] | None = None,
    static: Collection[str] = (),
) -> Division:
    """Divides a graph, which is changed. Pieces are as few as the order of the ops allows.

    Args:
        graph: a graph whose ops have been decomposed.
        whole: the facts about the whole model.
        weights: placeholders whose contents are constants of the pieces, by name. Pieces do not take them.
        found: ops for torch by the name of their node; others without an importer are added.
        static: placeholders whose tensors always have the same layout.
    """
    fallbacks = dict(found or {})
    for node in graph.graph.nodes:
        # If a result cannot be compiled, the op that computes it cannot either.
        if node.target is operator.getitem and (missing := fallbacks.pop(node.name, None)) is not None:
            source = node.all_input_nodes[0]
            fallbacks.setdefault(source.name, fallback_of(source, missing.reason))
    for node in separate_views(graph.graph):
        fallbacks[node.name] = fallback_of(node, "")
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.name not in fallbacks and (reason := _obstacle(node)):
            fallbacks[node.name] = fallback_of(node, reason)
    stages = _stages(graph, fallbacks)
    partitions = [part for part in _partitions(graph, stages) if any(map(_computes, part))]
    places = {node.name: (stages[node], place) for place, node in enumerate(graph.graph.nodes)}
    places |= {f"{_PREFIX}{number}": (stages[part[0]], 0) for number, part in enumerate(partitions)}
    for node in [node for node in graph.graph.nodes if node.op == "get_attr"]:
        _copy_for_users(node)
    made = fuse_by_partitions(graph, [dict.fromkeys(part) for part in partitions], _PREFIX, always_return_tuple=True)
    _sort(made.graph, places)
    pieces = {}
    for node in made.graph.nodes:
        if node.op == "call_module" and str(node.target).startswith(_PREFIX):
            module = cast(torch.fx.GraphModule, made.get_submodule(node.target))
            name = whole.name if len(partitions) == 1 else f"{whole.name}.{node.target}"
            with_real_interface(node, module, weights)
            program = _program(made, node, module, weights, whole.ranges, static)
            pieces[str(node.target)] = LiveProgram(program, name, whole.names, decompose=False)
    accept_any_strides(made.graph)  # pieces return contiguous tensors
    made.graph.eliminate_dead_code()
    made.graph.lint()
    made.recompile()
    return Division(made, pieces, tuple(item for item in fallbacks.values() if item.reason))


def _program(
    whole: torch.fx.GraphModule,
    call: torch.fx.Node,
    module: torch.fx.GraphModule,
    weights: Mapping[str, torch.Tensor],
    ranges: Mapping[Any, Any],
    static: Collection[str],
) -> torch.export.ExportedProgram:
    """Makes a program of a piece, and takes its constants out of the arguments of its call."""
    constants: dict[str, Any] = {}
    taken, fixed = [], set()
    for given, node in zip(call.args, module.graph.find_nodes(op="placeholder"), strict=True):
        given = cast(torch.fx.Node, given)
        if given.op == "get_attr":
            constants[node.name] = operator.attrgetter(str(given.target))(whole)
        elif given.op == "placeholder" and given.name in weights:
            constants[node.name] = weights[given.name]
        else:
            taken.append(given)
            fixed |= {node.name} if given.name in static else set()
    call.args = tuple(taken)
    return program_of(module, constants, ranges, fixed)


def _stages(graph: torch.fx.GraphModule, fallbacks: Mapping[str, Fallback]) -> dict[torch.fx.Node, int]:
    """The stage of each node: even if it is compiled, odd if torch runs it.

    A stage counts the changes between torch and compiled code on the longest path to a node. A random op comes after
    those before it, so that a seed leads to the same numbers as in torch.
    """
    stages: dict[torch.fx.Node, int] = {}
    is_cut: dict[torch.fx.Node, bool] = {}  # nodes that read such a node are in another piece
    last_random = -1
    for node in graph.graph.nodes:
        before = max((stages[item] + is_cut[item] for item in node.all_input_nodes), default=-1)
        is_native = node.op == "call_function" and node.name not in fallbacks and _is_wanted(node, before)
        is_random = node.name in fallbacks and _is_random(node)
        if is_random:
            before = max(before, last_random)
        if node.target is operator.getitem:  # stays with the node that returns the tuple
            before = stages[node.all_input_nodes[0]]
            is_native = before % 2 == 0
        stages[node] = before + ((before % 2 == 1) == is_native)
        last_random = stages[node] if is_random else last_random
        source = node.all_input_nodes[0] if node.target is operator.getitem else node
        is_cut[node] = is_native and (is_cut[source] if source is not node else sizes_by_data(node))
    return stages


def _partitions(graph: torch.fx.GraphModule, stages: Mapping[torch.fx.Node, int]) -> list[list[torch.fx.Node]]:
    """The nodes of each piece: those of one stage, since none of them depends on another through an op of torch."""
    pieces: dict[int, list[torch.fx.Node]] = {}
    for node in graph.graph.nodes:
        if stages[node] % 2 == 0:
            pieces.setdefault(stages[node], []).append(node)
    return list(pieces.values())


def _is_random(node: torch.fx.Node) -> bool:
    """Returns whether an op draws random numbers; attention, recurrent layers and dropout may drop nothing."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    given = arguments_of(node)
    shares = [given[name] for name in ("dropout_p", "dropout") if name in given]
    if shares or target in _DROPOUTS:
        return any(shares or [given["p"]]) and given.get("train") is not False
    return True


def _sort(graph: torch.fx.Graph, places: Mapping[str, tuple[int, int]]) -> None:
    """Orders nodes by their stages and their order before they were divided, which torch does not preserve.

    Arguments are updated at the end, when they have been read.
    """
    end = graph.output_node()
    keys: dict[torch.fx.Node, tuple[bool, int, int]] = {}
    for node in graph.nodes:
        if node.op in ("placeholder", "output"):
            continue
        source = node.all_input_nodes[0] if node.target is operator.getitem and node.name not in places else node
        is_update = node.target is torch.ops.aten.copy_.default
        keys[node] = (is_update, *places.get(source.name, (-1, 0)))
    for node in sorted(keys, key=keys.__getitem__):
        end.prepend(node)


def _is_wanted(node: torch.fx.Node, before: int) -> bool:
    """Returns whether a node belongs into a piece: numbers that follow from inputs are computed by Python."""
    is_number = not any(map(_is_tensor, _leaves(node.meta.get("val"))))
    return not (is_number and before < 0) and _obstacle(node) is None


def _obstacle(node: torch.fx.Node) -> str | None:
    """The reason why a node cannot be compiled; empty if that needs no mention; None if it may be compiled."""
    target = node.target
    values = _leaves(node.meta.get("val"))
    if is_in_place(node):
        return ""
    if not any(map(_is_tensor, values)):
        if not values or any(isinstance(value, torch.SymInt) and not value.node.expr.is_number for value in values):
            return "its result is a number that depends on data" if overload_of(target) in READS else ""
        return None if isinstance(target, torch._ops.OpOverload) and handler_for(overload_of(target)) else ""
    if isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable:
        is_writing = all(item.op == "placeholder" for item in node.all_input_nodes[:1])
        return "" if str(target) == "aten.copy_.default" and is_writing else "it changes its arguments"
    if reason := obstacle_of_size(node):
        return reason
    if _is_random(node):
        return "its result is random, and compiled code draws numbers only in `stepwell.trainer`"
    name = overload_of(target)
    if target is not operator.getitem and operator_for(name) is None:
        if is_complex(node) and complex_handler_for(name) is None:
            return "it has no importer for complex numbers"
        if not is_complex(node) and handler_for(name) is None:
            return "it has no importer"
    for item in node.all_input_nodes if operator_for(name) is not None else ():
        if (reason := _obstacle_inside(item)) is not None:
            return reason
    try:
        for value in (*values, *(value for item in node.all_input_nodes for value in _leaves(item.meta.get("val")))):
            if _is_tensor(value):
                part_dtype(value.dtype)
                if value.device.type != "cpu" or value.layout != torch.strided:
                    return f"takes or makes a {value.layout} tensor on {value.device}"
    except UnsupportedError as error:
        return error.reason
    return None


def _obstacle_inside(node: torch.fx.Node) -> str | None:
    """The reason why a graph that a higher-order operator takes cannot be compiled."""
    graph = operator.attrgetter(str(node.target))(node.graph.owning_module) if node.op == "get_attr" else None
    if graph is None or not isinstance(graph, torch.fx.GraphModule):
        return None
    for inner in graph.graph.nodes:
        if inner.op == "call_function" and (reason := _obstacle(inner)):
            return f"its graph has {overload_of(inner.target)}: {reason}"
    return None


def _computes(node: torch.fx.Node) -> bool:
    is_number = not any(map(_is_tensor, _leaves(node.meta.get("val"))))
    return not is_number and overload_of(node.target) not in _VIEWS


def _copy_for_users(node: torch.fx.Node) -> None:
    """Gives each user of an attribute its own node for it."""
    for user in list(node.users)[1:]:
        with node.graph.inserting_before(node):
            copy = node.graph.node_copy(node)
        user.replace_input_with(node, copy)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [] if value is None else [value]
