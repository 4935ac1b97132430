"""Sequences of tensors. Lengths and positions are known during the import, so that no code handles lists."""

from __future__ import annotations

import numpy as np
import onnx
from mlir import ir

from .....dialects.core import spec_of
from .....dialects.stepwell.movement import DynamicSliceOp, ExpandDimsOp, SqueezeOp
from ....build import constant, emit, integers, joined, known_dim, normal_axis, rank
from ....errors import NodeError, UnsupportedError
from ...nodes.lists import ValueList
from ...nodes.node import Node
from ...nodes.registry import imports
from ...nodes.scope import Scope


@imports("SequenceEmpty", since=11)
def sequence_empty(node: Node) -> ValueList:
    """SequenceEmpty."""
    return ValueList((), node.dtype("dtype") or np.dtype(np.float32))


@imports("SequenceConstruct", since=11)
def sequence_construct(node: Node, *values: ir.Value) -> ValueList:
    """SequenceConstruct."""
    return ValueList(values, spec_of(values[0]).dtype)


@imports("SequenceInsert", since=11)
def sequence_insert(node: Node, sequence: ValueList, value: ir.Value, position: ir.Value | None = None) -> ValueList:
    """SequenceInsert: inserts before the element at a position, or at the end."""
    _check_list(sequence)
    if spec_of(value).dtype != sequence.dtype:
        raise NodeError(f"inserts a tensor of {spec_of(value).dtype} into a sequence of {sequence.dtype}")
    count = len(sequence.values)
    at = count if position is None else _position(node, position, count + 1, count)
    return ValueList((*sequence.values[:at], value, *sequence.values[at:]), sequence.dtype)


@imports("SequenceErase", since=11)
def sequence_erase(node: Node, sequence: ValueList, position: ir.Value | None = None) -> ValueList:
    """SequenceErase: removes the element at a position, or the last one."""
    _check_list(sequence)
    count = len(sequence.values)
    at = _position(node, position, count, count)
    return ValueList((*sequence.values[:at], *sequence.values[at + 1 :]), sequence.dtype)


@imports("SequenceAt", since=11)
def sequence_at(node: Node, sequence: ValueList, position: ir.Value) -> ir.Value:
    """SequenceAt."""
    _check_list(sequence)
    count = len(sequence.values)
    return sequence.values[_position(node, position, count, count)]


@imports("SequenceLength", since=11)
def sequence_length(node: Node, sequence: ValueList) -> ir.Value:
    """SequenceLength."""
    _check_list(sequence)
    return constant(np.array(len(sequence.values), np.int64))


@imports("ConcatFromSequence", since=11)
def concat_from_sequence(node: Node, sequence: ValueList) -> ir.Value:
    """ConcatFromSequence: concatenates the elements along an axis, which may be a new one."""
    _check_list(sequence)
    if not sequence.values:
        raise NodeError("concatenates a sequence without elements")
    axis, values = node.attribute("axis"), list(sequence.values)
    if node.attribute("new_axis", 0):
        axis = normal_axis(axis, rank(values[0]) + 1)
        values = [emit(ExpandDimsOp, value, axes=(axis,)) for value in values]
    return joined(values, normal_axis(axis, rank(values[0])))


@imports("SplitToSequence", since=11)
def split_to_sequence(node: Node, input: ir.Value, split: ir.Value | None = None) -> ValueList:
    """SplitToSequence: parts of given sizes, of one size (the last may be smaller), or single indices."""
    axis = normal_axis(node.attribute("axis", 0), rank(input))
    extent = known_dim(input, axis, "the extent of the split dimension")
    keeps = bool(node.attribute("keepdims", 1)) or split is not None
    known = np.array(1) if split is None else node.known(split)
    if known is None:
        raise UnsupportedError("splits into parts whose sizes are computed")
    sizes = [int(size) for size in known.reshape(-1)]
    if known.ndim == 0:
        (size,) = sizes
        if size < 1:
            raise NodeError(f"splits into parts of {size} elements")
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if min(sizes, default=0) < 0 or sum(sizes) != extent:
        raise NodeError(f"splits {extent} elements into parts of {sizes}")
    parts, stop = [], 0
    for size in sizes:
        start, stop = stop, stop + size
        part = emit(DynamicSliceOp, input, integers([start]), integers([stop]), integers([axis]))
        parts.append(part if keeps else emit(SqueezeOp, part, axes=(axis,)))
    return ValueList(tuple(parts), spec_of(input).dtype)


@imports("SequenceMap", since=17)
def sequence_map(node: Node, first: ValueList, *others: ValueList | ir.Value) -> tuple[ValueList, ...]:
    """SequenceMap: inlines a graph for each element; it takes the elements of other sequences, and the same tensors."""
    _check_list(first)
    graph: onnx.GraphProto = node.attribute("body")
    if len(graph.input) != 1 + len(others):
        raise NodeError(f"passes {1 + len(others)} values to its body, which takes {len(graph.input)}")
    rounds: list[list[ir.Value]] = []
    for place in range(len(first.values)):
        scope = Scope(node.scope)
        for info, item in zip(graph.input, (first, *others), strict=True):
            if isinstance(item, ValueList) and len(item.values) != len(first.values):
                raise NodeError(f"maps sequences of {len(first.values)} and {len(item.values)} elements")
            scope.define(info.name, item.values[place] if isinstance(item, ValueList) else item)
        rounds.append(node.importer.graph(graph, scope))
        node.scope.guards.extend(scope.guards)
    if not rounds:
        raise UnsupportedError("maps a sequence without elements")
    columns = [tuple(column) for column in zip(*rounds, strict=True)]
    return tuple(ValueList(column, spec_of(column[0]).dtype) for column in columns)


def _check_list(value: ValueList | ir.Value) -> None:
    if not isinstance(value, ValueList):
        raise NodeError(f"takes a sequence, but is given a tensor of {spec_of(value)}")


def _position(node: Node, position: ir.Value | None, count: int, length: int) -> int:
    """One of `count` positions in a sequence; negative ones count from the end."""
    known = np.array(-1) if position is None else node.known(position)
    if known is None:
        raise UnsupportedError("reads a sequence at a computed position")
    at = int(known.item())
    wrapped = at + length if at < 0 else at
    if not 0 <= wrapped < count:
        raise NodeError(f"takes position {at} of a sequence of {length} elements")
    return wrapped
