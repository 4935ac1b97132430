"""Control flow: conditionals.

If a condition is known during the import, its branch is inlined; otherwise both branches stay, in an `scf.if`. A branch
that cannot work on the inputs' shapes would fail in every run that takes it (in a model for two sampling rates, say,
given a frame of one of them). The other branch replaces it, guarded by the condition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from mlir import ir
from mlir.dialects import scf, tensor

from .....dialects.stepwell.elementwise import AndOp, NotOp
from .....support.wording import quantity
from ....build import chained, constant, emit, integers, rank, reshaped
from ....errors import NeedsShapes, NodeError, UnsupportedError
from ...nodes.lists import has_lists
from ...nodes.node import Node
from ...nodes.registry import imports
from ...nodes.scope import Guard, Scope

_NAMES = ("then", "else")


@dataclass
class _Branch:
    """One branch of a conditional, in a block of its own."""

    block: ir.Block
    values: list[ir.Value]
    guards: list[Guard]


@imports("If")
def conditional(node: Node, condition: ir.Value) -> tuple[ir.Value, ...]:
    """If."""
    graphs = (node.attribute("then_branch"), node.attribute("else_branch"))
    known = node.known(condition)
    if known is None:
        return _at_run_time(node, condition, graphs)
    if known.size != 1:
        raise NodeError(f"takes one condition, but {known.size} are given")
    reduced = [position for position, name in enumerate(node.outputs) if name in node.scope.spans]
    return tuple(node.importer.inline(graphs[0 if known.item() else 1], node.scope, reduced))


def _at_run_time(node: Node, condition: ir.Value, graphs: Sequence[onnx.GraphProto]) -> tuple[ir.Value, ...]:
    importer = node.importer
    flag = condition if rank(condition) == 0 else reshaped(condition, integers([]))
    extract = tensor.ExtractOp(flag, [])
    draft = ir.Operation.create("scf.if", operands=[extract.result], regions=2)
    parameters = dict(importer.parameters)
    branches: list[_Branch] = []
    failures: dict[int, NodeError] = {}
    for index, (region, graph) in enumerate(zip(draft.regions, graphs, strict=True)):
        try:
            branches.append(_branch(node, region, graph))
        except NodeError as error:
            failures[index] = error
    if not failures:
        return _finished(node, draft, branches)
    draft.erase()
    extract.operation.erase()
    importer.parameters = parameters
    if len(failures) == 2 or not importer.is_specialized:
        raise next(iter(failures.values()))
    ((failed, error),) = failures.items()
    holds = emit(NotOp, flag) if failed == 0 else flag
    node.scope.guards.append(
        Guard(holds, f"the {_NAMES[failed]} branch of '{node.name}' cannot run on inputs of these shapes: {error}")
    )
    return tuple(importer.inline(graphs[1 - failed], node.scope))


def _branch(node: Node, region: ir.Region, graph: onnx.GraphProto) -> _Branch:
    scope, block = Scope(node.scope), ir.Block.create_at_start(region)
    with ir.InsertionPoint(block):
        values = node.importer.graph(graph, scope)
    return _Branch(block, values, scope.guards)


def _finished(node: Node, draft: ir.Operation, branches: Sequence[_Branch]) -> tuple[ir.Value, ...]:
    """Builds the conditional now that its result types are known; the branches' guards become another result.

    scf.if %c { a } else { b } --> %0 = scf.if %c { a; yield %x } else { b; yield %y }
    """
    if any(has_lists(branch.values) for branch in branches):
        raise UnsupportedError("returns a sequence under a computed condition")
    count = len(branches[0].values)
    if len(branches[1].values) != count:
        raise NodeError(f"has branches that return {count} and {quantity(len(branches[1].values), 'value')}")
    reasons = [guard.reason for branch in branches for guard in branch.guards]
    for branch in branches if reasons else ():
        with ir.InsertionPoint(branch.block):
            holds = [guard.holds for guard in branch.guards] or [constant(np.array(True))]
            branch.values.append(chained(AndOp, holds))
    pairs = zip(*(branch.values for branch in branches), strict=True)
    types = [_common_type(node, index, *pair) for index, pair in enumerate(pairs)]
    final = ir.Operation.create("scf.if", results=types, operands=[draft.operands[0]], regions=2)
    for region, branch in zip(final.regions, branches, strict=True):
        with ir.InsertionPoint(branch.block):
            scf.YieldOp([_as_type(value, kind) for value, kind in zip(branch.values, types, strict=True)])
        branch.block.append_to(region)
    draft.erase()
    results = list(final.results)
    if reasons:
        node.scope.guards.append(Guard(results[count], "; ".join(reasons)))
    return tuple(results[:count])


def _common_type(node: Node, index: int, then: ir.Value, other: ir.Value) -> ir.Type:
    """The common type of both values, with `?` for extents that differ."""
    left, right = ir.RankedTensorType(then.type), ir.RankedTensorType(other.type)
    if left == right:
        return left
    if left.element_type != right.element_type:
        raise NodeError(f"returns {left} or {right} for '{node.outputs[index]}', which differ in element type")
    if left.rank != right.rank:
        raise NeedsShapes(f"returns {left} or {right} for '{node.outputs[index]}', which differ in rank")
    dynamic = ir.ShapedType.get_dynamic_size()
    dims = [one if one == two else dynamic for one, two in zip(left.shape, right.shape, strict=True)]
    return ir.RankedTensorType.get(dims, left.element_type)


def _as_type(value: ir.Value, kind: ir.Type) -> ir.Value:
    return value if value.type == kind else tensor.CastOp(kind, value).result
