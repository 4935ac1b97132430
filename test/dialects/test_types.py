"""Element types, specs and dense attributes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from mlir import ir
from stepwell.dialects import dims
from stepwell.dialects.types import (
    ElementTypeError,
    TensorSpec,
    array_of,
    dense,
    element_type,
    is_float,
    is_integer,
    is_tiny_float,
    numpy_dtype,
    spec_of_type,
    splat,
    tensor_type,
)

NUMBERS = [np.dtype(f"{kind}{width}") for kind in ("int", "uint") for width in (8, 16, 32, 64)]
NUMBERS += [np.dtype(getattr(ml_dtypes, f"{kind}{width}")) for kind in ("int", "uint") for width in (2, 4)]
FLOATS = [*map(np.dtype, (np.float16, np.float32, np.float64, ml_dtypes.bfloat16))]
EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
TINY = [np.dtype(getattr(ml_dtypes, name)) for name in (*EIGHT_BITS, "float4_e2m1fn")]
ALL = [*NUMBERS, *FLOATS, *TINY, np.dtype(np.bool_)]


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_types_survive_a_round_trip(context, dtype):
    assert numpy_dtype(element_type(dtype)) == dtype
    assert is_float(dtype) == (dtype in FLOATS or dtype in TINY)
    assert is_tiny_float(dtype) == (dtype in TINY)
    assert is_integer(dtype) == (dtype in NUMBERS)


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("shape", [(2, 3), (), (1,), (0, 3)])
def test_contents_survive_a_round_trip(context, dtype, shape):
    array = (np.arange(np.prod(shape)) % 4 + (dtype.name == EIGHT_BITS[-1])).reshape(shape).astype(dtype)
    for contents in (array, np.ones(shape, dtype)):
        back = array_of(dense(contents))
        assert back.dtype == dtype
        np.testing.assert_array_equal(back, contents)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_infinities_and_nan_survive(context, dtype):
    array = np.array([np.inf, -np.inf, np.nan, 0.1, -0.0]).astype(dtype)
    back = array_of(dense(array))
    np.testing.assert_array_equal(back.astype(np.float64), array.astype(np.float64))
    assert np.signbit(back[-1])


@pytest.mark.parametrize("dtype", TINY, ids=str)
def test_every_byte_survives(context, dtype):
    count = 16 if dtype.name.startswith("float4") else 256
    codes = np.arange(count, dtype=np.uint8)
    back = array_of(dense(codes.view(dtype)))
    is_nan = np.isnan(codes.view(dtype).astype(np.float32))
    np.testing.assert_array_equal(back.view(np.uint8)[~is_nan], codes[~is_nan])
    assert np.isnan(back.astype(np.float32)[is_nan]).all()


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_splats_are_stored_once(context, dtype):
    attribute = splat(np.ones((), dtype)[()], (1000, 1000))
    assert len(str(attribute)) < 100
    back = array_of(attribute)
    assert back.shape == (1000, 1000)
    assert back.strides == (0, 0)
    assert back[3, 4] == 1


def test_contents_outlive_the_attribute(context):
    back = array_of(dense(np.arange(1000, dtype=np.float32)))
    np.testing.assert_array_equal(back, np.arange(1000))


def test_unknown_element_types_are_named(context):
    with pytest.raises(ElementTypeError, match="element type complex<f32> is not supported: expected one of f64, f32"):
        spec_of_type(ir.Type.parse("tensor<2xcomplex<f32>>"))


def test_specs_and_types(context):
    spec = spec_of_type(ir.Type.parse("tensor<?x3xf32>"))
    assert spec.shape[1] == 3
    assert not spec.is_static
    assert str(spec) == "?x3xf32"
    assert str(tensor_type(spec)) == "tensor<?x3xf32>"
    assert str(TensorSpec((dims.symbol("batch") * 2, 3), np.dtype(np.bool_))) == "(2 * batch)x3xi1"
    assert spec_of_type(ir.Type.parse("tensor<?xf32>")) != spec_of_type(ir.Type.parse("tensor<?xf32>"))


@pytest.mark.parametrize("value", [False, True])
def test_masks_of_one_value_are_not_read_beyond_it(value):
    with ir.Context(), ir.Location.unknown():
        for shape in ((), (1,), (3, 1 << 40)):
            back = array_of(splat(np.bool_(value), shape))
            assert back.shape == shape and back.dtype == np.bool_ and back.flat[0] == value
        assert array_of(ir.Attribute.parse("dense<true> : tensor<0x3xi1>")).shape == (0, 3)
