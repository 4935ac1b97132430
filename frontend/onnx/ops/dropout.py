"""Dropout: random in a training step, else the identity."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.dims import is_static, numbers
from ....dialects.stepwell.constant import ParameterOp
from ....dialects.stepwell.shape import FillOp
from ...build import emit, shape, shape_of
from ...errors import UnsupportedError
from ...randomness import KEY, dropped, kept, random_bits
from ..nodes.node import Node
from ..nodes.registry import imports


@imports("Dropout")
def dropout(
    node: Node, input: ir.Value, ratio: ir.Value | None = None, training: ir.Value | None = None
) -> tuple[ir.Value, ...]:
    """Dropout: the identity outside training, or if nothing is dropped; its mask (opset 12) is then all true.

    The numbers of a training step are not those of ONNX Runtime.
    """
    node.ignore("ratio", "seed", "is_test")
    is_training = training is not None and node.constant(training, "training_mode").any()
    share = 0.5 if ratio is None else float(node.constant(ratio, "ratio").reshape(())) if is_training else 0.0
    if is_training and share:
        bits = _bits(node, input)
        return dropped(bits, input, share), kept(bits, 1 - share)
    if len(node.outputs) < 2 or node.opset < 12:
        return (input,)
    return input, emit(FillOp, shape_of(input), value=np.array([True]))


def _bits(node: Node, input: ir.Value) -> ir.Value:
    """Random bits in the shape of a value.

    Raises:
        UnsupportedError: the import is not for training, or the shape is not known.
    """
    importer, extents = node.importer, shape(input)
    if not importer.keeps_weights or not is_static(extents):
        raise UnsupportedError(
            "is in training mode, which only `stepwell.trainer` supports: export the model for inference"
        )
    importer.parameters.setdefault(KEY, np.zeros((), np.int64))
    importer.choices += 1
    key = ParameterOp(name=KEY, shape=(), dtype=np.dtype(np.int64)).operation.result
    return random_bits(key, importer.choices, numbers(extents))
