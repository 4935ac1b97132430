"""Recurrent layers: LSTM as one op per layer; GRU, RNN, and LSTM that projects its states, as loops over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.recurrent import LstmOp
from ...build import (
    added,
    constant,
    dims_of,
    emit,
    integers,
    joined,
    known_dim,
    part_along,
    reshaped,
    scalar,
    shape,
    transposed,
)
from ...index_arithmetic import extent
from ...loops import BATCH_SECOND, Stack, counted, row
from ..node import AtenNode
from ..registry import AtenHandler, imports
from .randomness import dropped

_LSTM_ORDER = (0, 3, 1, 2)
"""Indices of the gates input, output, forget, cell among torch's input, forget, cell, output."""

_Weights = list[ir.Value]
"""Weights of one direction of a layer: for inputs, for states, both biases if there are any, and for a projection."""


def _layers(
    params: Sequence[ir.Value], has_biases: bool, num_layers: int, bidirectional: bool, projects: bool = False
) -> list[list[_Weights]]:
    """The weights of each layer and direction."""
    each, directions = (4 if has_biases else 2) + projects, 2 if bidirectional else 1
    parts = [list(params[start : start + each]) for start in range(0, len(params), each)]
    return [parts[start : start + directions] for start in range(0, num_layers * directions, directions)]


def _stacked(values: Sequence[ir.Value]) -> ir.Value:
    return joined([emit(ExpandDimsOp, value, axes=(0,)) for value in values])


def _reordered(value: ir.Value, order: Sequence[int]) -> ir.Value:
    """The gates along the first dimension in another order."""
    size = known_dim(value, 0, "the size of the state") // len(order)
    return joined([part_along(value, 0, place * size, (place + 1) * size) for place in order])


