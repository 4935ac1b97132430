"""Recurrent layers."""

from __future__ import annotations

import numpy as np

from ..core import Op, Rounding, attribute, operand, optional_operand, result
from ..types import TensorSpec
from .numerics import sigmoid, summed_up
from .shapes import require_float, require_rank, require_shape, same_dtype

DIRECTIONS = ("forward", "reverse", "bidirectional")


class LstmOp(Op):
    """A long short-term memory layer (ONNX LSTM with its default activations; Hochreiter and Schmidhuber 1997).

    Per step, with the gates stacked in ONNX's order input, output, forget, cell:
    `i, o, f, c = weight @ x + recurrence @ h + bias`, `C = sigmoid(f) * C + sigmoid(i) * tanh(c)`,
    `h = sigmoid(o) * tanh(C)`. T is the number of steps, B the batch size, I the input size, H the state size and D the
    number of directions: 2 for "bidirectional" (forward first), else 1.

    ```mlir
    %y, %h, %c = "stepwell.lstm"(%0, %1, %2, %3)
        {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>, direction = "forward"}
        : (tensor<10x1x16xf32>, tensor<1x128x16xf32>, tensor<1x128x32xf32>, tensor<1x256xf32>)
        -> (tensor<10x1x1x32xf32>, tensor<1x1x32xf32>, tensor<1x1x32xf32>)
    ```
    """

    OPERATION_NAME = "stepwell.lstm"
    ROUNDING = Rounding.SUM
    input = operand("[T, B, I]")
    weight = operand("[D, 4H, I]")
    recurrence = operand("[D, 4H, H]")
    bias = optional_operand("[D, 8H]: the bias of `weight`, then that of `recurrence`; absent, 0")
    initial_h = optional_operand("[D, B, H]; absent, 0")
    initial_c = optional_operand("[D, B, H]; absent, 0")
    direction = attribute(str, default="forward", choices=DIRECTIONS)
    y = result("[T, D, B, H]: the state after every step, in the order of the input")
    y_h = result("[D, B, H]: the state after the last step")
    y_c = result("[D, B, H]: the cell after the last step")

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        recurrence: TensorSpec,
        bias: TensorSpec | None,
        initial_h: TensorSpec | None,
        initial_c: TensorSpec | None,
        *,
        direction: str,
    ) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
        """[T, D, B, H], and [D, B, H] twice."""
        require_float(input=input)
        same_dtype(*(spec for spec in (input, weight, recurrence, bias, initial_h, initial_c) if spec is not None))
        require_rank(3, input=input, weight=weight, recurrence=recurrence)
        steps, batch, size = input.shape
        directions = 2 if direction == "bidirectional" else 1
        state = recurrence.shape[2]
        require_shape((directions, state * 4, size), weight=weight)
        require_shape((directions, state * 4, state), recurrence=recurrence)
        require_shape((directions, state * 8), bias=bias)
        require_shape((directions, batch, state), initial_h=initial_h, initial_c=initial_c)
        last = input.with_shape((directions, batch, state))
        return input.with_shape((steps, directions, batch, state)), last, last

    @staticmethod
    @summed_up
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        recurrence: np.ndarray,
        bias: np.ndarray | None,
        initial_h: np.ndarray | None,
        initial_c: np.ndarray | None,
        *,
        direction: str,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Computes one direction after the other, step by step."""
        directions, _, state = recurrence.shape
        zeros = np.zeros((directions, input.shape[1], state), input.dtype)
        hidden = zeros if initial_h is None else initial_h
        cells = zeros if initial_c is None else initial_c
        runs = []
        for index in range(directions):
            is_backward = direction == "reverse" or index == 1
            gates = input @ weight[index].T
            if bias is not None:
                gates = gates + bias[index, : 4 * state] + bias[index, 4 * state :]
            y, h, c = _run(gates[::-1] if is_backward else gates, recurrence[index].T, hidden[index], cells[index])
            runs.append((y[::-1] if is_backward else y, h, c))
        outputs, last_hidden, last_cells = zip(*runs, strict=True)
        return np.stack(outputs, 1), np.stack(last_hidden), np.stack(last_cells)

    @classmethod
    def is_linear(cls) -> bool:
        """False: gates saturate."""
        return False


def _run(
    gates: np.ndarray, recurrence: np.ndarray, hidden: np.ndarray, cell: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The states [T, B, H] after every step, and the last state and cell; `gates` is the input part [T, B, 4H]."""
    states = np.empty((*gates.shape[:2], hidden.shape[1]), gates.dtype)
    for step, from_input in enumerate(gates):
        i, o, f, c = np.split(from_input + hidden @ recurrence, 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(c)
        hidden = sigmoid(o) * np.tanh(cell)
        states[step] = hidden
    return states, hidden, cell
