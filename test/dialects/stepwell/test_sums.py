"""Sums of products do not depend on the order in which BLAS or einsum adds the terms."""

import numpy as np
import pytest
from stepwell.dialects.stepwell.attention import AttentionOp
from stepwell.dialects.stepwell.contraction import ConvOp, ConvTransposeOp, MatmulOp
from stepwell.dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from stepwell.dialects.stepwell.panels import pack
from stepwell.dialects.stepwell.recurrent import LstmOp

DEPTH = 512
# In float32, almost every order of adding terms of this magnitude gives a different sum.
LARGE = np.float32(2.0**24)


def cancelling(count: int) -> np.ndarray:
    """Values whose sum is exact in float64 alone."""
    values = np.random.default_rng(0).integers(1, 1000, count).astype(np.float32)
    values[: count // 4] += LARGE
    values[count // 4 : count // 2] -= LARGE
    return values


def matmul(values):
    return MatmulOp.reference(values[None], np.ones((DEPTH, 1), np.float32), transpose_lhs=False, transpose_rhs=False)


def conv(values):
    weight = np.ones((1, DEPTH, 1, 1), np.float32)
    return ConvOp.reference(
        values.reshape(1, DEPTH, 1, 1),
        weight,
        None,
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
        group=1,
        layout="channels_first",
    )


def conv_by_places(values):
    weight = np.ones((1, 1, DEPTH), np.float32)
    return ConvOp.reference(
        values[None, None], weight, None, strides=(1,), pads=(0, 0), dilations=(1,), group=1, layout="channels_first"
    )


def conv_transpose(values):
    weight = np.ones((DEPTH, 1, 1), np.float32)
    return ConvTransposeOp.reference(
        values.reshape(1, DEPTH, 1),
        weight,
        None,
        strides=(1,),
        pads=(0, 0),
        dilations=(1,),
        output_padding=(0,),
        group=1,
        layout="channels_first",
    )


def packed_matmul(values):
    return PackedMatmulOp.reference(
        values[None], pack(np.ones((1, 8, DEPTH), np.float32), 8), columns=8, panel=8, batch=1
    )


def packed_conv(values):
    return PackedConvOp.reference(
        values.reshape(1, 1, 1, DEPTH),
        pack(np.ones((1, 8, DEPTH), np.float32), 8),
        columns=8,
        panel=8,
        kernel=(1, 1),
        strides=(1, 1),
        dilations=(1, 1),
        group=1,
    )


def packed_depthwise_conv(values):
    weight = np.ones((DEPTH, 1), np.float32)
    return PackedDepthwiseConvOp.reference(values.reshape(1, DEPTH, 1), weight, strides=(1,), dilations=(1,))


def packed_grouped_conv(values):
    weight = np.ones((1, DEPTH, 1), np.float32)
    return PackedGroupedConvOp.reference(values.reshape(1, 1, DEPTH), weight, group=1, strides=(1,), dilations=(1,))


def attention(values):
    # The keys are equal, so the result is the mean of the values.
    ones, column = np.ones((1, 1, DEPTH, 1), np.float32), values.reshape(1, 1, DEPTH, 1)
    return AttentionOp.reference(
        ones[:, :, :1],
        ones,
        column,
        None,
        scale=1.0,
        masked=-np.inf,
        zero_empty=False,
        before=DEPTH,
        after=DEPTH,
    )


def lstm(values):
    weight, recurrence = np.full((1, 4, DEPTH), 2.0**-17, np.float32), np.zeros((1, 4, 1), np.float32)
    return LstmOp.reference(values.reshape(1, 1, DEPTH), weight, recurrence, None, None, None, direction="forward")[0]


@pytest.mark.parametrize(
    "compute",
    [
        matmul,
        conv,
        conv_by_places,
        conv_transpose,
        packed_matmul,
        packed_conv,
        packed_depthwise_conv,
        packed_grouped_conv,
        attention,
        lstm,
    ],
)
def test_order_of_terms_does_not_matter(compute):
    values = cancelling(DEPTH)
    assert np.sum(values[::-1], dtype=np.float32) != np.add.accumulate(values)[-1]  # in float32 it does
    first = compute(values)
    assert first.dtype == np.float32
    for seed in range(8):
        np.testing.assert_array_equal(compute(np.random.default_rng(seed).permutation(values)), first)
