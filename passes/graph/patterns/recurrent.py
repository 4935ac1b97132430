"""Patterns that unroll recurrent layers into steps."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import AddOp, MulOp, SigmoidOp, TanhOp
from ....dialects.stepwell.movement import ConcatOp, ReshapeOp, SliceOp
from ....dialects.stepwell.recurrent import LstmOp
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import dtype_of, splat_constant, static_shape


@dataclass(frozen=True)
class _Direction:
    """The weights of one direction, and the sizes: steps, batch, state."""

    weight: ir.Value
    recurrence: ir.Value
    bias: ir.Value | None
    hidden: ir.Value
    cell: ir.Value
    sizes: tuple[int, int, int]


@dataclass(frozen=True)
class UnrollLstm(Pattern[LstmOp]):
    """lstm(x, w, r, b, h, c) --> for every step the four gates, and the new state from them

    The matmul of the inputs with `w` is done for all steps at once; each step adds that of the state with `r`.

    Attributes:
        max_steps: maximum number of steps of a layer that is unrolled.
    """

    max_steps: int

    root = LstmOp

    def rewrite(self, op: LstmOp) -> Replacement:
        shape, recurrence = static_shape(op.input), static_shape(op.recurrence)
        if shape is None or recurrence is None:
            return Refusal("the number of steps or the size of the state is not known")
        steps, batch, _ = shape
        if steps > self.max_steps:
            return Refusal(f"the layer has {steps} steps, more than {self.max_steps}")
        if steps == 0:
            return Refusal("the layer has no steps")
        sizes = (steps, batch, recurrence[2])
        outputs = [_run(op, index, sizes) for index in range(recurrence[0])]
        y, hidden, cell = (
            _joined([output[number] for output in outputs], axis) for number, axis in ((0, 1), (1, 0), (2, 0))
        )
        return [y, hidden, cell]


def _run(op: LstmOp, index: int, sizes: tuple[int, int, int]) -> tuple[ir.Value, ir.Value, ir.Value]:
    """One direction: the states [T, 1, B, H], the last state [1, B, H] and the last cell [1, B, H]."""
    direction = _direction(op, index, sizes)
    steps, batch, state = sizes
    gates = _input_gates(op.input, direction)
    backwards = index == 1 or op.direction == "reverse"
    hidden, cell = direction.hidden, direction.cell
    states: list[ir.Value] = []
    for step in reversed(range(steps)) if backwards else range(steps):
        own = ReshapeOp(_part(gates, 0, step), shape=(batch, 4 * state)).result if steps > 1 else gates
        hidden, cell = _step(own, hidden, cell, direction)
        states.append(ReshapeOp(hidden, shape=(1, 1, batch, state)).result)
    y = _joined(states[::-1] if backwards else states, 0)
    return y, *(ReshapeOp(value, shape=(1, batch, state)).result for value in (hidden, cell))


def _direction(op: LstmOp, index: int, sizes: tuple[int, int, int]) -> _Direction:
    _, batch, state = sizes
    zeros = dtype_of(op.input).type(0)

    def part(value: ir.Value, shape: tuple[int, ...]) -> ir.Value:
        return ReshapeOp(_part(value, 0, index), shape=shape).result

    hidden, cell = (
        splat_constant(zeros, (batch, state)) if value is None else part(value, (batch, state))
        for value in (op.initial_h, op.initial_c)
    )
    bias = None if op.bias is None else part(op.bias, (2, 4 * state))
    size = ir.RankedTensorType(op.input.type).shape[2]
    return _Direction(
        part(op.weight, (4 * state, size)), part(op.recurrence, (4 * state, state)), bias, hidden, cell, sizes
    )


def _input_gates(inputs: ir.Value, direction: _Direction) -> ir.Value:
    """The contribution of all inputs to the gates, with biases: [T, B, 4H], or [B, 4H] for one step."""
    steps, batch, state = direction.sizes
    size = ir.RankedTensorType(inputs.type).shape[2]
    rows = ReshapeOp(inputs, shape=(steps * batch, size)).result
    gates = MatmulOp(rows, direction.weight, transpose_rhs=True).result
    if direction.bias is not None:
        halves = [ReshapeOp(_part(direction.bias, 0, half), shape=(4 * state,)).result for half in range(2)]
        gates = AddOp(gates, AddOp(*halves)).result
    return gates if steps == 1 else ReshapeOp(gates, shape=(steps, batch, 4 * state)).result


def _step(own: ir.Value, hidden: ir.Value, cell: ir.Value, direction: _Direction) -> tuple[ir.Value, ir.Value]:
    state = direction.sizes[2]
    gates = AddOp(MatmulOp(hidden, direction.recurrence, transpose_rhs=True), own).result
    enter, leave, forget = (SigmoidOp(_span(gates, gate * state, state)).result for gate in range(3))
    candidate = TanhOp(_span(gates, 3 * state, state)).result
    cell = AddOp(MulOp(forget, cell), MulOp(enter, candidate)).result
    return MulOp(leave, TanhOp(cell)).result, cell


def _part(value: ir.Value, axis: int, index: int) -> ir.Value:
    return _bounded(value, axis, index, index + 1)


def _span(value: ir.Value, start: int, length: int) -> ir.Value:
    return _bounded(value, 1, start, start + length)


def _bounded(value: ir.Value, axis: int, start: int, stop: int) -> ir.Value:
    shape = tuple(ir.RankedTensorType(value.type).shape)
    starts = tuple(start if index == axis else 0 for index in range(len(shape)))
    stops = tuple(stop if index == axis else dim for index, dim in enumerate(shape))
    return SliceOp(value, starts=starts, stops=stops, steps=(1,) * len(shape)).result


def _joined(values: list[ir.Value], axis: int) -> ir.Value:
    """The values concatenated as a balanced tree: a chain would copy the first one once for every other."""
    if len(values) == 1:
        return values[0]
    middle = len(values) // 2
    return ConcatOp(_joined(values[:middle], axis), _joined(values[middle:], axis), axis=axis).result
