"""The light networks that come with onnx: real architectures with constant weights, and one result of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = sorted(path.stem for path in LIGHT.glob("*.onnx"))


def light_model(name: str) -> tuple[onnx.ModelProto, bool]:
    """Returns a network without its final softmax, and whether it had one.

    Logits reach 1e31, where the rounding of one sum decides which results of the softmax are not zero.
    """
    model = onnx.load(LIGHT / f"{name}.onnx")
    has_softmax = model.graph.node[-1].op_type == "Softmax"
    if has_softmax:
        model.graph.output[0].CopyFrom(helper.make_empty_tensor_value_info(model.graph.node.pop().input[0]))
    return model, has_softmax


def light_input(shape: tuple[int, ...]) -> np.ndarray:
    """Returns the input that the stored result belongs to."""
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)


def check_light_output(name: str, output: np.ndarray, has_softmax: bool) -> None:
    """Compares the output of `light_model(name)` for `light_input` with the stored result."""
    expected = numpy_helper.to_array(onnx.load_tensor(LIGHT / f"{name}_output_0.pb"))
    if not has_softmax:
        np.testing.assert_allclose(output, expected, rtol=1e-3, atol=1e-7)
        return
    logits, shares = (array.reshape(-1).astype(np.float64) for array in (output, expected))
    smallest, rounding = np.finfo(np.float32).tiny, 1e-5 * abs(logits).max()
    is_seen = shares > smallest
    below = logits - logits.max()
    np.testing.assert_allclose(below[is_seen], np.log(shares[is_seen] / shares.max()), rtol=0, atol=1e-3 + rounding)
    assert (below[~is_seen] < np.log(smallest) + rounding).all()
