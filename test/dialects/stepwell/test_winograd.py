"""Winograd's transforms, and the reference of the op that works with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.dialects.stepwell.packed import pack
from stepwell.dialects.stepwell.winograd import TILES, WinogradConvOp, transforms
from stepwell.dialects.types import TensorSpec

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("tile", TILES)
def test_transforms_are_a_convolution(tile: int) -> None:
    matrices = transforms(tile)
    inputs, weights = RNG.standard_normal(tile + 2), RNG.standard_normal(3)
    result = matrices.output @ ((matrices.weight @ weights) * (matrices.input @ inputs))
    np.testing.assert_allclose(result, np.correlate(inputs, weights, "valid"), atol=1e-14)


@pytest.mark.parametrize("tile", TILES)
def test_transforms_of_activations_are_exact_in_float32(tile: int) -> None:
    matrices = transforms(tile)
    for matrix in (matrices.input, matrices.output):
        np.testing.assert_array_equal(matrix.astype(np.float32), matrix)


def test_large_tiles_round_little() -> None:
    # The points are chosen for a small error; 0, 1, -1, 2, -2 give more than 4e-6.
    x, w = np.maximum(RNG.standard_normal((1, 8, 8, 128)), 0), RNG.standard_normal((16, 128, 3, 3))
    x, w = x.astype(np.float32), w.astype(np.float32)
    attributes = {"columns": 16, "panel": 16, "tile": 4, "pads": (1, 1, 1, 1)}
    result = WinogradConvOp.reference(x, packed(w, 4, 16), **attributes)
    exact = direct(x.astype(np.float64), w.astype(np.float64), (1, 1, 1, 1))
    assert np.abs(result - exact).max() < 2.5e-6 * np.abs(exact).max()


@given(
    tile=st.sampled_from(TILES),
    batch=st.integers(1, 2),
    size=st.tuples(st.integers(3, 12), st.integers(3, 12)),
    channels=st.integers(1, 9),
    columns=st.integers(1, 40),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_reference(tile: int, batch: int, size: tuple, channels: int, columns: int, pads: tuple) -> None:
    x = RNG.standard_normal((batch, *size, channels))
    w = RNG.standard_normal((columns, channels, 3, 3))
    attributes = {"columns": columns, "panel": 16, "tile": tile, "pads": pads}
    result = WinogradConvOp.reference(x, packed(w, tile, 16), **attributes)
    np.testing.assert_allclose(result, direct(x, w, pads), atol=1e-11)
    weight = TensorSpec(((tile + 2) ** 2 * channels * columns,), np.dtype(np.float64))
    inferred = WinogradConvOp.infer(TensorSpec(x.shape, x.dtype), weight, **attributes)
    assert inferred.shape == result.shape


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tile": 3}, "attribute 'tile' must be one of 2, 4, but is 3"),
        ({"pads": (1, 1)}, "attribute 'pads' must be four non-negative numbers"),
        ({"pads": (1, 1, -1, 1)}, "attribute 'pads' must be four non-negative numbers"),
        ({"columns": 7}, "the packed weight must be a flat tensor of 448 elements"),
    ],
)
def test_infer_refuses(changed: dict, message: str) -> None:
    attributes = {"columns": 8, "panel": 8, "tile": 2, "pads": (1, 1, 1, 1)} | changed
    f32 = np.dtype(np.float32)
    with pytest.raises(OpError, match=message):
        WinogradConvOp.infer(TensorSpec((1, 6, 6, 4), f32), TensorSpec((512,), f32), **attributes)


def packed(weight: np.ndarray, tile: int, panel: int) -> np.ndarray:
    """Returns G w G^T in the op's layout."""
    matrix = transforms(tile).weight
    moved = np.einsum("xi,yj,kcij->xykc", matrix, matrix, weight.astype(np.float64)).astype(weight.dtype)
    return pack(moved.reshape(-1, *moved.shape[2:]), panel)


def direct(x: np.ndarray, w: np.ndarray, pads: tuple[int, ...]) -> np.ndarray:
    """The convolution by its definition."""
    places = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "layout": "channels_last"}
    return ConvOp.reference(x, w, None, pads=pads, **places)