@imports("aten.lstm.input")
def lstm(
    node: AtenNode,
    input: ir.Value,
    hx: Sequence[ir.Value],
    params: Sequence[ir.Value],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[ir.Value, ...]:
    """Layers of long short-term memory; the last states of all layers follow the outputs."""
    projects = shape(hx[0])[-1] != shape(hx[1])[-1]
    layers = _layers(params, has_biases, num_layers, bidirectional, projects)
    count = 2 if bidirectional else 1
    finals: list[tuple[ir.Value, ir.Value]] = []

    def through(layer: Sequence[_Weights], value: ir.Value) -> ir.Value:
        weights = [_stacked([_reordered(item[kind], _LSTM_ORDER) for item in layer]) for kind in range(2)]
        bias = None
        if has_biases:
            bias = _stacked([joined([_reordered(item[kind], _LSTM_ORDER) for kind in (2, 3)]) for item in layer])
        first = len(finals) * count
        states = [part_along(item, 0, first, first + count) for item in hx]
        direction = "bidirectional" if bidirectional else "forward"
        outputs, last_h, last_c = emit(LstmOp, value, *weights, bias, *states, direction=direction)
        finals.append((last_h, last_c))
        return _merged_directions(outputs)

    def through_projections(layer: Sequence[_Weights], value: ir.Value) -> ir.Value:
        outputs = []
        for number, weights in enumerate(layer):
            place = constant(np.array(len(finals), np.int64))
            made, (last_h, last_c) = _projected_direction(
                value, [row(item, place) for item in hx], weights, is_backward=number == 1
            )
            outputs.append(made)
            finals.append((_stacked([last_h]), _stacked([last_c])))
        return joined(outputs, 2)

    step = through_projections if projects else through
    outputs = _through_layers(node, input, layers, step, dropout if train else 0.0, batch_first)
    return outputs, joined([item[0] for item in finals]), joined([item[1] for item in finals])


def _through_layers(
    node: AtenNode,
    input: ir.Value,
    layers: Sequence[Sequence[_Weights]],
    through: Callable[[Sequence[_Weights], ir.Value], ir.Value],
    dropout: float,
    batch_first: bool,
) -> ir.Value:
    """The outputs of the last of several layers, between which elements are dropped with some probability."""
    value = transposed(input, BATCH_SECOND) if batch_first else input
    for number, layer in enumerate(layers):
        value = through(layer, dropped(node, value, dropout) if number and dropout else value)
    return transposed(value, BATCH_SECOND) if batch_first else value


def _merged_directions(value: ir.Value) -> ir.Value:
    """[steps, directions, batch, size] --> [steps, batch, directions * size]"""
    steps_and_batch = [dims_of(value, 0, 1), dims_of(value, 2, 3)]
    total = known_dim(value, 1, "the number of directions") * known_dim(value, 3, "the size of the state")
    return reshaped(transposed(value, (0, 2, 1, 3)), joined([*steps_and_batch, integers([total])]))


_Step = Callable[[ir.Value, ir.Value, ir.Value, int], ir.Value]
"""`step(inputs' contribution to the gates, states' contribution, state, size)`: the next state."""


def _gru_step(given: ir.Value, recalled: ir.Value, state: ir.Value, size: int) -> ir.Value:
    """r, z = sigmoid(given + recalled); n = tanh(given + r * recalled); (1 - z) * n + z * state"""

    def gate(value: ir.Value, number: int) -> ir.Value:
        return part_along(value, 1, number * size, (number + 1) * size)

    sums = [emit(ew.AddOp, gate(given, number), gate(recalled, number)) for number in (0, 1)]
    reset, update = (emit(ew.SigmoidOp, value) for value in sums)
    new = emit(ew.TanhOp, emit(ew.AddOp, gate(given, 2), emit(ew.MulOp, reset, gate(recalled, 2))))
    return emit(ew.AddOp, new, emit(ew.MulOp, update, emit(ew.SubOp, state, new)))


def _simple_step(function: type[ew.UnaryOp]) -> _Step:
    return lambda given, recalled, state, size: emit(function, emit(ew.AddOp, given, recalled))


def _recurrent(step: _Step) -> AtenHandler:
    def handler(
        node: AtenNode,
        input: ir.Value,
        hx: ir.Value,
        params: Sequence[ir.Value],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[ir.Value, ...]:
        layers = _layers(params, has_biases, num_layers, bidirectional)
        finals: list[ir.Value] = []

        def through(layer: Sequence[_Weights], value: ir.Value) -> ir.Value:
            outputs = []
            for number, weights in enumerate(layer):
                initial = row(hx, constant(np.array(len(finals), np.int64)))
                made, last = _direction(step, value, initial, weights, is_backward=number == 1)
                outputs.append(made)
                finals.append(last)
            return joined(outputs, 2)

        outputs = _through_layers(node, input, layers, through, dropout if train else 0.0, batch_first)
        return outputs, _stacked(finals)

    return handler


def _direction(
    step: _Step,
    value: ir.Value,
    initial: ir.Value,
    weights: _Weights,
    is_backward: bool,
) -> tuple[ir.Value, ir.Value]:
    """One direction of a layer: the states after all steps [steps, batch, size], and the last one.

    The inputs' contributions to the gates of all steps are one product before the loop.
    """
    size = known_dim(weights[1], 1, "the size of the state")
    bias, own_bias = weights[2:] if len(weights) == 4 else (None, None)
    given = added(emit(MatmulOp, value, weights[0], transpose_rhs=True), bias)

    def next_state(own: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        recalled = added(emit(MatmulOp, carried[0], weights[1], transpose_rhs=True), own_bias)
        return [step(own, recalled, carried[0], size)]

    stacked, (last,) = _over_steps(given, [initial], next_state, is_backward)
    return stacked, last


def _projected_direction(
    value: ir.Value, initial: Sequence[ir.Value], weights: _Weights, is_backward: bool
) -> tuple[ir.Value, Sequence[ir.Value]]:
    """One direction of a layer of LSTM whose states are products with a matrix; the last state and cell follow."""
    for_inputs, for_states, *biases, projection = weights
    size = known_dim(projection, 1, "the size of the cell")
    given = emit(MatmulOp, value, for_inputs, transpose_rhs=True)
    for bias in biases:
        given = added(given, bias)

    def next_state(own: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
        gates = emit(ew.AddOp, own, emit(MatmulOp, carried[0], for_states, transpose_rhs=True))
        parts = [part_along(gates, 1, place * size, (place + 1) * size) for place in range(4)]
        let_in, kept, shown = (emit(ew.SigmoidOp, parts[place]) for place in (0, 1, 3))
        new = emit(ew.MulOp, let_in, emit(ew.TanhOp, parts[2]))
        cell = emit(ew.AddOp, emit(ew.MulOp, kept, carried[1]), new)
        state = emit(ew.MulOp, shown, emit(ew.TanhOp, cell))
        return [emit(MatmulOp, state, projection, transpose_rhs=True), cell]

    return _over_steps(given, initial, next_state, is_backward)


def _over_steps(
    given: ir.Value,
    initial: Sequence[ir.Value],
    next_state: Callable[[ir.Value, Sequence[ir.Value]], list[ir.Value]],
    is_backward: bool,
) -> tuple[ir.Value, Sequence[ir.Value]]:
    """The states after all steps [steps, batch, size], and the values carried last, of which the state is the first.

    `next_state` computes the values carried next from the step's row of `given` and the values carried.
    """
    steps = extent(given, 0)
    sizes = joined([dims_of(given, 1, 2), dims_of(initial[0], 1, 2)])

    def body(number: ir.Value, carried: Sequence[ir.Value]) -> tuple[list[ir.Value], list[Stack]]:
        at = number
        if is_backward:
            at = emit(ew.SubOp, emit(ew.SubOp, steps, scalar(1, steps)), number)
        made = next_state(row(given, at), carried)
        return made, [Stack([(at, made[0])], sizes)]

    last, (stacked,) = counted(steps, list(initial), body)
    return stacked, last


imports("aten.gru.input")(_recurrent(_gru_step))
imports("aten.rnn_tanh.input")(_recurrent(_simple_step(ew.TanhOp)))
imports("aten.rnn_relu.input")(_recurrent(_simple_step(ew.ReluOp)))
