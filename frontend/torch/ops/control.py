"""Higher-order operators: conditionals, loops and scans over graphs, and graphs that run in another mode."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from mlir import ir
from mlir.dialects import scf

from ...build import constant
from ...errors import UnsupportedError
from ...index_arithmetic import extent
from ...loops import Carried, Stack, as_type, counted, repeated, row, scalar_in
from ..node import AtenNode
from ..registry import runs
from ..symbols import extents
from ..tensors import numpy_dtype

_NUMBERS = {
    torch.SymInt: np.dtype(np.int64),
    int: np.dtype(np.int64),
    torch.SymFloat: np.dtype(np.float64),
    float: np.dtype(np.float64),
    torch.SymBool: np.dtype(np.bool_),
    bool: np.dtype(np.bool_),
}


@runs("wrap_with_set_grad_enabled", "wrap_with_autocast", "invoke_subgraph", "invoke_quant", "invoke_quant_packed")
def inlined(node: AtenNode, *arguments: Any) -> tuple[Any, ...]:
    """The results of a graph, in place of the operator; without gradients its mode makes no difference."""
    place = next(index for index, item in enumerate(arguments) if isinstance(item, torch.fx.GraphModule))
    inputs = arguments[place + 1 :]
    return tuple(node.importer.graph(arguments[place], inputs[1:] if node.overload == "invoke_subgraph" else inputs))


@runs("cond")
def conditional(
    node: AtenNode, condition: Any, on_true: torch.fx.GraphModule, on_false: torch.fx.GraphModule, inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """The results of one of two graphs: scf.if %condition { on_true } else { on_false }"""
    if not isinstance(condition, ir.Value):
        return tuple(node.importer.graph(on_true if condition else on_false, inputs))
    flag = scalar_in(condition)
    branches: list[tuple[ir.Block, list[ir.Value]]] = []
    draft = ir.Operation.create("scf.if", operands=[flag], regions=2)
    try:
        for region, graph in zip(draft.regions, (on_true, on_false), strict=True):
            block = ir.Block.create_at_start(region)
            with ir.InsertionPoint(block), node.importer.inner():
                made = node.importer.graph(graph, inputs)
                branches.append((block, _values(made, node.results)))
        types = [_common_type(*pair) for pair in zip(*(values for _, values in branches), strict=True)]
        final = ir.Operation.create("scf.if", results=types, operands=[flag], regions=2)
        for region, (block, values) in zip(final.regions, branches, strict=True):
            with ir.InsertionPoint(block):
                scf.YieldOp([as_type(value, kind) for value, kind in zip(values, types, strict=True)])
            block.append_to(region)
    finally:
        draft.erase()
    return tuple(final.results)


@runs("while_loop")
def while_loop(
    node: AtenNode,
    condition: torch.fx.GraphModule,
    body: torch.fx.GraphModule,
    carried: Sequence[Any],
    more: Sequence[Any],
) -> tuple[Any, ...]:
    """The values that a graph returns, applied again to them while a condition holds."""

    def holds(values: Carried) -> ir.Value:
        with node.importer.inner():
            (flag,) = node.importer.graph(condition, [*values, *more])
        return flag if isinstance(flag, ir.Value) else constant(np.array(flag))

    def following(number: ir.Value, values: Carried) -> tuple[ir.Value, Carried]:
        with node.importer.inner():
            made = _values(node.importer.graph(body, [*values, *more]), node.results)
        return holds(made), made

    initial = _values(carried, node.results)
    return tuple(repeated(None, holds(initial), initial, following))


@runs("scan")
def scan(
    node: AtenNode,
    graph: torch.fx.GraphModule,
    initial: Sequence[Any],
    sequences: Sequence[ir.Value],
    more: Sequence[Any],
) -> tuple[Any, ...]:
    """The last carried values, and the rows that each iteration adds, of one iteration per row of some inputs."""
    last, stacked = _scanned(node, graph, initial, sequences, more)
    return *last, *stacked


@runs("map_impl")
def map_rows(
    node: AtenNode, graph: torch.fx.GraphModule, sequences: Sequence[ir.Value], more: Sequence[Any]
) -> tuple[Any, ...]:
    """A row of each result per row of the inputs."""
    return tuple(_scanned(node, graph, (), sequences, more)[1])


def _scanned(
    node: AtenNode,
    graph: torch.fx.GraphModule,
    initial: Sequence[Any],
    sequences: Sequence[ir.Value],
    more: Sequence[Any],
) -> tuple[Carried, Carried]:
    count, known = len(initial), node.results
    rows = [extents(node.symbols.sizes(value.shape[1:])) for value in known[count:]]

    def body(number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
        with node.importer.inner():
            made = node.importer.graph(graph, [*carried, *(row(value, number) for value in sequences), *more])
        added = zip(made[count:], rows, strict=True)
        return _values(made[:count], known), [Stack([(number, value)], sizes) for value, sizes in added]

    return counted(extent(sequences[0], 0), _values(initial, known), body)


def _values(given: Sequence[Any], known: Sequence[Any]) -> list[ir.Value]:
    """Results of a graph as values: numbers become scalars of the type that torch gives the operator's results."""
    made = []
    for value, result in zip(given, known, strict=False):
        if isinstance(value, ir.Value):
            made.append(value)
            continue
        kind = numpy_dtype(result.dtype) if isinstance(result, torch.Tensor) else _NUMBERS.get(type(result))
        if kind is None or value is None:
            raise UnsupportedError(f"has a graph that returns {value}, which is not supported")
        made.append(constant(np.array(value, kind)))
    return made


def _common_type(on_true: ir.Value, on_false: ir.Value) -> ir.Type:
    """The common type of both values, with `?` for extents that differ."""
    left, right = ir.RankedTensorType(on_true.type), ir.RankedTensorType(on_false.type)
    dynamic = ir.ShapedType.get_dynamic_size()
    dims = [one if one == two else dynamic for one, two in zip(left.shape, right.shape, strict=True)]
    return left if left == right else ir.RankedTensorType.get(dims, left.element_type)
