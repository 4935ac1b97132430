"""Interpolation at positions that an operand holds (ONNX GridSample, DeformConv)."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ...core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ...types import TensorSpec, is_float
from ..numerics import widen
from ..resampling import cubic_weights
from ..shapes import common_dim, may_equal

MODES = ("nearest", "linear", "cubic")
PADDINGS = ("zeros", "border", "reflection")
CUBIC_COEFFICIENT = -0.75
"""The coefficient of cubic interpolation, as in PyTorch's grid_sample and ONNX's reference implementation."""


class SampleOp(Op):
    """Images (batch, channels, spatial...) sampled at fractional positions, the same ones for all channels.

    Position 0 is the first element of a dimension, 1 the second one.

    Attributes:
        mode: "nearest" takes one element (the even one of two equally near), "linear" combines two and "cubic" four
            per dimension.
        padding: values outside the image: "zeros", the element at the "border", or a mirror image of the inside.
        about_edges: whether the mirror image is about the centres of the outermost elements; else it is about their
            outer sides, which repeats them.

    ```mlir
    %2 = "stepwell.sample"(%0, %1) {mode = "linear", padding = "zeros"}
        : (tensor<1x8x20x20xf32>, tensor<1x2x5x7xf32>) -> tensor<1x8x5x7xf32>
    ```
    """

    OPERATION_NAME = "stepwell.sample"
    KERNEL = KernelTraits("movement")
    ROUNDING = Rounding.SUM
    input = operand("batch, channels and the spatial dimensions")
    positions = operand("f32 or f64: batch, one coordinate per spatial dimension in order, and any further dimensions")
    mode = attribute(str, default="linear", choices=MODES)
    padding = attribute(str, default="zeros", choices=PADDINGS)
    about_edges = attribute(bool, default=False)
    result = result("batch, channels, and the last dimensions of the positions")

    @staticmethod
    def infer(input: TensorSpec, positions: TensorSpec, *, mode: str, padding: str, about_edges: bool) -> TensorSpec:
        """One element for each position and channel."""
        if positions.dtype not in (np.float32, np.float64):
            raise OpError(f"operand 'positions' must be f32 or f64, but is {positions}")
        if mode != "nearest" and not is_float(input.dtype):
            raise OpError(f"mode {mode} takes floating point, but operand 'input' is {input}")
        spatial = input.rank - 2
        if not 1 <= spatial <= 3:
            raise OpError(f"takes 1 to 3 spatial dimensions, but operand 'input' is {input}")
        if 0 in input.shape[2:]:
            raise OpError(f"operand 'input' is {input}, which has no elements to take")
        if positions.rank < 2 or positions.shape[1] != spatial or not may_equal(positions.shape[0], input.shape[0]):
            raise OpError(f"operand 'positions' must have the batch and {spatial} coordinates, but is {positions}")
        return input.with_shape((common_dim(input.shape[0], positions.shape[0]), input.shape[1], *positions.shape[2:]))

    @staticmethod
    def reference(
        input: np.ndarray, positions: np.ndarray, *, mode: str, padding: str, about_edges: bool
    ) -> np.ndarray:
        """Sums the products of elements and weights, one tap of all positions at a time."""
        rank, wide = input.ndim - 2, widen(input)
        assert wide is not None
        batch = np.arange(len(input)).reshape(-1, *[1] * (positions.ndim - 2))
        images = np.moveaxis(wide, 1, -1)
        along = [taps(positions[:, axis], mode) for axis in range(rank)]
        total = np.zeros((len(input), *positions.shape[2:], input.shape[1]), wide.dtype)
        for choice in itertools.product(*along):
            found = [place(at, input.shape[axis + 2], padding, about_edges) for axis, (at, _) in enumerate(choice)]
            taken = images[(batch, *(index for index, _ in found))]
            inside = np.logical_and.reduce([is_inside for _, is_inside in found])
            taken = np.where(inside[..., None], taken, wide.dtype.type(0))
            if mode == "nearest":
                total = taken
                break
            weight = math.prod((weight for _, weight in choice), start=positions.dtype.type(1))
            total += taken * np.asarray(weight)[..., None].astype(wide.dtype)
        return np.ascontiguousarray(np.moveaxis(total, -1, 1)).astype(input.dtype)


def taps(position: np.ndarray, mode: str) -> list[tuple[np.ndarray, np.ndarray]]:
    """The elements (whole numbers, maybe outside) around positions along one dimension, and their weights."""
    if mode == "nearest":
        return [(np.rint(position), np.ones_like(position))]
    low = np.floor(position)
    ratio = position - low
    if mode == "linear":
        return [(low, 1 - ratio), (low + 1, ratio)]
    weights = cubic_weights(ratio, CUBIC_COEFFICIENT)
    return [(low + offset, weight) for offset, weight in zip(range(-1, 3), weights, strict=True)]


def place(at: np.ndarray, extent: int, padding: str, about_edges: bool) -> tuple[np.ndarray, np.ndarray]:
    """The indices of elements of a dimension, and whether they count; NaN positions get the first element."""
    last = at.dtype.type(extent - 1)
    if padding == "reflection":
        at = reflected(at, extent, about_edges)
    index = np.fmin(np.fmax(at, 0), last)
    inside = (index == at) if padding == "zeros" else np.ones(at.shape, np.bool_)
    return index.astype(np.int64), inside


def reflected(at: np.ndarray, extent: int, about_edges: bool) -> np.ndarray:
    """Whole numbers folded back into a dimension."""
    if about_edges and extent == 1:
        return np.zeros_like(at)
    period = at.dtype.type(2 * (extent - 1) if about_edges else 2 * extent)
    shift = at.dtype.type(0 if about_edges else 0.5)
    moved = at + shift
    folded = np.abs(moved - period * np.rint(moved / period))
    return folded - shift
