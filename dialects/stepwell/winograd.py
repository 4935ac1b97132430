"""Winograd's convolutions: fewer multiplications, in exchange for transforms of the inputs and results.

A tile of `tile` x `tile` results comes from inputs and weights at `tile + kernel - 1` points in both directions:

    result = A^T ((G w G^T) * (B^T input B)) A

This holds in exact arithmetic for any distinct points (Toom and Cook); in floating point the points determine the
rounding error. The transformed weights are matrices [points^2][C, columns], so most of the work is matrix products.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from mlir import ir

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec
from .numerics import summed_up
from .packed import unpack
from .shapes import same_dtype

_SMALL, _LARGE = Fraction(5, 8), Fraction(3, 2)

# For each tile size, the finite points (the last point is infinity). The points for tiles of 4 are nearly the best
# among pairs of small binary fractions: on random layers of 64 and more channels the error is twice that of direct
# computation. The textbooks' points 0, 1, -1, 2, -2 give eight times that error.
_POINTS = {2: (0, 1, -1), 4: (0, _SMALL, -_SMALL, _LARGE, -_LARGE)}

KERNEL = 3
"""The kernel extent that the transforms support."""

TILES = tuple(_POINTS)
"""The tile sizes that have transforms."""


@dataclass(frozen=True)
class Transforms:
    """The matrices of one tile size, for kernels of three taps; all but `weight` are exact in float64.

    Attributes:
        input: B^T [points, points].
        weight: G [points, 3].
        output: A^T [tile, points].
    """

    input: np.ndarray
    weight: np.ndarray
    output: np.ndarray


def transforms(tile: int) -> Transforms:
    """The transforms for tiles of `tile` results in each direction.

    Raises:
        KeyError: there are none for this size.
    """
    finite = [Fraction(point) for point in _POINTS[tile]]
    count = len(finite) + 1
    inputs, weights = np.zeros((count, count)), np.zeros((count, KERNEL))
    output = np.zeros((tile, count))
    for row, point in enumerate(finite):
        others = [other for other in finite if other != point]
        inputs[row, :-1] = _polynomial(others)
        scale = math.prod(point - other for other in others)
        weights[row] = [float(point**power / scale) for power in range(KERNEL)]
        output[:, row] = [float(point**power) for power in range(tile)]
    inputs[-1] = _polynomial(finite)
    weights[-1, -1] = output[-1, -1] = 1
    return Transforms(inputs, weights, output)


def _polynomial(roots: list[Fraction]) -> list[float]:
    """The coefficients of the product of all `x - root`, the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(item * root for item in coefficients), Fraction(0)]
        coefficients = [high - low for high, low in zip(shifted, scaled, strict=True)]
    return [float(item) for item in coefficients]


class WinogradConvOp(Op):
    """Convolution of `input` [N, H, W, C] with 3x3 weights and zero padding, computed tile by tile.

    The weight holds G w G^T as [points * points groups, columns / group, C], packed; points = `tile` + 2.

    ```mlir
    %1 = "stepwell.winograd_conv"(%0, %w) {columns = 32 : i64, panel = 32 : i64, tile = 2 : i64,
      pads = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
    ```
    """

    OPERATION_NAME = "stepwell.winograd_conv"
    KERNEL = KernelTraits("winograd", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand("[points * points, C, columns], packed")
    columns = attribute(int, doc="output channels")
    panel = attribute(int)
    tile = attribute(int, doc="number of results computed together in each direction: 2 or 4")
    pads = attribute(tuple, doc="zeros around the image: top, left, bottom, right")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec, weight: TensorSpec, *, columns: int, panel: int, tile: int, pads: tuple[int, ...]
    ) -> TensorSpec:
        """[N, *output, columns]."""
        same_dtype(input, weight)
        if input.rank != 4:
            raise OpError(f"the input must be [N, H, W, C], but is {input}")
        if tile not in TILES:
            raise OpError(f"attribute 'tile' must be one of {', '.join(map(str, TILES))}, but is {tile}")
        if len(pads) != 4 or min(pads) < 0:
            raise OpError(f"attribute 'pads' must be four non-negative numbers, but is {', '.join(map(str, pads))}")
        batch, height, width, channels = input.shape
        elements = (tile + KERNEL - 1) ** 2 * channels * columns
        if weight.rank != 1 or weight.shape[0] != elements:
            raise OpError(f"the packed weight must be a flat tensor of {elements} elements, but is {weight}")
        size = height + (pads[0] + pads[2] - KERNEL + 1), width + (pads[1] + pads[3] - KERNEL + 1)
        return input.with_shape((batch, *size, columns))

    @staticmethod
    @summed_up
    def reference(
        input: np.ndarray, weight: np.ndarray, *, columns: int, panel: int, tile: int, pads: tuple[int, ...]
    ) -> np.ndarray:
        """Performs the three steps on all tiles at once."""
        matrices = transforms(tile)
        points = tile + KERNEL - 1
        batch, height, width, channels = input.shape
        size = height + pads[0] + pads[2] - KERNEL + 1, width + pads[1] + pads[3] - KERNEL + 1
        rows, cols = (-(-extent // tile) for extent in size)
        low, whole = pads[:2], (rows * tile + KERNEL - 1, cols * tile + KERNEL - 1)
        around = [(0, 0), *((low[i], whole[i] - low[i] - input.shape[1 + i]) for i in range(2)), (0, 0)]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(input, around), (points, points), (1, 2))
        tiles = windows[:, ::tile, ::tile]  # n, h, w, c, i, j
        into, out = (matrix.astype(input.dtype) for matrix in (matrices.input, matrices.output))
        inner = np.einsum("xi,yj,nhwcij->xynhwc", into, into, tiles, optimize=True)
        filters = unpack(weight, points * points, columns, panel).reshape(points, points, columns, channels)
        products = np.einsum("xynhwc,xykc->xynhwk", inner, filters, optimize=True)
        results = np.einsum("px,qy,xynhwk->nhpwqk", out, out, products, optimize=True)
        return results.reshape(batch, rows * tile, cols * tile, columns)[:, : size[0], : size[1]]

    def flops(self) -> int:
        """Each tile of the result is multiplied once by every transformed weight."""
        batch, height, width, _ = ir.RankedTensorType(self.result.type).shape
        tiles = batch * -(-height // self.tile) * -(-width // self.tile)
        return 2 * tiles * size_of(self.weight)
