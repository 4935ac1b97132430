"""Common part of recurrent layers: a loop over time, built from core ops.

The inputs' contributions to the gates of all steps are one product before the loop. The loop carries the states; both
directions of a layer advance in each iteration, one from either end.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from .....dialects.stepwell import elementwise as ew
from .....dialects.stepwell.contraction import MatmulOp
from .....dialects.stepwell.movement import DynamicSliceOp, ExpandDimsOp, SqueezeOp
from .....dialects.stepwell.shape import FillOp, RangeOp
from .....support.wording import quantity
from ....build import (
    cast,
    constant,
    dims_of,
    dtype,
    emit,
    integers,
    joined,
    known_dim,
    reshaped,
    scalar,
    shape,
    transposed,
)
from ....errors import NodeError
from ....loops import BATCH_SECOND, Stack, counted, row
from ...nodes.node import Node
from .activations import ActivationFunction, activations

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True)
class Layer:
    """One direction of a layer; T is the number of steps, B the batch, H the size of the state.

    Attributes:
        inputs: [T, B, gates * H], the inputs' contribution to the gates.
        recurrence: [gates * H, H].
        bias: [gates * H], added to the product with `recurrence` only, or None.
        peepholes: [gates * H], weights of the cell in the gates, or None.
        functions: its activations.
        clip: maximum magnitude of the activations' inputs; 0 for no limit.
        size: H.
        is_backward: whether it begins at the last step.
        multiplied: multiplies the state with all of `recurrence`; None for a floating-point product.
    """

    inputs: ir.Value
    recurrence: ir.Value
    bias: ir.Value | None
    peepholes: ir.Value | None
    functions: Sequence[ActivationFunction]
    clip: float
    size: int
    is_backward: bool
    multiplied: Callable[[ir.Value], ir.Value] | None = None

    def activated(self, function: int, value: ir.Value) -> ir.Value:
        """Applies an activation to the sum of a gate."""
        clipped = emit(ew.ClipOp, value, minimum=-self.clip, maximum=self.clip) if self.clip else value
        return self.functions[function](clipped)

    def product(self, state: ir.Value, first: int, last: int) -> ir.Value:
        """The state's contribution to the gates from `first` up to and excluding `last`."""
        if self.multiplied is not None:
            return self.part(self.multiplied(state), first, last)
        return emit(MatmulOp, state, self.part(self.recurrence, first, last, 0), transpose_rhs=True)

    def part(self, value: ir.Value, first: int, last: int, axis: int = 1) -> ir.Value:
        """Some gates of a value that holds all gates along an axis."""
        bounds = (integers([first * self.size]), integers([last * self.size]), integers([axis]))
        return emit(DynamicSliceOp, value, *bounds)

    def seen(self, gate: int, value: ir.Value, cell: ir.Value) -> ir.Value:
        """Adds the cell's contribution to the sum of a gate, by the peepholes."""
        if self.peepholes is None:
            return value
        return emit(ew.AddOp, value, emit(ew.MulOp, self.part(self.peepholes, gate, gate + 1, 0), cell))


GateProduct = Callable[[ir.Value, int], ir.Value]
"""`product(value, direction)`: a value times the weight, or the recurrence, of a direction."""

_Step = Callable[[Layer, ir.Value, Sequence[ir.Value]], list[ir.Value]]
"""`step(layer, inputs' contribution [B, gates * H], states [B, H])`: the next states; the first one is the output."""


@dataclass(frozen=True)
class Cell:
    """A kind of recurrent layer.

    Attributes:
        gates: number of gates.
        activations: the default activations.
        keeps_bias: whether the recurrence's bias is kept separate instead of being added to the gates.
        step: computes one step.
    """

    gates: int
    activations: tuple[str, ...]
    keeps_bias: bool
    step: _Step


