"""The pass `stepwell-bind-ranges`: compiles a graph for ranges of sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.core import Op, spec_of
from ...dialects.dims import Dim, DimShape, Symbolic
from ...dialects.registry import view_of
from ...dialects.stepwell.movement import AppendOp
from ...sizes.assumptions import assuming, suppositions
from ...sizes.ranges import Range, typical_sizes
from ...sizes.substitution import names_of
from ...support.wording import quantity
from ..graph.values import constant, static_shape
from ..infra.base import Pass, PassError, register
from ..infra.state import CompileState
from ..ir.functions import body_of, dictionaries, main_function, update_type
from ..ir.rewriting import erase_dead_ops, walk
from ..kernel import demand
from .checks import require_room, require_static_attributes
from .control import bind_control
from .errors import RangesError
from .extents import Extent, count_of, is_dynamic, prefix
from .layout import compacted
from .rewriter import PADDING, Rewriter
from .states import OpState, record_states, set_sizes
from .units import Units


@register
@dataclass(frozen=True)
class BindRangesPass(Pass):
    """Give a graph the shapes at the upper bounds of its sizes, and make it correct for every smaller size.

    The ranges are in the module's attribute `stepwell.ranges`; a module without it stays as it is. Elements beyond the
    data are padding, whose contents are undefined; ops that would read it read masked values instead. Numbers that
    depend on sizes are read from the table of extents, an input that is added to @main.

    ```mlir
    module attributes {stepwell.ranges = {n = [1, 64, 1]}} {
      func.func @main(%x: tensor<?x8xf32, ["n", 8]>) -> tensor<8xf32> {
        %0 = "stepwell.reduce_sum"(%x) {axes = array<i64: 0>} : (tensor<?x8xf32, ["n", 8]>) -> tensor<8xf32>
    // -->
      func.func @main(%x: tensor<64x8xf32>, %table: tensor<1xi64>) -> tensor<8xf32> {
        %0 = "stepwell.mask"(%x, %mask) : (tensor<64x8xf32>, tensor<64x1xf32>) -> tensor<64x8xf32>
        %1 = "stepwell.reduce_sum"(%0) {axes = array<i64: 0>} : (tensor<64x8xf32>) -> tensor<8xf32>
    ```

    Attributes:
        memory: the bytes that a tensor, and all inputs and outputs together, may take; 0 for no limit.
    """

    name = "stepwell-bind-ranges"
    memory: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Binds @main."""
        ranges = discardable.RANGES.read(op)
        if ranges is None or discardable.TABLE.is_on(op):
            return
        units = Units({name: Range(*values) for name, values in ranges.items()})
        with assuming(units.limits):
            _bind_main(op, units, state, self.memory)


def _bind_main(module: ir.Operation, units: Units, state: CompileState, memory: int) -> None:
    main = main_function(module)
    body = body_of(main)
    inputs = [tuple(map(units.of, _input_shape(argument, units))) for argument in body.arguments]
    states = record_states(main, units.of)
    _check_equal(main, units)
    _check_rooms(units, zip(walk(main), states, strict=True))
    set_sizes(main, lambda dim: units.at_most(units.of(dim)))
    if memory:
        require_room(main, memory)
    operations = list(walk(main))
    graph = Rewriter(_add_table(main), _start(body), units)
    for argument, shape in zip(body.arguments, inputs, strict=False):
        sizes = static_shape(argument) or ()
        graph.extents[argument] = [prefix(dim, size) for dim, size in zip(shape, sizes, strict=True)]
        graph.is_zero_beyond(argument)
    for op, op_state in zip(operations[:-1], states, strict=False):
        try:
            _bind(graph, op, op_state)
        except RangesError as error:
            raise type(error)(f"'{op.name}' op: {error}", op.location) from error
        except Exception as error:  # rules are code, also of other packages
            reason = f"{type(error).__name__}: {error} (this is a bug in the rule of the op)"
            raise PassError(f"'{op.name}' op: {reason}", op.location) from error
    results = _results(graph, operations[-1])
    _check_extents(graph)
    erase_dead_ops(main, state)
    _note_extents(graph, main, results)
    _set_type(main, len(graph.expressions))
    discardable.TABLE.write(module, graph.expressions)
    discardable.TYPICAL_SIZES.write(module, typical_sizes(units.ranges))


