"""Loop and Scan: loops whose iterations are graphs.

An `scf` loop carries values of fixed types. If it adds rows to its outputs, its count determines their shape, so it
cannot end early. Other loops are unrolled, as long as it is known whether there is another iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from mlir import ir

from .....dialects.core import spec_of
from .....dialects.stepwell.elementwise import SubOp
from .....dialects.stepwell.movement import ExpandDimsOp, SqueezeOp
from .....sizes import algebra
from .....support.wording import quantity
from ....build import constant, dims_of, emit, integers, joined, normal_axis, rank, reshaped, scalar, transposed
from ....errors import NeedsContents, NeedsShapes, NodeError, UnsupportedError
from ....loops import Carried, LoopBody, LoopError, Stack, counted, repeated, repeated_with_rows, row, written_out
from ...nodes.lists import has_lists
from ...nodes.node import Node
from ...nodes.registry import imports
from ...nodes.scope import Scope
from ...survey import node_count

MAX_ROUNDS = 1024
"""Maximum number of iterations of a loop that is unrolled."""

MAX_NODES = 8192
"""Maximum total number of nodes of an unrolled loop: compiling each takes milliseconds."""

_CANNOT_LOOP = (LoopError, NeedsShapes, NeedsContents)


class _ConditionError(UnsupportedError):
    """The import cannot tell whether there is another iteration."""


@imports("Loop")
def loop(
    node: Node, limit: ir.Value | None = None, condition: ir.Value | None = None, *initial: ir.Value
) -> tuple[ir.Value, ...]:
    """Loop: iterates while a condition holds, and at most `limit` times."""
    limit = None if limit is None else _as_scalar(limit)
    begins = node.known(condition)
    is_free = condition is None or begins is not None
    if begins is not None and not begins.all():
        limit = _number(0)
    rounds = _Rounds(node, initial, limit)
    if has_lists(initial):
        # Code cannot hold lists: the loop is unrolled, so that the length of each list is known.
        if not is_free or (limit is not None and node.known(limit) is None):
            raise UnsupportedError("carries a sequence through a computed number of iterations")
        return rounds.written_out()
    if limit is not None and is_free:
        try:
            carried, rows = _counted(limit, initial, rounds.body, rounds.most_rounds)
            return *carried, *rows
        except _ConditionError:
            pass
    if not rounds.adds_rows:
        try:
            return tuple(repeated(limit, None if condition is None else _as_scalar(condition), initial, rounds.round))
        except _CANNOT_LOOP:
            if not is_free:
                raise
    if not is_free:
        return rounds.until_false(
            condition,
            NeedsShapes("the initial condition of a loop that adds rows to its outputs must be known", condition),
        )
    try:
        return rounds.written_out()
    except NeedsShapes as error:
        return rounds.until_false(None, error)


class _Rounds:
    """The iterations of a Loop."""

    def __init__(self, node: Node, initial: Sequence[ir.Value], limit: ir.Value | None) -> None:
        self._node, self._graph, self._initial, self._limit = node, node.attribute("body"), list(initial), limit
        if len(self._graph.output) < len(initial) + 1:
            raise NodeError(
                f"carries {quantity(len(initial), 'value')}, but its body returns {len(self._graph.output)} with a bool"
            )
        self.adds_rows = len(self._graph.output) > len(initial) + 1
        self.most_rounds = _most_rounds(self._graph)

    def round(self, number: ir.Value, carried: Carried) -> tuple[ir.Value | None, Carried]:
        """Builds an iteration; returns the condition for another one (None if it is true), and all other outputs."""
        # An iteration runs only if the condition is true.
        goes_on, *values = _inlined(self._node, self._graph, [number, constant(np.array(True)), *carried])
        known = self._node.known(goes_on)
        return None if known is not None and known.all() else _as_scalar(goes_on), values

    def body(self, number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
        """Builds an iteration that is certain to be followed by another one, up to the limit."""
        goes_on, values = self.round(number, carried)
        if goes_on is not None and not _is_none(self._limit):
            raise _ConditionError("may end before its limit")
        return values[: len(carried)], [Stack([(number, item)]) for item in values[len(carried) :]]

    def until_false(self, condition: ir.Value | None, error: NeedsShapes) -> tuple[ir.Value, ...]:
        """Builds a loop that adds rows, and whose number of iterations depends on data.

        Raises:
            NeedsShapes: the given error, if that is not possible.
        """
        limit, counts = self._limit, self._node.importer.counts
        most = None if limit is None else _greatest(self._node, limit)
        is_known = error.value is not None and self._node.importer.may_require_contents(error.value)
        if limit is None or most is None or is_known or not (self.adds_rows and counts.are_supported):
            raise error
        begins = None if condition is None else _as_scalar(condition)
        try:
            carried, rows, number = repeated_with_rows(limit, most, begins, self._initial, self.round)
        except _CANNOT_LOOP as reason:
            raise error from reason
        for value in rows:
            counts.add(value, 0, number)
        return *carried, *rows

    def written_out(self) -> tuple[ir.Value, ...]:
        """Unrolls all iterations."""
        carried, rows = self._initial, []
        last = None if self._limit is None else int(self._node.constant(self._limit, "M").item())
        while len(rows) != last:
            if len(rows) == self.most_rounds:
                raise UnsupportedError(
                    f"has more than {quantity(len(rows), 'iteration')}, too many to unroll, and cannot be a loop"
                )
            goes_on, values = self.round(_number(len(rows)), carried)
            carried = values[: len(carried)]
            rows.append([emit(ExpandDimsOp, item, axes=(0,)) for item in values[len(carried) :]])
            if goes_on is not None and self._node.known(goes_on) is None and has_lists(self._initial):
                raise UnsupportedError("carries a sequence through a computed number of iterations")
            if goes_on is not None and self._node.known(goes_on) is None:
                raise NeedsShapes("the condition of the loop must be known", goes_on)
            if goes_on is not None:
                break
        return *carried, *map(joined, zip(*rows, strict=True))


@imports("Scan", since=9)
def scan(node: Node, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """Scan: an iteration for every index of some inputs."""
    count = node.attribute("num_scan_inputs")
    states, sequences = _split(inputs, count)
    axes = node.attribute("scan_input_axes", (0,) * count)
    firsts = [_moved(value, normal_axis(axis, rank(value)), 0) for value, axis in zip(sequences, axes, strict=True)]
    added = len(node.attribute("body").output) - len(states)
    backwards = (
        node.attribute("scan_input_directions", (0,) * count),
        node.attribute("scan_output_directions", (0,) * added),
    )
    last, stacked = _scanned(node, states, firsts, backwards)
    axes = node.attribute("scan_output_axes", (0,) * added)
    return *last, *(_moved(value, 0, normal_axis(axis, rank(value))) for value, axis in zip(stacked, axes, strict=True))


@imports("Scan")
def batched_scan(node: Node, lengths: ir.Value | None, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """Scan of opset 8: for each index of the first dimension a scan along the second, with a length of its own."""
    count = node.attribute("num_scan_inputs")
    added = len(node.attribute("body").output) - len(inputs) + count
    backwards = (node.attribute("directions", (0,) * count), (0,) * added)

    def body(number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
        states, sequences = _split([row(value, number) for value in inputs], count)
        length = None if lengths is None else row(lengths, number)
        last, stacked = _scanned(node, states, sequences, backwards, length)
        return [], [Stack([(number, value)]) for value in (*last, *stacked)]

    return tuple(_counted(_extent(inputs[0]), [], body, _most_rounds(node.attribute("body")))[1])


def _split(inputs: Sequence[ir.Value], count: int) -> tuple[list[ir.Value], list[ir.Value]]:
    if not 0 < count <= len(inputs):
        raise NodeError(f"scans {count} of {quantity(len(inputs), 'input')}")
    return list(inputs[: len(inputs) - count]), list(inputs[len(inputs) - count :])


def _scanned(
    node: Node,
    states: Sequence[ir.Value],
    sequences: Sequence[ir.Value],
    backwards: tuple[Sequence[int], Sequence[int]],
    length: ir.Value | None = None,
) -> tuple[Carried, Carried]:
    """Scans the first dimension of `sequences`, or its first `length` indices; other rows of the outputs are 0."""
    graph, whole = node.attribute("body"), _extent(sequences[0])
    steps = whole if length is None else length

    def body(number: ir.Value, carried: Carried) -> tuple[Carried, list[Stack]]:
        places = (number, emit(SubOp, emit(SubOp, steps, scalar(1, steps)), number))
        rows = [row(value, places[is_backward]) for value, is_backward in zip(sequences, backwards[0], strict=True)]
        values = _inlined(node, graph, [*carried, *rows])
        added = zip(values[len(carried) :], backwards[1], strict=True)
        stacks = [Stack([(places[is_backward], value)], length=whole) for value, is_backward in added]
        return values[: len(carried)], stacks

    return _counted(steps, states, body, _most_rounds(graph))


def _counted(count: ir.Value, initial: Sequence[ir.Value], body: LoopBody, most: int) -> tuple[Carried, Carried]:
    """Builds a loop; if that is impossible, unrolls it if its count is known and at most `most`."""
    try:
        return counted(count, initial, body)
    except _CANNOT_LOOP:
        known = spec_of(count).value
        if known is None or not 0 < known <= most:
            raise
        return written_out(int(known.item()), initial, body)


def _inlined(node: Node, graph: onnx.GraphProto, values: Sequence[ir.Value]) -> Carried:
    """Inlines the graph of a node, applied to given inputs."""
    if len(graph.input) != len(values):
        raise NodeError(f"passes {quantity(len(values), 'value')} to its body, which takes {len(graph.input)}")
    scope = Scope(node.scope)
    scope.is_checked = False  # guards belong to the whole graph; loops have none
    for info, value in zip(graph.input, values, strict=True):
        scope.define(info.name, value)
    results = node.importer.graph(graph, scope)
    if scope.guards:
        raise LoopError(f"has a branch in its body that cannot always run: {scope.guards[0].reason}")
    return results


def _greatest(node: Node, limit: ir.Value) -> int | None:
    """The greatest value of a limit, at least 0; None if that is not known."""
    try:
        (number,) = node.integers(limit, "M")
    except NeedsShapes:
        return None
    most = algebra.bounds(number, {})[1]
    return None if most is None else max(most, 0)


def _most_rounds(graph: onnx.GraphProto) -> int:
    """The number of iterations of a graph that may be unrolled."""
    return min(MAX_ROUNDS, max(1, MAX_NODES // max(1, node_count(graph))))


def _number(value: int) -> ir.Value:
    return constant(np.array(value, np.int64))


def _is_none(limit: ir.Value | None) -> bool:
    known = None if limit is None else spec_of(limit).value
    return known is not None and known.item() <= 0


def _as_scalar(value: ir.Value) -> ir.Value:
    return value if rank(value) == 0 else reshaped(value, integers([]))


def _extent(value: ir.Value) -> ir.Value:
    """The extent of the first dimension, as a scalar."""
    return emit(SqueezeOp, dims_of(value, 0, 1), axes=(0,))


def _moved(value: ir.Value, source: int, target: int) -> ir.Value:
    """Moves a dimension to another position."""
    order = [axis for axis in range(rank(value)) if axis != source]
    order.insert(target, source)
    return transposed(value, order)
