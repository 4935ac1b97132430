"""Makes programs of pieces of a graph: they take and return contiguous tensors, whatever the strides of the graph."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch._export.verifier import TrainingIRVerifier
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from .carriers import CarriedSize, add_carriers

_NUMBERS = {torch.SymInt: SymIntArgument, torch.SymFloat: SymFloatArgument, torch.SymBool: SymBoolArgument}
_LAYOUT = "stepwell_layout"


def program_of(
    module: torch.fx.GraphModule,
    constants: Mapping[str, Any],
    ranges: Mapping[Any, Any],
    static: Collection[str] = (),
) -> ExportedProgram:
    """Makes a program of a functional graph, which is changed.

    Args:
        module: the graph; it returns a tuple.
        constants: the placeholders that are constants: tensors become weights, and graphs become attributes.
        ranges: the range of each symbolic size.
        static: the placeholders whose tensors always have the same layout.
    """
    graph = module.graph
    inputs: list[InputSpec] = []
    weights: dict[str, torch.Tensor] = {}
    layout = Layout([], [], frozenset())
    taken: list[torch.fx.Node] = []
    for node in graph.find_nodes(op="placeholder"):
        value = constants.get(node.name)
        if isinstance(value, torch.nn.Module):
            _make_attribute(module, node, value)
        elif value is not None:
            weights[node.name] = value
            inputs.append(InputSpec(InputKind.BUFFER, TensorArgument(node.name), node.name, persistent=True))
        else:
            if isinstance(node.meta["val"], torch.Tensor):
                layout.inputs.append(order_of(node.meta["val"]))
                _reorder_input(graph, node, layout.inputs[-1])
            taken.append(node)
            inputs.append(InputSpec(InputKind.USER_INPUT, _argument(node), None))
    for carried, node in add_carriers(graph, taken):
        layout.carried.append(carried)
        layout.inputs.append(None)
        inputs.append(InputSpec(InputKind.USER_INPUT, _argument(node), None))
    end = graph.output_node()
    results = [_reordered(graph, node, layout) for node in cast(Sequence[Any], end.args[0])]
    end.args = (tuple(results),)
    outputs = [OutputSpec(OutputKind.USER_OUTPUT, _argument(node), None) for node in results]
    given = [spec.arg for spec in inputs if spec.kind is InputKind.USER_INPUT]
    layout.static = frozenset(place for place, arg in enumerate(given) if getattr(arg, "name", "") in static)
    entry = ModuleCallSignature(
        given, [spec.arg for spec in outputs], _spec(((0,) * len(given), {})), _spec((0,) * len(outputs))
    )
    module.meta[_LAYOUT] = layout
    return ExportedProgram(
        root=module,
        graph=graph,
        graph_signature=ExportGraphSignature(inputs, outputs),
        state_dict=weights,
        range_constraints=dict(ranges),
        module_call_graph=[ModuleCallEntry("", entry)],
        verifiers=[TrainingIRVerifier],
    )


@dataclass
class Layout:
    """Memory layout of a piece's inputs and outputs: orders of dimensions, slowest first; None for contiguous tensors.

    Attributes:
        inputs: the orders of the tensors that it takes.
        outputs: the orders of the tensors that it returns.
        static: indices, among its inputs, of tensors whose layout never changes.
        carried: for each of its last inputs, which are tensors that carry a size, the number among the other inputs;
            see `carriers.py`.
    """

    inputs: list[tuple[int, ...] | None]
    outputs: list[tuple[int, ...] | None]
    static: frozenset[int]
    carried: list[CarriedSize] = field(default_factory=list)


def layout_of(program: ExportedProgram) -> Layout:
    """Returns the orders of a piece's dimensions."""
    return program.graph_module.meta[_LAYOUT]


def order_of(value: torch.Tensor) -> tuple[int, ...] | None:
    """Returns a dense tensor's dimensions, from the slowest to the fastest; None if it is contiguous, or has gaps."""
    sizes, strides = _extents(value)
    if None in (*strides, *sizes) or value.dim() < 2 or _is_contiguous(sizes, strides, range(value.dim())):
        return None
    order = _by_stride(strides)
    return order if _is_contiguous(sizes, strides, order) else None


def is_dense(value: torch.Tensor) -> bool:
    """Returns whether a tensor's elements follow each other in memory, in some order of the dimensions."""
    sizes, strides = _extents(value)
    return None in (*strides, *sizes) or 0 in sizes or _is_contiguous(sizes, strides, _by_stride(strides))


def _extents(value: torch.Tensor) -> tuple[list[int], list[int]]:
    """The sizes and strides of a tensor, as in the first call; None for those that depend on data."""
    sizes, strides = (
        [item.node.hint if isinstance(item, torch.SymInt) else item for item in items]
        for items in (value.shape, value.stride())
    )
    return sizes, strides


def _by_stride(strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def inverse(order: Sequence[int]) -> tuple[int, ...]:
    """Returns the permutation that undoes one."""
    return tuple(order.index(axis) for axis in range(len(order)))


def _is_contiguous(sizes: Sequence[int], strides: Sequence[int], order: Sequence[int]) -> bool:
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return False
        expected *= max(sizes[axis], 1)
    return True


def _reorder_input(graph: torch.fx.Graph, node: torch.fx.Node, order: tuple[int, ...] | None) -> None:
    """x --> permute(x in the order of its memory)"""
    if order is None:
        return
    users = list(node.users)
    value = node.meta["val"]
    with graph.inserting_after(node):
        back = graph.call_function(torch.ops.aten.permute.default, (node, list(inverse(order))))
    for user in users:
        user.replace_input_with(node, back)
    back.meta = {**node.meta, "val": value}
    node.meta = {**node.meta, "val": _permuted(value, order)}


def _reordered(graph: torch.fx.Graph, node: Any, layout: Layout) -> Any:
    """Result --> permute(result), in the order of the memory that the graph's strides describe."""
    if not isinstance(node, torch.fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
        return node
    order = order_of(node.meta["val"])
    layout.outputs.append(order)
    if order is None:
        return node
    with graph.inserting_before(graph.output_node()):
        made = graph.call_function(torch.ops.aten.permute.default, (node, list(order)))
    made.meta = {**node.meta, "val": _permuted(node.meta["val"], order)}
    return made


def _permuted(value: torch.Tensor, order: Sequence[int]) -> torch.Tensor:
    fake: Any = value
    with fake.fake_mode:
        return value.permute(tuple(order))


def _make_attribute(module: torch.fx.GraphModule, node: torch.fx.Node, value: torch.nn.Module) -> None:
    module.add_submodule(node.name, value)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(node.name)
    node.replace_all_uses_with(attribute)
    module.graph.erase_node(node)


def _argument(node: Any) -> Any:
    if not isinstance(node, torch.fx.Node):
        return ConstantArgument("", node)
    value = node.meta["val"]
    if isinstance(value, torch.Tensor):
        return TensorArgument(node.name)
    return _NUMBERS.get(type(value), lambda name: ConstantArgument(name, value))(node.name)


def _spec(structure: Any) -> pytree.TreeSpec:
    return pytree.tree_flatten(structure)[1]
