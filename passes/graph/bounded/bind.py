"""Rewrites a graph built at the upper bounds of its symbolic sizes so that it is correct for every smaller size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mlir import ir

from ....dialects import discardable
from ....dialects.core import Op
from ....dialects.dims import Dim, Symbolic
from ....dialects.registry import view_of
from ....sizes.expressions import Expression, expression_of
from ....support.errors import StepwellError
from ....support.wording import quantity
from ...infra.base import PassError
from ...infra.state import CompileState
from ...ir.functions import body_of, dictionaries, main_function
from ...ir.rewriting import erase_dead_ops, walk
from ...kernel import demand
from ..values import constant, static_shape
from .checks import require_same
from .control import Control
from .extents import Extent, count_of, is_dynamic, prefix
from .fitting import Fitter, Ranges, at, corner_sizes, sizes_below, wraps
from .layout import compacted
from .rewriter import PADDING, Rewriter
from .snapshot import BoundedError, OpState, Snapshot, listed

"""The name of the input that holds the table of extents."""


class MoreSizes(StepwellError):
    """The samples do not determine an expression; samples at these sizes would."""

    def __init__(self, sizes: Sequence[Mapping[str, int]]) -> None:
        """Stores the sizes."""
        super().__init__(", ".join(str(dict(item)) for item in sizes))
        self.sizes = sizes


def bind_to_bounds(
    module: ir.Module,
    samples: Sequence[Snapshot],
    inputs: Sequence[Sequence[Dim]],
    ranges: Ranges,
    state: CompileState,
    typical: Sequence[Mapping[str, int]] = (),
) -> tuple[tuple[Expression, ...], ...]:
    """Makes `@main` correct for every size in the ranges; adds an input for the table of extents.

    Args:
        module: the graph at the upper bounds.
        samples: snapshots of the graph there, and at some other sizes.
        inputs: symbolic shape of every input.
        ranges: minimum, maximum and step of each size, by name.
        state: the state of the compile.
        typical: representative sizes to optimise for.

    Returns:
        The extents of every output, as expressions over the symbolic sizes.

    Raises:
        BoundedError: an op cannot be compiled without knowing the size; names the op.
        PassError: a rule failed; names the op.
        MoreSizes: the samples do not determine all expressions.
    """
    main = main_function(module.operation)
    body = body_of(main)
    _check_alike(samples)
    operations = list(walk(main))
    fitter = Fitter([sample.sizes for sample in samples], ranges)
    graph = Rewriter(_add_table(main), _start(body), fitter, ranges)
    for argument, shape in zip(body.arguments, inputs, strict=False):
        sizes = static_shape(argument) or ()
        graph.extents[argument] = [prefix(dim, size) for dim, size in zip(shape, sizes, strict=True)]
        graph.is_zero_beyond(argument)
    control = Control(graph)
    for position, op in enumerate(operations[:-1]):
        states = [sample.ops[position] for sample in samples]
        try:
            _bind(graph, control, op, states)
        except BoundedError as error:
            raise type(error)(f"'{op.name}' op: {error}", op.location) from error
        except Exception as error:
            reason = f"{type(error).__name__}: {error} (this is a bug in the rule of the op)"
            raise PassError(f"'{op.name}' op: {reason}", op.location) from error
    if fitter.missing:
        raise MoreSizes(fitter.missing)
    results = _results(graph, operations[-1])
    _check_extents(graph)
    outputs = tuple(tuple(expression_of(count_of(extent)) for extent in graph.of(value)) for value in results)
    erase_dead_ops(main, state)
    _note_extents(graph, main, results)
    _set_type(main, len(graph.expressions))
    discardable.TABLE.write(module.operation, graph.expressions)
    discardable.RANGES.write(module.operation, {name: list(values) for name, values in ranges.items()})
    if typical:
        discardable.TYPICAL_SIZES.write(module.operation, [dict(item) for item in typical])
    return outputs


def _check_extents(graph: Rewriter) -> None:
    """Checks that no dimension has more elements than its array, or fewer than 0.

    For example n - 2 elements are negative at n = 1, and 10 - n elements exceed their number at the upper bound.
    """
    factors = {factor for extents in graph.extents.values() for extent in extents for factor in extent}
    corners = list(corner_sizes(graph.ranges))
    for factor in factors:
        if not isinstance(factor.extent, Symbolic):
            continue
        for sizes in (*corners, *(sizes_below(graph.ranges) if wraps(factor.extent) else ())):
            count = at(factor.extent, sizes) or 0
            if count < 0:
                less = f"a dimension of {quantity(factor.extent, 'element')} has {count} at {listed(sizes)}"
                raise BoundedError(f"{less}; let the range start higher")
            if count > factor.size:
                more = f"a dimension of {quantity(factor.extent, 'element')} has {count} at {listed(sizes)}"
                raise BoundedError(f"{more}, more than at the greatest sizes")


def _start(body: ir.Block) -> ir.Operation:
    """Creates an unused op before all others, as an insertion point."""
    with ir.InsertionPoint.at_block_begin(body):
        return constant(np.zeros(())).owner.operation


def _results(graph: Rewriter, returned: ir.Operation) -> list[ir.Value]:
    """The returned values, with all data first along each dimension."""
    with returned.location, ir.InsertionPoint(returned):
        for place, value in enumerate(list(returned.operands)):
            returned.operands[place] = compacted(graph, value, range(len(graph.of(value))))
    return list(returned.operands)


def _note_extents(graph: Rewriter, main: ir.Operation, results: Sequence[ir.Value]) -> None:
    """Writes the table entries of the extents of each result of `@main` into its attributes."""
    attributes = []
    for value, old in zip(results, dictionaries(main, "res_attrs"), strict=True):
        extents = [graph.entry(count_of(extent)) if is_dynamic(extent) else -1 for extent in graph.of(value)]
        named = {item.name: item.attr for item in old}
        attributes.append(ir.DictAttr.get(named | discardable.EXTENTS.entry(extents)))
    main.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)


def _check_alike(samples: Sequence[Snapshot]) -> None:
    for sample in samples[1:]:
        if not samples[0].is_like(sample):
            where = " and ".join(str(dict(item.sizes)) for item in (samples[0], sample))
            raise BoundedError(f"the model computes something else at sizes {where}")


def _bind(graph: Rewriter, control: Control, op: ir.Operation, states: Sequence[OpState]) -> None:
    view = view_of(op)
    if view is None:
        control.bind(op, states)
        return
    rule = PADDING.of(type(view))
    if rule is None and not any(graph.dynamic(value) for value in op.operands):
        require_same(states)
        rule = _static
    if rule is None:
        raise BoundedError("it has no rule for varying dimensions")
    old = list(op.results)
    with op.location, ir.InsertionPoint(op):
        results = rule(graph, view, states)
    if results is None:
        return
    for value, extents, number in zip(old, results, range(len(old)), strict=True):
        _check(graph, extents, [state.shapes[number] for state in states])
        graph.extents[value] = list(extents)
        for extent in extents:
            graph.fitter.learn(count_of(extent))


def _static(graph: Rewriter, op: Op, states: Sequence[OpState]) -> Sequence[Sequence[Extent]]:
    return [graph.of(value) for value in op.operation.results]


def _check(graph: Rewriter, extents: Sequence[Extent], shapes: Sequence[Sequence[int]]) -> None:
    """Checks the extents that a rule computed against the shapes in the samples."""
    for axis, extent in enumerate(extents):
        values = graph.fitter.values(count_of(extent))
        actual = tuple(shape[axis] for shape in shapes)
        if values != actual:
            inferred = f"dimension {axis} was inferred as {count_of(extent)}"
            raise BoundedError(f"{inferred}, which is {values} at the sample sizes instead of {actual}")


def _add_table(main: ir.Operation) -> ir.Value:
    """Adds the argument for the table; its number of entries is set later."""
    body = body_of(main)
    i64 = ir.IntegerType.get_signless(64)
    return body.add_argument(ir.RankedTensorType.get([demand.MOST_ENTRIES], i64), main.location)


def _set_type(main: ir.Operation, count: int) -> None:
    body = body_of(main)
    if count > demand.MOST_ENTRIES:
        raise BoundedError(f"{count} numbers depend on the sizes, more than {demand.MOST_ENTRIES}")
    names = [*dictionaries(main, "arg_attrs"), ir.DictAttr.get(discardable.NAME.entry(demand.TABLE_INPUT))]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(names)
    old = ir.FunctionType(ir.TypeAttr(main.attributes["function_type"]).value)
    kinds = [argument.type for argument in body.arguments]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, old.results))
