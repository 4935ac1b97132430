"""Depthwise convolutions of bytes are exact, however taps, strides and channels divide."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper, numpy_helper
from stepwell.lowering.target import Target

_TARGETS = ["cpu", *(["x86-64-v3"] if Target.host().architecture == "x86_64" else [])]


def _random(shape: tuple[int, ...], low: int, high: int, kind: type) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high, shape, endpoint=True).astype(kind)


@pytest.mark.few(12)
@pytest.mark.parametrize("target", _TARGETS)
@pytest.mark.parametrize("zero_point", [0, 131])
@pytest.mark.parametrize(
    ("channels", "size", "kernel", "strides", "dilations"),
    [
        (32, (14, 14), (3, 3), (1, 1), (1, 1)),
        (48, (9, 20), (5, 5), (1, 1), (1, 1)),
        (16, (17, 17), (3, 3), (2, 2), (1, 1)),
        (40, (12, 15), (5, 5), (2, 1), (1, 1)),
        (24, (8, 33), (3, 7), (1, 3), (1, 1)),
        (32, (11, 21), (3, 4), (1, 1), (1, 2)),
        (32, (11, 21), (2, 2), (1, 2), (2, 2)),
        (64, (5, 40), (1, 9), (1, 1), (1, 1)),
        (5, (7, 7), (3, 3), (1, 1), (1, 1)),
        (32, (6, 3), (3, 3), (1, 1), (1, 1)),
    ],
)
def test_depthwise_convolutions_are_exact(
    channels: int,
    size: tuple[int, int],
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    zero_point: int,
    target: str,
) -> None:
    x, w = _random((1, channels, *size), 0, 255, np.uint8), _random((channels, 1, *kernel), -128, 127, np.int8)
    pads = [d * (k - 1) // 2 for d, k in zip(dilations, kernel, strict=True)] * 2
    node = helper.make_node(
        "ConvInteger", ["x", "w", "z"], ["s"], group=channels, strides=strides, dilations=dilations, pads=pads
    )
    graph = helper.make_graph(
        [node, helper.make_node("Cast", ["s"], ["f"], to=TensorProto.FLOAT), helper.make_node("Relu", ["f"], ["y"])],
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(np.uint8(zero_point), "z")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    executable = stepwell.compile(model, threads=1, target=target, options=stepwell.Options(cache=False))
    image = np.pad(x.astype(np.int32) - zero_point, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    reach = tuple(d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(image, reach, (2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    wanted = np.maximum(np.einsum("nchwkl,ckl->nchw", windows, w[:, 0].astype(np.int32)), 0)
    np.testing.assert_array_equal(executable(x), wanted.astype(np.float32))
