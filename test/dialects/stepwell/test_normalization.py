"""References of the normalisations and of attention against ONNX Runtime and plain formulas."""

import numpy as np
import pytest
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell import normalization
from stepwell.dialects.stepwell.attention import UNBOUNDED, AttentionOp
from stepwell.dialects.types import TensorSpec

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 4, 6), np.float32)
IMAGE = RNG.standard_normal((2, 5, 4, 3), np.float32)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(run_onnx, compute, axis):
    x = X * 50
    np.testing.assert_allclose(
        compute(normalization.SoftmaxOp, x, axis=axis)[0], run_onnx("Softmax", x, axis=axis)[0], rtol=1e-5, atol=1e-7
    )
    np.testing.assert_allclose(
        compute(normalization.LogSoftmaxOp, x, axis=axis)[0],
        run_onnx("LogSoftmax", x, axis=axis)[0],
        rtol=1e-5,
        atol=1e-4,
    )


@pytest.mark.parametrize("axis", [1, -1])
@pytest.mark.parametrize("has_bias", [True, False])
def test_layer_norm(run_onnx, compute, axis, has_bias):
    scale = RNG.standard_normal(X.shape[axis:], np.float32)
    bias = RNG.standard_normal(X.shape[axis:], np.float32) if has_bias else None
    (expected,) = run_onnx("LayerNormalization", X, scale, bias, axis=axis, epsilon=1e-3)
    (result,) = compute(normalization.LayerNormOp, X, scale, bias, axis=axis, epsilon=1e-3)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


def test_layer_norm_without_scale_has_mean_zero(compute):
    (result,) = compute(normalization.LayerNormOp, X, None, None)
    np.testing.assert_allclose(result.mean(-1), 0, atol=1e-6)
    np.testing.assert_allclose(result.std(-1), 1, rtol=1e-4)


def test_rms_norm(compute):
    scale = RNG.standard_normal(6, np.float32)
    (result,) = compute(normalization.RmsNormOp, X, scale, epsilon=1e-6)
    np.testing.assert_allclose(result, X / np.sqrt((X * X).mean(-1, keepdims=True) + 1e-6) * scale, rtol=1e-5)


@pytest.mark.parametrize("layout", ["channels_first", "channels_last"])
def test_batch_norm(run_onnx, compute, layout):
    scale, bias, mean = RNG.standard_normal((3, 5), np.float32)
    variance = RNG.random(5, np.float32) + 0.5
    (expected,) = run_onnx("BatchNormalization", IMAGE, scale, bias, mean, variance, epsilon=1e-4)
    is_last = layout == "channels_last"
    operand = np.moveaxis(IMAGE, 1, -1) if is_last else IMAGE
    (result,) = compute(normalization.BatchNormOp, operand, scale, bias, mean, variance, epsilon=1e-4, layout=layout)
    np.testing.assert_allclose(np.moveaxis(result, -1, 1) if is_last else result, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_local_response_norm(compute, size):
    (result,) = compute(normalization.LocalResponseNormOp, IMAGE, size=size, alpha=0.1, beta=0.7, bias=2.0)
    squares = np.zeros_like(IMAGE)
    for channel in range(5):
        first, last = max(0, channel - (size - 1) // 2), min(4, channel + size // 2)
        squares[:, channel] = (IMAGE[:, first : last + 1] ** 2).sum(1)
    np.testing.assert_allclose(result, IMAGE / (2 + 0.1 / size * squares) ** 0.7, rtol=1e-5)


def test_local_response_norm_is_that_of_onnx(run_onnx, compute):
    (expected,) = run_onnx("LRN", IMAGE, size=3, alpha=0.1, beta=0.7, bias=2.0)
    (result,) = compute(normalization.LocalResponseNormOp, IMAGE, size=3, alpha=0.1, beta=0.7, bias=2.0)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def attention(query, key, value, added):
    scores = np.einsum("bhqd,bhkd->bhqk", query, key) * 0.5 + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhqk,bhkv->bhqv", weights / weights.sum(-1, keepdims=True), value)


@pytest.mark.parametrize("mask_shape", [None, (5, 7), (2, 1, 1, 7)])
def test_attention(compute, mask_shape):
    query, key = RNG.standard_normal((2, 4, 5, 8), np.float32), RNG.standard_normal((2, 4, 7, 8), np.float32)
    value = RNG.standard_normal((2, 4, 7, 3), np.float32)
    mask = None if mask_shape is None else RNG.standard_normal(mask_shape, np.float32)
    (result,) = compute(AttentionOp, query, key, value, mask, scale=0.5)
    np.testing.assert_allclose(result, attention(query, key, value, 0 if mask is None else mask), rtol=1e-4, atol=1e-5)


def test_attention_with_a_bool_mask_and_shared_heads(compute):
    query, key = RNG.standard_normal((1, 4, 3, 8), np.float32), RNG.standard_normal((1, 2, 3, 8), np.float32)
    mask = np.tril(np.ones((3, 3), np.bool_))
    (result,) = compute(AttentionOp, query, key, key, mask, scale=0.5)
    shared = np.repeat(key, 2, axis=1)
    np.testing.assert_allclose(
        result, attention(query, shared, shared, np.where(mask, 0, -np.inf)), rtol=1e-4, atol=1e-5
    )


F32 = np.dtype(np.float32)


def test_wrong_operands_are_refused():
    x = TensorSpec((2, 4, 6), F32)
    with pytest.raises(OpError, match="axis 3 is out of range for rank 3"):
        normalization.SoftmaxOp.infer(x, axis=3)
    with pytest.raises(OpError, match="operand 'scale' must broadcast to the normalised dimensions of 2x4x6xf32"):
        normalization.LayerNormOp.infer(x, TensorSpec((4,), F32), None, axis=-1, epsilon=1e-5)
    channels = [TensorSpec((5,), F32)] * 3
    with pytest.raises(OpError, match="operand 'variance' must have shape 5, but is 4xf32"):
        normalization.BatchNormOp.infer(
            TensorSpec((1, 5, 2, 2), F32), *channels, TensorSpec((4,), F32), epsilon=1e-5, layout="channels_first"
        )
    query, key = TensorSpec((1, 4, 3, 8), F32), TensorSpec((1, 3, 3, 8), F32)
    with pytest.raises(OpError, match="4 query heads cannot share 3 key heads evenly"):
        AttentionOp.infer(
            query,
            key,
            key,
            None,
            scale=1.0,
            masked=-np.inf,
            zero_empty=False,
            before=UNBOUNDED,
            after=UNBOUNDED,
        )
