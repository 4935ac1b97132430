"""The reference of lstm against ONNX Runtime."""

import numpy as np
import pytest
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.recurrent import LstmOp
from stepwell.dialects.types import TensorSpec

STEPS, BATCH, INPUT, STATE = 4, 2, 3, 5


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("has_options", [False, True])
def test_lstm(run_onnx, compute, direction, has_options):
    rng = np.random.default_rng(0)
    count = 2 if direction == "bidirectional" else 1
    shapes = [(STEPS, BATCH, INPUT), (count, 4 * STATE, INPUT), (count, 4 * STATE, STATE)]
    required = [rng.standard_normal(shape, np.float32) for shape in shapes]
    optional = [(count, 8 * STATE), (count, BATCH, STATE), (count, BATCH, STATE)]
    bias, hidden, cell = (rng.standard_normal(shape, np.float32) if has_options else None for shape in optional)
    names = {"outputs": 3, "opset": 14, "direction": direction, "hidden_size": STATE}
    expected = run_onnx("LSTM", *required, bias, None, hidden, cell, **names)
    results = compute(LstmOp, *required, bias, hidden, cell, direction=direction)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-5)


def test_wrong_shapes_are_refused():
    f32 = np.dtype(np.float32)
    x, weight = TensorSpec((4, 2, 3), f32), TensorSpec((1, 20, 3), f32)
    recurrence = TensorSpec((1, 20, 5), f32)
    with pytest.raises(OpError, match="operand 'weight' must have shape 2x20x3, but is 1x20x3xf32"):
        LstmOp.infer(x, weight, recurrence, None, None, None, direction="bidirectional")
    with pytest.raises(OpError, match="operand 'bias' must have shape 1x40, but is 1x20xf32"):
        LstmOp.infer(x, weight, recurrence, TensorSpec((1, 20), f32), None, None, direction="forward")
