"""Recurrent layers: the update of their states in each step."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ...build import added, emit, scalar
from ..nodes.node import Node
from ..nodes.registry import imports
from .parts.recurrence import Cell, Layer, recurrent


@imports("RNN")
def rnn(
    node: Node,
    input: ir.Value,
    weight: ir.Value,
    recurrence: ir.Value,
    bias: ir.Value | None = None,
    lengths: ir.Value | None = None,
    initial_h: ir.Value | None = None,
) -> tuple[ir.Value | None, ...]:
    """RNN: one gate."""

    def step(layer: Layer, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        return [layer.activated(0, emit(ew.AddOp, layer.product(states[0], 0, 1), given))]

    cell = Cell(1, ("Tanh",), False, step)
    return recurrent(node, cell, (input, weight, recurrence, bias, None), lengths, [initial_h])


@imports("GRU")
def gru(
    node: Node,
    input: ir.Value,
    weight: ir.Value,
    recurrence: ir.Value,
    bias: ir.Value | None = None,
    lengths: ir.Value | None = None,
    initial_h: ir.Value | None = None,
) -> tuple[ir.Value | None, ...]:
    """GRU, its gates in the order update, reset, hidden."""
    is_late = bool(node.attribute("linear_before_reset", 0))

    def step(layer: Layer, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        (state,) = states
        products = added(layer.product(state, 0, 3 if is_late else 2), layer.bias)
        gates = emit(ew.AddOp, layer.part(products, 0, 2) if is_late else products, layer.part(given, 0, 2))
        update, reset = (layer.activated(0, layer.part(gates, gate, gate + 1)) for gate in range(2))
        if is_late:
            recalled = emit(ew.MulOp, reset, layer.part(products, 2, 3))
        else:
            recalled = layer.product(emit(ew.MulOp, reset, state), 2, 3)
        hidden = layer.activated(1, emit(ew.AddOp, recalled, layer.part(given, 2, 3)))
        return [emit(ew.AddOp, hidden, emit(ew.MulOp, update, emit(ew.SubOp, state, hidden)))]

    cell = Cell(3, ("Sigmoid", "Tanh"), is_late, step)
    return recurrent(node, cell, (input, weight, recurrence, bias, None), lengths, [initial_h])


@imports("LSTM")
def lstm(
    node: Node,
    input: ir.Value,
    weight: ir.Value,
    recurrence: ir.Value,
    bias: ir.Value | None = None,
    lengths: ir.Value | None = None,
    initial_h: ir.Value | None = None,
    initial_c: ir.Value | None = None,
    peepholes: ir.Value | None = None,
) -> tuple[ir.Value | None, ...]:
    """LSTM, with gates in the order input, output, forget, cell; peepholes belong to the first three."""
    weights = (input, weight, recurrence, bias, peepholes)
    return recurrent(node, lstm_cell(node), weights, lengths, [initial_h, initial_c])


def lstm_cell(node: Node) -> Cell:
    """The step of an LSTM."""
    is_coupled = bool(node.attribute("input_forget", 0))

    def step(layer: Layer, given: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        state, cell = states
        gates = emit(ew.AddOp, layer.product(state, 0, 4), given)
        enter, leave, forget, candidate = (layer.part(gates, gate, gate + 1) for gate in range(4))
        enter = layer.activated(0, layer.seen(0, enter, cell))
        keep = layer.activated(0, layer.seen(2, forget, cell))
        if is_coupled:
            keep = emit(ew.SubOp, scalar(1, enter), enter)
        cell = emit(ew.AddOp, emit(ew.MulOp, keep, cell), emit(ew.MulOp, enter, layer.activated(1, candidate)))
        leave = layer.activated(0, layer.seen(1, leave, cell))
        return [emit(ew.MulOp, leave, layer.functions[2](cell)), cell]

    return Cell(4, ("Sigmoid", "Tanh", "Tanh"), False, step)
