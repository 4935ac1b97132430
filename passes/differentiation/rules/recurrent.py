"""Derivatives of recurrent layers: the steps are computed again, and then differentiated from the last to the first."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.elementwise import SigmoidOp, TanhOp
from ....dialects.stepwell.recurrent import LstmOp
from ...ir.values import shape_of
from ..build import (
    add,
    concat,
    full,
    matmul,
    mul,
    part,
    product_of_columns,
    reshape,
    square,
    sub,
    total,
    unary,
)
from ..derivative import DERIVATIVE, Gradients, NotDifferentiableError

MAX_STEPS = 1024
"""Maximum number of steps of a layer; each step becomes separate ops."""


@dataclass(frozen=True)
class _Step:
    """The values of one step of a direction, each [batch, state]: the activated gates, and the states."""

    enter: ir.Value
    leave: ir.Value
    forget: ir.Value
    candidate: ir.Value
    cell: ir.Value
    before: ir.Value
    hidden: ir.Value


@dataclass(frozen=True)
class _Gradients:
    """The gradients of the operands of one direction."""

    input: ir.Value
    weight: ir.Value
    recurrence: ir.Value
    bias: ir.Value
    hidden: ir.Value
    cell: ir.Value


@DERIVATIVE.attach(LstmOp)
def lstm(op: LstmOp, y: ir.Value | None, hidden: ir.Value | None, cell: ir.Value | None) -> Gradients:
    """From the last step to the first: the gradients of the gates, and from these the gradient of the previous state

    The gradients of all gates are multiplied by the weights in one product.
    """
    directions = shape_of(op.recurrence)[0]
    if shape_of(op.input)[0] > MAX_STEPS:
        raise NotDifferentiableError(f"the layer has {shape_of(op.input)[0]} steps, more than {MAX_STEPS}")
    found = [_back(op, index, (y, hidden, cell)) for index in range(directions)]

    def stacked(values: list[ir.Value]) -> ir.Value:
        return concat([reshape(value, (1, *shape_of(value))) for value in values], 0)

    def of_input() -> ir.Value:
        return found[0].input if len(found) == 1 else add(found[0].input, found[1].input)

    return (
        of_input,
        lambda: stacked([item.weight for item in found]),
        lambda: stacked([item.recurrence for item in found]),
        lambda: stacked([concat([item.bias, item.bias], 0) for item in found]),
        lambda: stacked([item.hidden for item in found]),
        lambda: stacked([item.cell for item in found]),
    )


def _back(op: LstmOp, index: int, gradients: tuple[ir.Value | None, ir.Value | None, ir.Value | None]) -> _Gradients:
    steps, batch, size = shape_of(op.input)
    state = shape_of(op.recurrence)[2]
    weight, recurrence = (_one(value, 0, index) for value in (op.weight, op.recurrence))
    is_backward = op.direction == "reverse" or index == 1
    order = list(range(steps))[:: -1 if is_backward else 1]
    rows = reshape(op.input, (steps * batch, size))
    run = _forward(op, index, order, matmul(rows, weight, transpose_rhs=True))
    of_y, of_hidden, of_cell = gradients
    hidden = full(0, rows, (batch, state)) if of_hidden is None else _one(of_hidden, 0, index)
    cell = full(0, rows, (batch, state)) if of_cell is None else _one(of_cell, 0, index)
    gates: dict[int, ir.Value] = {}
    for time in reversed(order):
        if of_y is not None:
            hidden = add(hidden, _one(_one(of_y, 0, time), 0, index))
        gates[time], cell = _gates(run[time], hidden, cell)
        hidden = matmul(gates[time], recurrence)
    together = concat([gates[time] for time in range(steps)], 0)
    states = concat([run[time].hidden for time in range(steps)], 0)
    return _Gradients(
        input=reshape(matmul(together, weight), (steps, batch, size)),
        weight=product_of_columns(together, rows),
        recurrence=product_of_columns(together, states),
        bias=total(together, [0], keepdims=False),
        hidden=hidden,
        cell=cell,
    )


def _forward(op: LstmOp, index: int, order: list[int], rows: ir.Value) -> dict[int, _Step]:
    """The steps of a direction by time; `rows` is the input's share of all gates, [steps * batch, 4 * state]."""
    batch, state = shape_of(op.input)[1], shape_of(op.recurrence)[2]
    recurrence = _one(op.recurrence, 0, index)
    if op.bias is not None:
        halves = reshape(_one(op.bias, 0, index), (2, 4 * state))
        rows = add(rows, total(halves, [0], keepdims=False))
    hidden = full(0, rows, (batch, state)) if op.initial_h is None else _one(op.initial_h, 0, index)
    cell = full(0, rows, (batch, state)) if op.initial_c is None else _one(op.initial_c, 0, index)
    run: dict[int, _Step] = {}
    for time in order:
        own = part(rows, (time * batch, 0), ((time + 1) * batch, 4 * state))
        gates = add(own, matmul(hidden, recurrence, transpose_rhs=True))
        enter, leave, forget, candidate = (
            unary(TanhOp if gate == 3 else SigmoidOp, part(gates, (0, gate * state), (batch, (gate + 1) * state)))
            for gate in range(4)
        )
        after = add(mul(forget, cell), mul(enter, candidate))
        run[time] = _Step(enter, leave, forget, candidate, after, cell, hidden)
        hidden, cell = mul(leave, unary(TanhOp, after)), after
    return run


def _gates(step: _Step, hidden: ir.Value, cell: ir.Value) -> tuple[ir.Value, ir.Value]:
    """The gradients of the four gates before activation, [batch, 4 * state], and that of the previous cell."""
    saturated = unary(TanhOp, step.cell)
    cell = add(cell, mul(hidden, step.leave, sub(1, square(saturated))))
    slopes = (
        mul(cell, step.candidate, _slope(step.enter)),
        mul(hidden, saturated, _slope(step.leave)),
        mul(cell, step.before, _slope(step.forget)),
        mul(cell, step.enter, sub(1, square(step.candidate))),
    )
    return concat(slopes, 1), mul(cell, step.forget)


def _slope(gate: ir.Value) -> ir.Value:
    return mul(gate, sub(1, gate))


def _one(value: ir.Value, axis: int, index: int) -> ir.Value:
    """The slice of a value at an index, without the dimension."""
    shape = shape_of(value)
    starts = [index if dim == axis else 0 for dim in range(len(shape))]
    stops = [index + 1 if dim == axis else size for dim, size in enumerate(shape)]
    return reshape(part(value, starts, stops), [size for dim, size in enumerate(shape) if dim != axis])