def _check_rooms(units: Units, states: Iterable[tuple[ir.Operation, OpState]]) -> None:
    """Checks that all sizes have ranges, and that no result has fewer than 0 elements at all sizes.

    Raises:
        RangesError: a size has none, or a result has; names the op.
    """
    for op, state in states:
        missing = sorted(state.sizes - units.limits.keys())
        if missing:
            raise RangesError(f"'{op.name}' op: depends on the size '{missing[0]}', which no input has", op.location)
        for dim in (dim for shape in state.shapes for dim in shape):
            most = units.at_most(dim)
            if most < 0:
                text = quantity(units.sizes(dim), "element")
                reason = f"a dimension of {text} has at most {most}; let the ranges contain smaller sizes"
                raise RangesError(f"'{op.name}' op: {reason}", op.location)


def _input_shape(argument: ir.BlockArgument, units: Units) -> DimShape:
    """The shape of an input.

    Raises:
        RangesError: a dimension is neither a number nor made of sizes that have ranges.
    """
    shape = spec_of(argument).shape
    for axis, dim in enumerate(shape):
        if not names_of(dim) <= units.limits.keys():
            raise RangesError(
                f"dimension {axis} of input {argument.arg_number} has no range: name it in `{discardable.DIMS.name}`, "
                f"and give the range of the name in `{discardable.RANGES.name}`"
            )
    return shape


def _check_equal(main: ir.Operation, units: Units) -> None:
    """Checks that dimensions that an op requires to be equal are equal at all sizes.

    Raises:
        RangesError: two may differ; names the op.
    """
    for op in walk(main):
        view = view_of(op)
        if view is None:
            continue
        with suppositions() as supposed:
            view.infer_specs(spec_of)
        for left, right in supposed:
            if not _is_same(units, units.of(left), units.of(right)):
                hint = f" ({right}={left})" if _is_name(left) and _is_name(right) else ""
                raise RangesError(
                    f"'{op.name}' op: requires equal dimensions, but {left} and {right} elements differ at some sizes; "
                    f"if they are always equal, declare it in `dims`{hint}",
                    op.location,
                )


def _is_same(units: Units, left: Dim, right: Dim) -> bool:
    return units.is_always_zero(left + right * -1)


def _check_extents(graph: Rewriter) -> None:
    """Checks that no dimension has more elements than its array, or fewer than 0.

    For example n - 2 elements are negative at n = 1, and 10 - n elements exceed their number at the upper bound.
    """
    factors = {factor for extents in graph.extents.values() for extent in extents for factor in extent}
    for factor in factors:
        if not isinstance(factor.extent, Symbolic):
            continue
        text = quantity(graph.units.sizes(factor.extent), "element")
        for sizes in graph.units.ends(factor.extent):
            count = graph.units.at(factor.extent, sizes)
            if count < 0:
                less = f"a dimension of {text} has {count} at {listed(sizes)}"
                raise RangesError(f"{less}; leave such sizes out of the ranges")
            if count > factor.size:
                more = f"a dimension of {text} has {count} at {listed(sizes)}"
                raise RangesError(f"{more}, more than the {factor.size} that there is room for")


