"""Winograd's convolutions: fewer multiplications, in exchange for transforms of the inputs and results.

A tile of `tile` x `tile` results comes from inputs and weights at `tile + kernel - 1` points in both directions:

    result = A^T ((G w G^T) * (B^T input B)) A

Along a direction in which the kernel has one tap, tiles have one result, and the matrices are 1.
This holds in exact arithmetic for any distinct points (Toom and Cook); in floating point the points determine the
rounding error. The transformed weights are matrices [points][C, columns], so most of the work is matrix products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from mlir import ir

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..specs import size_of
from ..types import TensorSpec
from .numerics import summed_up
from .panels import unpack
from .shapes import same_dtype

_SMALL, _LARGE = Fraction(5, 8), Fraction(3, 2)

# For each number of points, the finite ones (the last point is infinity). The six points are nearly the best among
# pairs of small binary fractions: on random layers of 64 and more channels the error is twice that of direct
# computation. The textbooks' points 0, 1, -1, 2, -2 give eight times that error.
_POINTS = {1: (), 4: (0, 1, -1), 6: (0, _SMALL, -_SMALL, _LARGE, -_LARGE)}

TILES = {1: (1,), 3: (2, 4), 5: (2,)}
"""The tile sizes that have transforms, by the taps of a kernel in a direction."""


@dataclass(frozen=True)
class Transforms:
    """The matrices of one tile size and number of taps; all but `weight` are exact in float64.

    Attributes:
        input: B^T [points, points].
        weight: G [points, taps].
        output: A^T [tile, points].
    """

    input: np.ndarray
    weight: np.ndarray
    output: np.ndarray


def transforms(tile: int, taps: int) -> Transforms:
    """The transforms for tiles of `tile` results of a kernel of some taps, in one direction.

    Raises:
        KeyError: there are none for this size.
    """
    finite = [Fraction(point) for point in _POINTS[tile + taps - 1]]
    count = len(finite) + 1
    inputs, weights = np.zeros((count, count)), np.zeros((count, taps))
    output = np.zeros((tile, count))
    for row, point in enumerate(finite):
        others = [other for other in finite if other != point]
        inputs[row, :-1] = _polynomial(others)
        scale = math.prod(point - other for other in others)
        weights[row] = [float(point**power / scale) for power in range(taps)]
        output[:, row] = [float(point**power) for power in range(tile)]
    inputs[-1] = _polynomial(finite)
    weights[-1, -1] = output[-1, -1] = 1
    return Transforms(inputs, weights, output)


def extents_of(tile: int, kernel: Sequence[int]) -> tuple[int, ...]:
    """The results of a tile along each direction, which is one where the kernel has one tap."""
    return tuple(tile if taps > 1 else 1 for taps in kernel)


def _polynomial(roots: list[Fraction]) -> list[float]:
    """The coefficients of the product of all `x - root`, the constant first."""
    coefficients = [Fraction(1)]
    for root in roots:
        shifted, scaled = [Fraction(0), *coefficients], [*(item * root for item in coefficients), Fraction(0)]
        coefficients = [high - low for high, low in zip(shifted, scaled, strict=True)]
    return [float(item) for item in coefficients]


class WinogradConvOp(Op):
    """Convolution of `input` [N, H, W, C] with weights of 1, 3 or 5 taps and zero padding, computed tile by tile.

    The weight holds G w G^T as [points groups, columns / group, C], packed, where points is the product of `tile +
    taps - 1` over the directions with more than one tap.

    ```mlir
    %1 = "stepwell.winograd_conv"(%0, %w) {columns = 32 : i64, panel = 32 : i64, kernel = array<i64: 3, 3>,
      tile = 2 : i64, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x8x8x4xf32>, tensor<2048xf32>) -> tensor<1x8x8x32xf32>
    ```
    """

    OPERATION_NAME = "stepwell.winograd_conv"
    KERNEL = KernelTraits("winograd", works_on_views=True)
    ROUNDING = Rounding.SUM
    input = operand()
    weight = operand("[points, C, columns], packed")
    columns = attribute(int, doc="output channels")
    panel = attribute(int)
    kernel = attribute(tuple, default=(3, 3), doc="taps along the rows and columns")
    tile = attribute(int, doc="number of results computed together in each direction with several taps: 2 or 4")
    pads = attribute(tuple, doc="zeros around the image: top, left, bottom, right")
    result = result()

    @staticmethod
    def infer(
        input: TensorSpec,
        weight: TensorSpec,
        *,
        columns: int,
        panel: int,
        kernel: tuple[int, ...],
        tile: int,
        pads: tuple[int, ...],
    ) -> TensorSpec:
        """[N, *output, columns]."""
        same_dtype(input, weight)
        if input.rank != 4:
            raise OpError(f"the input must be [N, H, W, C], but is {input}")
        if len(kernel) != 2 or max(kernel) == 1 or any(taps not in TILES for taps in kernel):
            found = ", ".join(map(str, kernel))
            raise OpError(f"attribute 'kernel' must be two of 1, 3 and 5, not both 1, but is {found}")
        tiles = tiles_of(kernel)
        if tile not in tiles:
            raise OpError(f"attribute 'tile' must be one of {', '.join(map(str, tiles))}, but is {tile}")
        if len(pads) != 4 or min(pads) < 0:
            raise OpError(f"attribute 'pads' must be four non-negative numbers, but is {', '.join(map(str, pads))}")
        batch, height, width, channels = input.shape
        elements = math.prod(_points(tile, kernel)) * channels * columns
        if weight.rank != 1 or weight.shape[0] != elements:
            raise OpError(f"the packed weight must be a flat tensor of {elements} elements, but is {weight}")
        size = height + (pads[0] + pads[2] - kernel[0] + 1), width + (pads[1] + pads[3] - kernel[1] + 1)
        return input.with_shape((batch, *size, columns))

    @staticmethod
    @summed_up
    def reference(
        input: np.ndarray,
        weight: np.ndarray,
        *,
        columns: int,
        panel: int,
        kernel: tuple[int, ...],
        tile: int,
        pads: tuple[int, ...],
    ) -> np.ndarray:
        """Performs the three steps on all tiles at once."""
        points, extents = _points(tile, kernel), extents_of(tile, kernel)
        matrices = [transforms(*each) for each in zip(extents, kernel, strict=True)]
        batch, height, width, channels = input.shape
        size = height + pads[0] + pads[2] - kernel[0] + 1, width + pads[1] + pads[3] - kernel[1] + 1
        rows, cols = (-(-size // step) for size, step in zip(size, extents, strict=True))
        low, whole = pads[:2], (rows * extents[0] + kernel[0] - 1, cols * extents[1] + kernel[1] - 1)
        around = [(0, 0), *((low[i], whole[i] - low[i] - input.shape[1 + i]) for i in range(2)), (0, 0)]
        windows = np.lib.stride_tricks.sliding_window_view(np.pad(input, around), points, (1, 2))
        tiles = windows[:, :: extents[0], :: extents[1]]  # n, h, w, c, i, j
        into, out = ([getattr(item, name).astype(input.dtype) for item in matrices] for name in ("input", "output"))
        inner = np.einsum("xi,yj,nhwcij->xynhwc", *into, tiles, optimize=True)
        filters = unpack(weight, math.prod(points), columns, panel).reshape(*points, columns, channels)
        products = np.einsum("xynhwc,xykc->xynhwk", inner, filters, optimize=True)
        results = np.einsum("px,qy,xynhwk->nhpwqk", *out, products, optimize=True)
        return results.reshape(batch, rows * extents[0], cols * extents[1], columns)[:, : size[0], : size[1]]

    @property
    def extents(self) -> tuple[int, int]:
        """Rows and columns of the results of a tile."""
        tall, wide = extents_of(self.tile, self.kernel)
        return tall, wide

    @property
    def points(self) -> tuple[int, int]:
        """Numbers of points along rows and columns."""
        down, across = _points(self.tile, self.kernel)
        return down, across

    @property
    def transforms(self) -> list[Transforms]:
        """The matrices along rows and columns."""
        return [transforms(tile, taps) for tile, taps in zip(self.extents, self.kernel, strict=True)]

    def flops(self) -> int:
        """Each tile of the result is multiplied once by every transformed weight."""
        batch, *sizes, _ = ir.RankedTensorType(self.result.type).shape
        tiles = math.prod(-(-size // tile) for size, tile in zip(sizes, self.extents, strict=True))
        return 2 * batch * tiles * size_of(self.weight)


def tiles_of(kernel: Sequence[int]) -> list[int]:
    """The tile sizes that have transforms along all directions in which a kernel has several taps."""
    several = [set(TILES.get(taps, ())) for taps in kernel if taps > 1]
    return sorted(set.intersection(*several)) if several else []


def _points(tile: int, kernel: Sequence[int]) -> tuple[int, ...]:
    return tuple(each + taps - 1 for each, taps in zip(extents_of(tile, kernel), kernel, strict=True))
