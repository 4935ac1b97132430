"""ONNX Runtime's quantised attention, embeddings, pools and convolutions, compared with ONNX Runtime.

Its kernels round in several ways, so integers may differ by one.
"""

import numpy as np
import pytest
from onnx import TensorProto, helper

F32, U8, I8 = np.float32, np.uint8, np.int8
MS = {"domain": "com.microsoft"}
S, Z = np.array(0.05, F32), np.array(120, U8)


@pytest.fixture
def close(build, compare):
    """Returns a function that compares a node with 8-bit outputs, which may differ by one."""

    def run(op_type, inputs, constants=None, dynamic=False, **attributes):
        stored = {f"c{index}": np.asarray(value) for index, value in (constants or {}).items()}
        feeds = {f"x{index}": array for index, array in enumerate(inputs) if array is not None}
        count = max([len(inputs), *(index + 1 for index in constants or {})])
        names = [next((n for n in (f"x{i}", f"c{i}") if n in feeds or n in stored), "") for i in range(count)]
        nodes = [
            helper.make_node(op_type, names, ["q"], name="tested", **attributes, **MS),
            helper.make_node("Cast", ["q"], ["y"], to=TensorProto.FLOAT),
        ]
        compare(build(nodes, feeds, ["y"], stored, 17, {"com.microsoft": 1}), feeds, dynamic=dynamic, rtol=1.01)

    return run


@pytest.fixture
def some(rng):
    """Returns a function that draws uint8 arrays of a shape."""
    return lambda *shape: rng.integers(0, 256, shape, U8)


@pytest.mark.parametrize("mask", [None, np.array([3, 5], np.int32)])
@pytest.mark.parametrize("signed", [False, True])
def test_attention(check, rng, some, mask, signed):
    weight = rng.integers(-20, 20, (8, 24), I8) if signed else some(8, 24)
    constants = {1: weight, 2: rng.normal(size=24).astype(F32), 3: np.array(0.01, F32), 4: np.array(0.02, F32)}
    constants |= {6: np.array(128, U8), 7: np.array(3, weight.dtype)}
    inputs = [some(2, 5, 8), None, None, None, None, mask]
    check("QAttention", 17, inputs, constants=constants, num_heads=2, dynamic=False, **MS)


def test_embedding(check, rng, some):
    words = rng.integers(0, 10, (2, 3)).astype(np.int32)
    constants = {2: some(10, 8), 3: some(5, 8), 5: some(8), 6: some(8)}
    constants |= {index: np.array(0.02 * (index - 7), F32) for index in (8, 9, 11, 12)}
    constants |= {index: np.array(100 + index, U8) for index in (13, 14, 16, 17)}
    check("QEmbedLayerNormalization", 17, [words], constants=constants, outputs=2, dynamic=False, rtol=2e-4, **MS)


@pytest.mark.parametrize("last", [0, 1])
def test_pools_and_convolutions(close, rng, some, last):
    image = some(2, 6, 5, 3) if last else some(2, 3, 6, 5)
    ranges = {1: S, 2: Z, 3: np.array(0.04, F32), 4: np.array(100, U8)}
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "channels_last": last}
    close("QLinearAveragePool", [image], ranges, **window)
    close("QLinearAveragePool", [image], ranges, count_include_pad=1, **window)
    weight = {3: rng.integers(-100, 100, (4, 3, 3, 3), I8), 4: rng.random(4).astype(F32) / 50, 5: np.zeros(4, I8)}
    more = {1: S, 2: Z, **weight, 6: np.array(0.3, F32), 7: np.array(110, U8), 8: np.arange(4, dtype=np.int32)}
    close("QLinearConv", [image], more, pads=[1, 1, 1, 1], channels_last=last)


def test_greatest_with_the_channels_last(close, some):
    close("NhwcMaxPool", [some(2, 6, 5, 3)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


@pytest.mark.parametrize(("opset", "axis"), [(13, -1), (13, 1), (11, 1)])
def test_softmax(close, some, opset, axis):
    ranges = {1: S, 2: Z, 3: np.array(1 / 256, F32), 4: np.array(0, U8)}
    close("QLinearSoftmax", [some(2, 3, 7)], ranges, opset=opset, axis=axis)


def test_choice(close, rng, some):
    condition = rng.integers(0, 2, (2, 3)).astype(bool)
    ranges = {2: S, 3: Z, 5: np.array(0.02, F32), 6: np.array(10, U8), 7: np.array(0.06, F32), 8: np.array(60, U8)}
    close("QLinearWhere", [condition, some(2, 3), None, None, some(2, 3)], ranges)
