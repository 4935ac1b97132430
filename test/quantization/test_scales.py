"""Scales and rounding: zero is exact, ranges follow their method, GPTQ and AWQ lower the error of products."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.quantization.blocks import awq_factors, by_gptq, by_least_error, product_error, to_nearest
from stepwell.quantization.scales import (
    BINS,
    ChannelWeights,
    Histogram,
    activation_scale,
    fake_quantize,
)


def histogram_of(values: np.ndarray) -> Histogram:
    low, high = float(values.min()), float(values.max())
    return Histogram(low, high, np.histogram(values, BINS, (low, high))[0])


@given(st.floats(-1e6, 1e6, width=32), st.floats(-1e6, 1e6, width=32), st.sampled_from(["minmax", "entropy", "mse"]))
def test_zero_is_represented_exactly(one: float, other: float, method: str) -> None:
    scale = activation_scale(histogram_of(np.array([one, other])), method, 0.9999)
    assert 0 <= scale.zero_point <= 255 and scale.scale > 0
    assert fake_quantize(np.zeros(1), scale.scale, scale.zero_point)[0] == 0.0


def test_the_whole_range_is_kept_by_minmax() -> None:
    values = np.random.default_rng(0).standard_normal(10_000)
    scale = activation_scale(histogram_of(values), "minmax", 0.9999)
    assert np.abs(fake_quantize(values, scale.scale, scale.zero_point) - values).max() <= scale.scale
    assert scale.clipped == 0.0


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_one_outlier_does_not_take_the_range(method: str) -> None:
    random = np.random.default_rng(0)
    values = np.append(np.abs(random.standard_normal(100_000)), 60.0)
    by_range = activation_scale(histogram_of(values), "minmax", 0.9999)
    scale = activation_scale(histogram_of(values), method, 0.9999)
    assert scale.scale < 0.5 * by_range.scale
    assert 0.0 < scale.clipped < 0.01


def test_mse_has_the_least_square_error() -> None:
    values = np.append(np.random.default_rng(0).standard_normal(1_000_000), 12.0)
    errors = {}
    for method in ("minmax", "mse"):
        scale = activation_scale(histogram_of(values), method, 0.9999)
        errors[method] = ((fake_quantize(values, scale.scale, scale.zero_point) - values) ** 2).mean()
    assert errors["mse"] < 0.9 * errors["minmax"]


def test_channels_have_their_own_scale() -> None:
    matrix = np.array([[1.0, 100.0], [-2.0, 50.0], [0.5, 0.0]], np.float32)
    found = ChannelWeights.of(matrix)
    assert np.abs(found.codes).max(axis=0).tolist() == [127, 127]
    np.testing.assert_allclose(found.values, matrix, atol=found.scales.max() / 2)


@pytest.mark.parametrize("is_symmetric", [False, True])
@pytest.mark.parametrize(("bits", "rows"), [(4, 64), (8, 64), (4, 70)])
def test_weights_in_blocks_are_near(bits: int, rows: int, is_symmetric: bool) -> None:
    matrix = np.random.default_rng(0).standard_normal((rows, 5)).astype(np.float32)
    found = to_nearest(matrix, bits, 32, is_symmetric)
    assert found.values.shape == matrix.shape
    assert found.codes.max() < 1 << bits
    step = np.repeat(np.abs(found.scales), 32, axis=0)[:rows]
    assert (np.abs(found.values - matrix) <= step * (1.001 if is_symmetric else 0.501)).all()


@pytest.mark.parametrize("is_symmetric", [False, True])
def test_a_clipped_range_has_less_error(is_symmetric: bool) -> None:
    matrix = np.random.default_rng(0).standard_normal((70, 50)).astype(np.float32)
    nearest = to_nearest(matrix, 4, 32, is_symmetric).values
    clipped = by_least_error(matrix, 4, 32, is_symmetric)
    assert clipped.codes.max() < 16 and clipped.zero_points.max() < 16
    assert ((clipped.values - matrix) ** 2).sum() < 0.97 * ((nearest - matrix) ** 2).sum()
    assert not by_least_error(np.zeros((32, 2), np.float32), 4, 32, is_symmetric).values.any()


def test_a_block_of_zeros_stays_zero() -> None:
    assert not to_nearest(np.zeros((32, 2), np.float32), 4, 32, False).values.any()


def test_gptq_lowers_the_error_of_the_product() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((256, 8)) @ random.standard_normal((8, 64)) + 0.1 * random.standard_normal((256, 64))
    matrix = random.standard_normal((64, 16)).astype(np.float32)
    gram = x.T @ x
    nearest = to_nearest(matrix, 4, 32, False).values
    rounded = by_gptq(matrix, gram, 4, 32, False).values
    assert product_error(rounded - matrix, gram) < 0.5 * product_error(nearest - matrix, gram)


def test_gptq_takes_channels_that_are_always_zero() -> None:
    x = np.random.default_rng(0).standard_normal((64, 32))
    x[:, 3] = 0.0
    matrix = np.random.default_rng(1).standard_normal((32, 4)).astype(np.float32)
    assert np.isfinite(by_gptq(matrix, x.T @ x, 4, 32, False).values).all()


def test_awq_scales_channels_with_large_activations() -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((256, 64))
    x[:, 5] *= 40.0
    matrix = random.standard_normal((64, 16)).astype(np.float32)
    gram, means = x.T @ x, np.abs(x).mean(axis=0)
    factors = awq_factors(matrix, gram, means, 4, 32)
    assert factors.argmax() == 5
    rounded = to_nearest(matrix * factors[:, None], 4, 32, False).values / factors[:, None]
    nearest = to_nearest(matrix, 4, 32, False).values
    assert product_error(rounded - matrix, gram) < 0.5 * product_error(nearest - matrix, gram)