def recurrent(
    node: Node,
    cell: Cell,
    inputs: tuple[ir.Value, ir.Value, ir.Value, ir.Value | None, ir.Value | None],
    lengths: ir.Value | None,
    initial: Sequence[ir.Value | None],
    products: tuple[GateProduct, GateProduct] | None = None,
) -> tuple[ir.Value | None, ...]:
    """Builds the whole layer: returns the outputs of all steps, and the last states.

    If `products` are given, they multiply by the weights [directions, I, gates * H] and [directions, H, gates * H].
    """
    is_batch_first = bool(node.attribute("layout", 0))
    sequence, *weights = inputs
    if is_batch_first:
        sequence = transposed(sequence, BATCH_SECOND)
        initial = [None if value is None else transposed(value, BATCH_SECOND) for value in initial]
    layers = _layers(node, cell, sequence, weights, products)
    extents = joined([dims_of(sequence, 1, 2), integers([layers[0].size])])
    zeros = emit(FillOp, extents, value=np.zeros((), dtype(sequence)))
    states = [zeros if value is None else _row(value, index) for index in range(len(layers)) for value in initial]
    steps = emit(SqueezeOp, dims_of(sequence, 0, 1), axes=(0,))
    valid = _valid(node, lengths, sequence)

    def round_(number: ir.Value, carried: Sequence[ir.Value]) -> tuple[list[ir.Value], list[Stack]]:
        following: list[ir.Value] = []
        writes = []
        for index, layer in enumerate(layers):
            own = carried[index * len(initial) : (index + 1) * len(initial)]
            at, place = _places(layer, number, steps, index, len(layers))
            after = cell.step(layer, row(layer.inputs, at), own)
            output = after[0]
            if valid is not None:
                holds = row(valid, at)
                after = [emit(ew.SelectOp, holds, new, old) for new, old in zip(after, own, strict=True)]
                output = emit(ew.SelectOp, holds, output, scalar(0, output))
            following += after
            writes.append((place, output))
        return following, [Stack(writes, extents)] if node.outputs[0] else []

    last, stacked = counted(steps, states, round_)
    directions = integers([len(layers)])
    whole = [reshaped(value, joined([dims_of(sequence, 0, 1), directions, extents])) for value in stacked]
    finals = [
        joined([emit(ExpandDimsOp, value, axes=(0,)) for value in last[kind :: len(initial)]])
        for kind in range(len(initial))
    ]
    if is_batch_first:
        whole = [transposed(value, (2, 0, 1, 3)) for value in whole]
        finals = [transposed(value, BATCH_SECOND) for value in finals]
    return whole[0] if whole else None, *finals


def _places(layer: Layer, number: ir.Value, steps: ir.Value, index: int, directions: int) -> tuple[ir.Value, ir.Value]:
    """The step that an iteration computes, and the index of its row in all outputs [T * directions, B, H]."""
    one = scalar(1, number)
    at = emit(ew.SubOp, emit(ew.SubOp, steps, one), number) if layer.is_backward else number
    if directions == 1:
        return at, at
    return at, emit(ew.AddOp, emit(ew.MulOp, at, scalar(directions, at)), scalar(index, at))


def _layers(
    node: Node,
    cell: Cell,
    sequence: ir.Value,
    weights: Sequence[ir.Value | None],
    products: tuple[GateProduct, GateProduct] | None,
) -> list[Layer]:
    direction = node.attribute("direction", "forward")
    if direction not in _DIRECTIONS:
        raise NodeError(f"has the unknown direction '{direction}': expected one of {', '.join(_DIRECTIONS)}")
    directions = _DIRECTIONS[direction]
    names = node.attribute("activations") or cell.activations * len(directions)
    count = len(cell.activations)
    if len(names) < count * len(directions):
        raise NodeError(f"has {quantity(len(names), 'activation')}, but {count} in each direction are needed")
    functions = activations(names, node.attribute("activation_alpha", ()), node.attribute("activation_beta", ()))
    clip = node.attribute("clip", 0.0)
    layers = []
    for index, is_backward in enumerate(directions):
        weight, recurrence, bias, peepholes = (None if value is None else _row(value, index) for value in weights)
        assert weight is not None and recurrence is not None
        size = node.attribute("hidden_size", 0) or known_dim(recurrence, 0 if products else 1, "the size of the state")
        own = functions[index * count : (index + 1) * count]
        inner = Layer(sequence, recurrence, None, peepholes, own, clip, size, is_backward)
        if products is None:
            gates = emit(MatmulOp, sequence, weight, transpose_rhs=True)
        else:
            gates = products[0](sequence, index)
            inner = replace(inner, multiplied=functools.partial(_state_product, products[1], index))
        if bias is not None:
            first, second = (inner.part(bias, half * cell.gates, (half + 1) * cell.gates, 0) for half in range(2))
            gates = emit(ew.AddOp, gates, first if cell.keeps_bias else emit(ew.AddOp, first, second))
            inner = replace(inner, bias=second if cell.keeps_bias else None)
        layers.append(replace(inner, inputs=gates))
    return layers


def _state_product(product: GateProduct, index: int, state: ir.Value) -> ir.Value:
    return product(state, index)


def _row(value: ir.Value, index: int) -> ir.Value:
    return row(value, constant(np.array(index, np.int64)))


def _valid(node: Node, lengths: ir.Value | None, sequence: ir.Value) -> ir.Value | None:
    """[T, B, 1], true for the steps that belong to each sequence; None if all steps do."""
    if lengths is None:
        return None
    known, steps = node.known(lengths), shape(sequence)[0]
    if known is not None and isinstance(steps, int) and (known == steps).all():
        return None
    bounds = (
        scalar(0, lengths),
        cast(emit(SqueezeOp, dims_of(sequence, 0, 1), axes=(0,)), np.int32),
        scalar(1, lengths),
    )
    numbers = emit(ExpandDimsOp, emit(RangeOp, *bounds), axes=(1, 2))
    return emit(ew.LessOp, numbers, emit(ExpandDimsOp, lengths, axes=(1,)))
