"""Conversions of f16 without instructions for them give the bits that numpy gives."""

from __future__ import annotations

import numpy as np
import pytest
import stepwell
from onnx import TensorProto, helper
from stepwell.runtime import processor


def converted(values: np.ndarray, source: int, target: int) -> np.ndarray:
    """Converts between ONNX types with code for x86-64-v2, which has no instructions for f16."""
    ports = [helper.make_tensor_value_info(name, kind, values.shape) for name, kind in (("x", source), ("y", target))]
    graph = helper.make_graph([helper.make_node("Cast", ["x"], ["y"], to=target)], "cast", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    options = {"cache": False, "fallback": "error"}
    return stepwell.compile(model, threads=1, target="x86-64-v2", options=options)(values)


def same_bits(found: np.ndarray, wanted: np.ndarray) -> bool:
    bits, is_nan = f"u{found.itemsize}", np.isnan(wanted)
    found_bits, wanted_bits = found.view(bits)[~is_nan], wanted.view(bits)[~is_nan]
    return np.array_equal(np.isnan(found), is_nan) and np.array_equal(found_bits, wanted_bits)


pytestmark = pytest.mark.skipif(processor.architecture() != "x86_64", reason="runs code for x86-64")


def test_all_numbers_become_f32() -> None:
    values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    assert same_bits(converted(values, TensorProto.FLOAT16, TensorProto.FLOAT), values.astype(np.float32))


@pytest.mark.filterwarnings("ignore:overflow")
def test_f32_is_rounded_to_the_nearest_and_to_even_in_between() -> None:
    short = np.arange(1 << 15, dtype=np.uint16).view(np.float16)
    exact = short[np.isfinite(short)].astype(np.float32)
    middle = (exact[1:] + exact[:-1]) / 2
    near = [np.nextafter(middle, np.float32(side)) for side in (0, np.inf)]
    special = np.array([np.inf, np.nan, 65519.996, 65520, 65536, 1e30, 1e-30, 2**-25, 2**-26], np.float32)
    sizes = np.concatenate([exact, middle, *near, special])
    values = np.concatenate([sizes, -sizes])
    assert same_bits(converted(values, TensorProto.FLOAT, TensorProto.FLOAT16), values.astype(np.float16))
