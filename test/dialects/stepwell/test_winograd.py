"""Winograd's transforms, and the reference of the op that works with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.contraction import ConvOp
from stepwell.dialects.stepwell.panels import pack
from stepwell.dialects.stepwell.winograd import TILES, WinogradConvOp, extents_of, tiles_of, transforms
from stepwell.dialects.types import TensorSpec

RNG = np.random.default_rng(0)
BY_TAPS = [(tile, taps) for taps, tiles in TILES.items() for tile in tiles]
KERNELS = [(3, 3), (3, 1), (1, 3), (5, 5), (5, 1), (3, 5)]


@pytest.mark.parametrize(("tile", "taps"), BY_TAPS)
def test_transforms_are_a_convolution(tile: int, taps: int) -> None:
    matrices = transforms(tile, taps)
    inputs, weights = RNG.standard_normal(tile + taps - 1), RNG.standard_normal(taps)
    result = matrices.output @ ((matrices.weight @ weights) * (matrices.input @ inputs))
    np.testing.assert_allclose(result, np.correlate(inputs, weights, "valid"), atol=1e-14)


@pytest.mark.parametrize(("tile", "taps"), BY_TAPS)
def test_transforms_of_activations_are_exact_in_float32(tile: int, taps: int) -> None:
    matrices = transforms(tile, taps)
    for matrix in (matrices.input, matrices.output):
        np.testing.assert_array_equal(matrix.astype(np.float32), matrix)


@pytest.mark.parametrize("kernel", KERNELS)
def test_large_tiles_round_little(kernel: tuple[int, int]) -> None:
    # The points are chosen for a small error; 0, 1, -1, 2, -2 give more than 4e-6.
    x, w = np.maximum(RNG.standard_normal((1, 8, 8, 128)), 0), RNG.standard_normal((16, 128, *kernel))
    x, w = x.astype(np.float32), w.astype(np.float32)
    tile = max(tiles_of(kernel))
    attributes = {"columns": 16, "panel": 16, "kernel": kernel, "tile": tile, "pads": (1, 1, 1, 1)}
    result = WinogradConvOp.reference(x, packed(w, tile, 16), **attributes)
    exact = direct(x.astype(np.float64), w.astype(np.float64), (1, 1, 1, 1))
    assert np.abs(result - exact).max() < 2.5e-6 * np.abs(exact).max()


@given(
    shape=st.sampled_from([(tile, kernel) for kernel in KERNELS for tile in tiles_of(kernel)]),
    batch=st.integers(1, 2),
    size=st.tuples(st.integers(5, 12), st.integers(5, 12)),
    channels=st.integers(1, 9),
    columns=st.integers(1, 40),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
)
def test_reference(shape: tuple, batch: int, size: tuple, channels: int, columns: int, pads: tuple) -> None:
    tile, kernel = shape
    x = RNG.standard_normal((batch, *size, channels))
    w = RNG.standard_normal((columns, channels, *kernel))
    attributes = {"columns": columns, "panel": 16, "kernel": kernel, "tile": tile, "pads": pads}
    result = WinogradConvOp.reference(x, packed(w, tile, 16), **attributes)
    np.testing.assert_allclose(result, direct(x, w, pads), atol=1e-11)
    points = np.prod([tile + taps - 1 for taps in kernel if taps > 1])
    weight = TensorSpec((int(points) * channels * columns,), np.dtype(np.float64))
    inferred = WinogradConvOp.infer(TensorSpec(x.shape, x.dtype), weight, **attributes)
    assert inferred.shape == result.shape


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tile": 3}, "attribute 'tile' must be one of 2, 4, but is 3"),
        ({"kernel": (5, 1), "tile": 4}, "attribute 'tile' must be one of 2, but is 4"),
        ({"kernel": (1, 1)}, "attribute 'kernel' must be two of 1, 3 and 5, not both 1, but is 1, 1"),
        ({"kernel": (4, 3)}, "attribute 'kernel' must be two of 1, 3 and 5, not both 1, but is 4, 3"),
        ({"pads": (1, 1)}, "attribute 'pads' must be four non-negative numbers"),
        ({"pads": (1, 1, -1, 1)}, "attribute 'pads' must be four non-negative numbers"),
        ({"columns": 7}, "the packed weight must be a flat tensor of 448 elements"),
    ],
)
def test_infer_refuses(changed: dict, message: str) -> None:
    attributes = {"columns": 8, "panel": 8, "kernel": (3, 3), "tile": 2, "pads": (1, 1, 1, 1)} | changed
    f32 = np.dtype(np.float32)
    with pytest.raises(OpError, match=message):
        WinogradConvOp.infer(TensorSpec((1, 6, 6, 4), f32), TensorSpec((512,), f32), **attributes)


def packed(weight: np.ndarray, tile: int, panel: int) -> np.ndarray:
    """Returns G w G^T in the op's layout."""
    kernel = weight.shape[2:]
    down, across = (transforms(*each).weight for each in zip(extents_of(tile, kernel), kernel, strict=True))
    moved = np.einsum("xi,yj,kcij->xykc", down, across, weight.astype(np.float64)).astype(weight.dtype)
    return pack(moved.reshape(-1, *moved.shape[2:]), panel)


def direct(x: np.ndarray, w: np.ndarray, pads: tuple[int, ...]) -> np.ndarray:
    """The convolution by its definition."""
    places = {"strides": (1, 1), "dilations": (1, 1), "group": 1, "layout": "channels_last"}
    return ConvOp.reference(x, w, None, pads=pads, **places)