def listed(sizes: Mapping[str, int]) -> str:
    """Sizes as text."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _start(body: ir.Block) -> ir.Operation:
    """Creates an unused op before all others, as an insertion point."""
    with ir.InsertionPoint.at_block_begin(body):
        return constant(np.zeros(())).owner.operation


def _results(graph: Rewriter, returned: ir.Operation) -> list[ir.Value]:
    """The returned values, with all data before the padding along each dimension."""
    with returned.location, ir.InsertionPoint(returned):
        for index, value in enumerate(list(returned.operands)):
            returned.operands[index] = compacted(graph, value, range(len(graph.of(value))))
    return list(returned.operands)


def _note_extents(graph: Rewriter, main: ir.Operation, results: Sequence[ir.Value]) -> None:
    """Writes the table entries of the extents of each result of `@main` into its attributes."""
    attributes = []
    for value, old in zip(results, dictionaries(main, "res_attrs"), strict=True):
        extents = [graph.entry(count_of(extent)) if is_dynamic(extent) else -1 for extent in graph.of(value)]
        named = {item.name: item.attr for item in old}
        attributes.append(ir.DictAttr.get(named | discardable.EXTENTS.entry(extents)))
    main.attributes["res_attrs"] = ir.ArrayAttr.get(attributes)
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(
        [
            ir.DictAttr.get({item.name: item.attr for item in old} | _appended_extents(graph, argument))
            for argument, old in zip(body_of(main).arguments, dictionaries(main, "arg_attrs"), strict=False)
        ]
    )


def _appended_extents(graph: Rewriter, argument: ir.Value) -> dict[str, ir.Attribute]:
    """The attribute with the table entries of the extents of an input that is appended to; {} for another input."""
    if not any(use.owner.name == AppendOp.OPERATION_NAME and use.operand_number == 0 for use in argument.uses):
        return {}
    return discardable.EXTENTS.entry(
        [graph.entry(count_of(extent)) if is_dynamic(extent) else -1 for extent in graph.of(argument)]
    )


def _bind(graph: Rewriter, op: ir.Operation, state: OpState) -> None:
    view = view_of(op)
    if view is None:
        bind_control(graph, op)
        return
    rule = PADDING.of(type(view))
    if rule is None and not any(graph.dynamic(value) for value in op.operands):
        require_static_attributes(state)
        rule = _static
    if rule is None:
        raise RangesError("it has no rule for varying dimensions")
    old = list(op.results)
    with op.location, ir.InsertionPoint(op):
        results = rule(graph, view, state)
    if results is None:
        return
    for value, extents, shape in zip(old, results, state.shapes, strict=True):
        _check(graph, extents, shape)
        graph.extents[value] = list(extents)


def _static(graph: Rewriter, op: Op, state: OpState) -> Sequence[Sequence[Extent]]:
    return [graph.of(value) for value in op.operation.results]


def _check(graph: Rewriter, extents: Sequence[Extent], shape: Sequence[Dim]) -> None:
    """Checks the extents that a rule computed against those that were inferred."""
    for axis, (extent, dim) in enumerate(zip(extents, shape, strict=True)):
        count = count_of(extent)
        if not _is_same(graph.units, count, dim):
            first, second = (graph.units.sizes(item) for item in (count, dim))
            raise RangesError(f"dimension {axis} was inferred as {second}, but its rule computes {first}")


def _is_name(dim: Dim) -> bool:
    return str(dim).replace(".", "_").isidentifier()


def _add_table(main: ir.Operation) -> ir.Value:
    """Adds the argument for the table; its number of entries is set later."""
    body = body_of(main)
    i64 = ir.IntegerType.get_signless(64)
    return body.add_argument(ir.RankedTensorType.get([demand.MOST_ENTRIES], i64), main.location)


def _set_type(main: ir.Operation, count: int) -> None:
    if count > demand.MOST_ENTRIES:
        raise RangesError(f"{count} numbers depend on the sizes, more than {demand.MOST_ENTRIES}")
    names = [*dictionaries(main, "arg_attrs"), ir.DictAttr.get(discardable.NAME.entry(demand.TABLE_INPUT))]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(names)
    update_type(main)
