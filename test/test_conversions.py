"""Conversions between element types, compiled: every byte of the tiny types, and all numbers that matter into them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import stepwell
from onnx import helper
from stepwell.lowering.target import Target

TINY = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float4_e2m1fn"]
INTEGERS = ["int4", "uint4", "int2", "uint2"]


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name))


def codes(name: str) -> np.ndarray:
    bits = 4 if "4_e" in name or name.endswith("4") else 2 if name.endswith("int2") else 8
    return np.arange(1 << bits, dtype=np.uint8).view(dtype_of(name))


def run(op_type: str, x: np.ndarray, kind: np.dtype, target: str = "cpu", **attributes: int | str) -> np.ndarray:
    kinds = [helper.np_dtype_to_tensor_dtype(item) for item in (x.dtype, np.dtype(kind))]
    node = helper.make_node(op_type, ["x"], ["y"], to=kinds[1], **attributes)
    infos = [helper.make_tensor_value_info(name, kind, x.shape) for name, kind in zip("xy", kinds, strict=True)]
    model = helper.make_model(
        helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", 26)]
    )
    return stepwell.compile(model, target, threads=1, options=stepwell.Options(cache=False))(x)


def assert_same_bits(got: np.ndarray, wanted: np.ndarray) -> None:
    assert got.dtype == wanted.dtype
    numbers = ~np.isnan(wanted.astype(np.float32))
    bits = np.dtype(f"u{wanted.dtype.itemsize}")
    np.testing.assert_array_equal(got.view(bits)[numbers], wanted.view(bits)[numbers])
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), ~numbers)


def numbers_around(name: str) -> np.ndarray:
    """All numbers of a type, the midpoints between them, the neighbours of those, and numbers of all magnitudes."""
    values = codes(name).astype(np.float32)
    values = np.unique(values[np.isfinite(values)])
    halves = (values[1:] + values[:-1]) / 2
    beside = [np.nextafter(halves, np.float32(end)) for end in (np.inf, -np.inf)]
    spread = np.random.default_rng(0).integers(0, 2**32, 4000, np.uint32).view(np.float32)
    ends = np.array([np.inf, -np.inf, 0.0, -0.0, 1e-30, 464, 480, 61440, 65536], np.float32)
    return np.concatenate([values, halves, *beside, spread[np.isfinite(spread)], ends])


@pytest.mark.parametrize("name", TINY)
def test_floats_become_the_nearest_tiny_float(name):
    x = numbers_around(name)
    with np.errstate(all="ignore"):
        wanted = x.astype(dtype_of(name))
    assert_same_bits(run("Cast", x, dtype_of(name), saturate=0), wanted)


@pytest.mark.parametrize("name", TINY[:4])
def test_conversions_to_eight_bits_saturate(name):
    x, greatest = numbers_around(name), float(ml_dtypes.finfo(dtype_of(name)).max)
    assert_same_bits(run("Cast", x, dtype_of(name)), np.clip(x, -greatest, greatest).astype(dtype_of(name)))


@pytest.mark.few(8)
@pytest.mark.parametrize("name", [*TINY, "float8_e8m0fnu", *INTEGERS])
@pytest.mark.parametrize("target", [np.float32, ml_dtypes.bfloat16])
def test_every_tiny_number_is_read(name, target):
    x = codes(name)
    with np.errstate(all="ignore"):
        wanted = x.astype(np.dtype(target))
    assert_same_bits(run("Cast", x, np.dtype(target)), wanted)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_of_less_than_a_byte(name):
    for kind in (np.int32, np.int8, np.uint8, np.float32):
        numbers = codes(name).astype(np.int32)
        x = numbers.astype(kind)
        assert_same_bits(run("Cast", x, dtype_of(name)), x.astype(dtype_of(name)))
        np.testing.assert_array_equal(run("Cast", codes(name), np.dtype(kind)), codes(name).astype(kind))


@pytest.mark.parametrize("target", ["x86-64-v3", "cpu"])
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_double_precision_to_half(kind, target):
    if not Target.parse(target).runs_on(Target.host()):
        pytest.skip("this machine runs no such code")
    with np.errstate(invalid="ignore"):
        values = np.arange(1 << 16, dtype=np.uint16).view(kind).astype(np.float64)
    # Machines with an instruction for bf16 flush denormal numbers to 0.
    least = 0 if kind == np.float16 else float(ml_dtypes.finfo(kind).smallest_normal)
    values = np.unique(values[np.isfinite(values) & (np.abs(values) >= least)])[:: 1 if kind == np.float16 else 9]
    halves = ((values[1:] + values[:-1]) / 2)[np.abs(values[1:] + values[:-1]) > 2 * least]
    x = np.concatenate([halves, np.nextafter(halves, np.inf), np.nextafter(halves, -np.inf), [np.inf, np.nan, 1e300]])
    with np.errstate(all="ignore"):
        wanted = x.astype(kind)
    got = run("Cast", x, np.dtype(kind), target)
    is_number = ~np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(got.view(np.uint16)[is_number], wanted.view(np.uint16)[is_number])


@pytest.mark.parametrize("rounding", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two(rounding, saturate):
    from onnx.numpy_helper import to_float8e8m0

    spread = np.random.default_rng(1).integers(0, 2**32, 2000, np.uint32)
    edges = np.array([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF, 0x7F7FFFFF, 0x7F800000, 0x7FFFFFFF], np.uint32)
    x = np.concatenate([spread, edges]).view(np.float32)
    got = run("Cast", x, dtype_of("float8_e8m0fnu"), saturate=saturate, round_mode=rounding)
    np.testing.assert_array_equal(got.view(np.uint8), to_float8e8m0(x, bool(saturate), rounding).view(np.uint8))


def test_bits_are_kept():
    x = codes("float8_e5m2")
    np.testing.assert_array_equal(run("BitCast", x, np.dtype(np.uint8)), x.view(np.uint8))
    assert_same_bits(run("BitCast", codes("uint4"), dtype_of("int4")), codes("uint4").view(dtype_of("int4")))
