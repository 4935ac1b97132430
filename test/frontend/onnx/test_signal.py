"""Fourier transforms of any length and related operators, compared with numpy and ONNX's reference."""

import numpy as np
import pytest
import stepwell
from mlir import ir
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from stepwell.dialects.interpreter import evaluate
from stepwell.frontend.onnx.importer import import_model

RNG = np.random.default_rng(0)


def run(build, op_type, opset, inputs, constants, **attributes):
    """Returns our result for a node and that of ONNX's reference."""
    count = max([len(inputs), *(index + 1 for index in constants)])
    feeds = {f"x{index}": array for index, array in enumerate(inputs)}
    stored = {f"x{index}": np.asarray(array) for index, array in constants.items()}
    names = [f"x{index}" if f"x{index}" in feeds | stored else "" for index in range(count)]
    model = build([helper.make_node(op_type, names, ["y"], **attributes)], feeds, ["y"], stored, opset)
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    model.graph.output[0].type.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(np.asarray(expected).dtype)
    imported = import_model(model, ir.Context(), {name: array.shape for name, array in feeds.items()})
    (actual,) = evaluate(imported.module, "main", list(feeds.values()), imported.parameters)
    return actual, expected


def check(*arguments, tolerance=2e-5, **attributes):
    actual, expected = run(*arguments, **attributes)
    assert actual.dtype == expected.dtype
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("size", [1, 2, 7, 32, 131, 180, 262])
@pytest.mark.parametrize("parts", [1, 2])
def test_every_length(build, size, parts):
    x = RNG.standard_normal((2, size, parts)).astype(np.float32)
    check(build, "DFT", 20, [x], {}, tolerance=1e-5)
    if parts == 1:
        check(build, "DFT", 20, [x], {}, onesided=1)
    else:
        check(build, "DFT", 20, [x], {}, inverse=1)
        check(build, "DFT", 20, [x], {1: np.array(2 * size - 1)}, inverse=1, onesided=1)


def test_other_axes_and_lengths(build):
    x = RNG.standard_normal((6, 3, 5, 1))
    check(build, "DFT", 17, [x], {}, axis=0, tolerance=1e-12)
    check(build, "DFT", 20, [x], {1: np.array(9), 2: np.array(-2)}, tolerance=1e-12)
    check(build, "DFT", 20, [x], {1: np.array(4), 2: np.array(0)}, onesided=1, tolerance=1e-12)


@pytest.mark.parametrize("onesided", [0, 1])
def test_frames(build, onesided):
    x = RNG.standard_normal((2, 50, 1)).astype(np.float32)
    window = np.hanning(12).astype(np.float32)
    check(build, "STFT", 17, [x], {1: np.array(5), 2: window}, onesided=onesided)
    check(build, "STFT", 17, [x], {1: np.array(7), 3: np.array(16)}, onesided=onesided)


def test_mel_weights(build):
    constants = {0: np.array(8), 1: np.array(64), 2: np.array(8000), 3: np.array(20.0), 4: np.array(3800.0)}
    constants |= {index: constants[index].astype(np.float32) for index in (3, 4)}
    check(build, "MelWeightMatrix", 17, [], constants)


def test_frames_of_signals_without_a_last_dimension(build, compare):
    x = RNG.standard_normal((2, 40)).astype(np.float32)
    constants = {"step": np.array(5), "window": np.hanning(16).astype(np.float32)}
    node = helper.make_node("STFT", ["x", "step", "window"], ["y"], onesided=1)
    compare(build([node], {"x": x}, ["y"], constants, 17), {"x": x})


def test_a_signal_of_varying_length_is_compiled_for_each_length() -> None:
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, "n", 1])]
    results = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "n", 2])]
    graph = helper.make_graph([helper.make_node("DFT", ["x"], ["y"], axis=1)], "signal", ports, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    with pytest.warns(stepwell.SlowWarning, match="the length of the signal must be known"):
        run = stepwell.compile(model, threads=1, options={"cache": False, "dims": {"n": (2, 7)}, "fallback": "error"})
    for length in (2, 5, 7):
        signal = np.random.default_rng(length).random((1, length, 1), np.float32)
        found, wanted = run(signal), np.fft.fft(signal[..., 0])
        np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], wanted, rtol=0, atol=1e-5)
