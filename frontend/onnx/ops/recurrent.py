"""Recurrent layers."""

from __future__ import annotations

from mlir import ir

from ....dialects.stepwell.recurrent import LstmOp
from ...errors import UnsupportedError
from ..build import emit, shape, transposed
from ..node import Node
from ..registry import imports

_DEFAULTS = ("Sigmoid", "Tanh", "Tanh")


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
) -> tuple[ir.Value, ...]:
    """LSTM over full sequences; with layout 1 (opset 14) the batch comes first."""
    node.ignore("hidden_size")  # the recurrence says it
    _check_plain(node, input, lengths, peepholes)
    batch_first = bool(node.attribute("layout", 0))
    if batch_first:
        input = transposed(input, (1, 0, 2))
        initial_h, initial_c = (
            value if value is None else transposed(value, (1, 0, 2)) for value in (initial_h, initial_c)
        )
    sequence, last_h, last_c = emit(
        LstmOp, input, weight, recurrence, bias, initial_h, initial_c, direction=node.attribute("direction")
    )
    if batch_first:
        return transposed(sequence, (2, 0, 1, 3)), transposed(last_h, (1, 0, 2)), transposed(last_c, (1, 0, 2))
    return sequence, last_h, last_c


def _check_plain(node: Node, input: ir.Value, lengths: ir.Value | None, peepholes: ir.Value | None) -> None:
    known = node.known(lengths)
    time = shape(input)[1 if node.attribute("layout", 0) else 0]
    if lengths is not None and (known is None or (known != time).any()):
        raise UnsupportedError("has sequences of different lengths (sequence_lens), which is not supported")
    peeps = node.known(peepholes)
    if peepholes is not None and (peeps is None or peeps.any()):
        raise UnsupportedError("has peepholes, which are not supported")
    activations = node.attribute("activations", _DEFAULTS)
    if any(name.lower() != default.lower() for name, default in zip(activations, _DEFAULTS * 2, strict=False)):
        raise UnsupportedError(
            f"has the activations {', '.join(activations)}, but only {', '.join(_DEFAULTS)} are supported"
        )
    for name in ("clip", "input_forget", "activation_alpha", "activation_beta"):
        if node.attribute(name):
            raise UnsupportedError(f"attribute '{name}' is not supported")
