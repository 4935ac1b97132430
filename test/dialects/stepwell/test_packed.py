"""Packed weights: packing and unpacking, and the references of the ops that read them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from stepwell.dialects.stepwell.panels import ColumnGroup, column_groups, pack, unpack
from stepwell.dialects.types import TensorSpec


def test_column_groups_leave_a_tail() -> None:
    assert column_groups(100, 32) == (ColumnGroup(0, 3, 32), ColumnGroup(96, 1, 4))
    assert column_groups(64, 32) == (ColumnGroup(0, 2, 32),)
    assert column_groups(7, 32) == (ColumnGroup(0, 1, 7),)


@pytest.mark.parametrize(("count", "columns", "panel"), [(1, 100, 32), (3, 16, 8), (2, 5, 4)])
def test_unpack_inverts_pack(count: int, columns: int, panel: int) -> None:
    weight = np.arange(count * columns * 6, dtype=np.float32).reshape(count, columns, 6)
    np.testing.assert_array_equal(unpack(pack(weight, panel), count, columns, panel), weight)


def test_matmul_reference() -> None:
    x, w = np.random.rand(4, 6).astype(np.float32), np.random.rand(6, 35).astype(np.float32)
    result = PackedMatmulOp.reference(x, pack(w.T[None], 32), columns=35, panel=32, batch=1)
    np.testing.assert_allclose(result, x @ w, rtol=1e-5)


def test_matmul_in_pairs() -> None:
    """Each pair along the reduction is adjacent: [panel, pair, column, 2]."""
    x, weight = np.arange(8, dtype=np.float32).reshape(2, 4), np.arange(12, dtype=np.float32).reshape(3, 4)
    packed = weight.reshape(3, 2, 2).swapaxes(0, 1).reshape(-1)
    found = PackedMatmulOp.reference(x, packed, columns=3, panel=3, batch=1, grain=2)
    np.testing.assert_array_equal(found, x @ weight.T)


def test_depth_must_be_whole_pairs() -> None:
    kind = np.dtype(np.float32)
    with pytest.raises(OpError, match="must be a multiple of 2, but is 3"):
        PackedMatmulOp.infer(TensorSpec((2, 3), kind), TensorSpec((9,), kind), columns=3, panel=3, batch=1, grain=2)


def test_matmul_of_a_batch() -> None:
    x, w = np.random.rand(2, 3, 4, 6).astype(np.float32), np.random.rand(6, 6, 35).astype(np.float32)
    result = PackedMatmulOp.reference(x, pack(w.swapaxes(1, 2), 32), columns=35, panel=32, batch=6)
    np.testing.assert_allclose(result, x @ w.reshape(2, 3, 6, 35), rtol=1e-5)


def test_matmul_wants_a_matrix_for_each_of_the_batch() -> None:
    x, w = TensorSpec((2, 4, 6), np.dtype(np.float32)), TensorSpec((576,), np.dtype(np.float32))
    with pytest.raises(OpError, match="does not hold 3 matrices"):
        PackedMatmulOp.infer(x, w, columns=32, panel=32, batch=3)


@pytest.mark.parametrize("group", [1, 2])
def test_conv_reference(group: int) -> None:
    x, w = np.random.rand(2, 9, 8, 6).astype(np.float32), np.random.rand(10, 6 // group, 3, 2).astype(np.float32)
    places = {"strides": (2, 1), "dilations": (1, 2), "group": group}
    packed = pack(w.reshape(group, 10 // group, *w.shape[1:]).transpose(0, 1, 3, 4, 2), 4)
    result = PackedConvOp.reference(x, packed, columns=10, panel=4, kernel=(3, 2), **places)
    expected = ConvOp.reference(x, w, None, pads=(0, 0, 0, 0), layout="channels_last", **places)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_depthwise_reference() -> None:
    x, w = np.random.rand(1, 9, 8, 6).astype(np.float32), np.random.rand(3, 3, 6).astype(np.float32)
    places = {"strides": (2, 1), "dilations": (1, 1)}
    result = PackedDepthwiseConvOp.reference(x, w, **places)
    filters = w.transpose(2, 0, 1)[:, None]
    expected = ConvOp.reference(x, filters, None, pads=(0, 0, 0, 0), group=6, layout="channels_last", **places)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_grouped_reference() -> None:
    x, w = np.random.rand(1, 9, 8, 6).astype(np.float32), np.random.rand(12, 2, 3, 2).astype(np.float32)
    places = {"strides": (2, 1), "dilations": (1, 2), "group": 3}
    result = PackedGroupedConvOp.reference(x, w.transpose(2, 3, 1, 0), **places)
    expected = ConvOp.reference(x, w, None, pads=(0, 0, 0, 0), layout="channels_last", **places)
    np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_grouped_weight_must_fit() -> None:
    x, w = TensorSpec((1, 9, 9, 8), np.dtype("f4")), TensorSpec((3, 3, 3, 8), np.dtype("f4"))
    with pytest.raises(OpError, match=r"the weight must be \[\*kernel, 8 / 4, columns\]"):
        PackedGroupedConvOp.infer(x, w, group=4, strides=(1, 1), dilations=(1, 1))


def test_sums_of_short_weights_may_stay_float32() -> None:
    rng = np.random.default_rng(0)
    rows, weight = rng.standard_normal((2, 8)).astype(np.float32), rng.standard_normal((4, 8))
    short = weight.astype(ml_dtypes.bfloat16)
    packed = pack(short[None], 4)
    kept = PackedMatmulOp.reference(rows, packed, columns=4, panel=4, batch=1, keeps_sums=True)
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(kept, (rows.astype(np.float64) @ short.astype(np.float64).T).astype(np.float32))
    assert PackedMatmulOp.reference(rows, packed, columns=4, panel=4, batch=1).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(("rows", "weight"), [("float32", "float32"), ("float16", "float16")])
def test_only_sums_of_short_weights_and_float32_do(rows: str, weight: str) -> None:
    specs = TensorSpec((2, 8), np.dtype(rows)), TensorSpec((32,), np.dtype(weight))
    with pytest.raises(OpError, match="'keeps_sums' needs an input of float32 and a weight of short floats"):
        PackedMatmulOp.infer(*specs, columns=4, panel=4, batch=1, keeps_sums=True)
