"""Pooling over regions of interest, which an operand gives (ONNX RoiAlign, MaxRoiPool)."""

from __future__ import annotations

import math

import numpy as np

from ..core import KernelTraits, Op, OpError, Rounding, attribute, operand, result
from ..types import TensorSpec, is_float, is_integer
from .numerics import widen
from .shapes import common_dim, may_equal, require_float, require_rank, same_dtype


class RoiAlignOp(Op):
    """The mean or maximum of samples in each of `sizes` bins of image regions (ONNX RoiAlign).

    Samples are evenly spaced in a bin, each a weighted sum of the four elements around it. A sample more than one
    element outside the image is 0.

    Attributes:
        sizes: the bins of a region, height and width.
        mode: "mean" of the samples, or "max" of their weighted elements before these are summed.
        scale: factor from region coordinates to elements.
        samples: number of samples per bin and dimension; 0 means the bin's extent in elements, rounded up.
        shift: amount subtracted from scaled regions; if it is 0, regions are at least one element in extent.

    ```mlir
    %3 = "stepwell.roi_align"(%0, %1, %2) {sizes = array<i64: 7, 7>, scale = 0.25 : f64, samples = 2 : i64}
        : (tensor<2x8x20x20xf32>, tensor<5x4xf32>, tensor<5xi64>) -> tensor<5x8x7x7xf32>
    ```
    """

    OPERATION_NAME = "stepwell.roi_align"
    KERNEL = KernelTraits("movement")
    ROUNDING = Rounding.SUM
    input = operand("images (batch, channels, height, width)")
    boxes = operand("left, top, right and bottom of each region")
    images = operand("integers: the index of each region's image")
    sizes = attribute(tuple)
    mode = attribute(str, default="mean", choices=("mean", "max"))
    scale = attribute(float, default=1.0)
    samples = attribute(int, default=0)
    shift = attribute(float, default=0.0)
    result = result("(region, channels, height, width)")

    @staticmethod
    def infer(
        input: TensorSpec, boxes: TensorSpec, images: TensorSpec, *, sizes: tuple[int, ...], **_attributes: object
    ) -> TensorSpec:
        """The channels of `sizes` bins for each region."""
        require_float(input=input)
        require_rank(1, images=images)
        if not is_integer(images.dtype):
            raise OpError(f"operand 'images' must be integers, but is {images}")
        return pooled_shape(input, boxes, 4, sizes).with_shape(
            (common_dim(boxes.shape[0], images.shape[0]), input.shape[1], *sizes)
        )

    @staticmethod
    def reference(
        input: np.ndarray,
        boxes: np.ndarray,
        images: np.ndarray,
        *,
        sizes: tuple[int, ...],
        mode: str,
        scale: float,
        samples: int,
        shift: float,
    ) -> np.ndarray:
        """Computes bin by bin, in float32 (or the type of the regions, if that is wider)."""
        wide, kind = widen(input), np.promote_types(boxes.dtype, np.float32).type
        assert wide is not None
        out = np.zeros((len(boxes), input.shape[1], *sizes), wide.dtype)
        for number, region in enumerate(boxes.astype(kind)):
            image = wide[np.clip(images[number], 0, len(input) - 1)]
            x0, y0, x1, y1 = region * kind(scale) - kind(shift)
            starts, extents = (y0, x0), [y1 - y0, x1 - x0]
            if shift == 0:
                extents = [max(extent, kind(1)) for extent in extents]
            steps = [extent / kind(count) for extent, count in zip(extents, sizes, strict=True)]
            counts = [samples or int(max(np.ceil(step), 0)) for step in steps]
            for place in np.ndindex(*sizes):
                taken = [
                    _sample(
                        image,
                        *(
                            starts[axis] + _offset(steps[axis], place[axis], at[axis], counts[axis], kind)
                            for axis in (0, 1)
                        ),
                    )
                    for at in np.ndindex(*counts)
                ]
                out[(number, slice(None), *place)] = _pooled(taken, mode, input.shape[1])
        return out.astype(input.dtype)


def _offset(step: np.floating, place: int, at: int, count: int, kind: type) -> np.floating:
    return kind(place) * step + (kind(at) + kind(0.5)) * step / kind(count)


def _pooled(taken: list[np.ndarray], mode: str, channels: int) -> np.ndarray:
    if not taken:
        return np.zeros(channels)
    return np.mean([sum(terms) for terms in taken], 0) if mode == "mean" else np.max(taken, (0, 1))


def _sample(image: np.ndarray, y: np.floating, x: np.floating) -> np.ndarray:
    """The four weighted elements [4, channel] around a position."""
    _, height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros((4, len(image)), image.dtype)
    (top, bottom, low), (left, right, start) = (_around(at, extent) for at, extent in ((y, height), (x, width)))
    weights = [((1 - low), top), (low, bottom)], [((1 - start), left), (start, right)]
    return np.array([image[:, row, column] * (a * b) for a, row in weights[0] for b, column in weights[1]])


def _around(at: np.floating, extent: int) -> tuple[int, int, np.floating]:
    """The elements before and after a position inside a dimension, and the weight of the second one."""
    at = max(at, type(at)(0))
    low = min(math.floor(at), extent - 1)
    high = min(low + 1, extent - 1)
    return low, high, at - low if high > low else type(at)(0)


class RoiMaxPoolOp(Op):
    """The greatest element in each of `sizes` bins of image regions; 0 if a bin is empty (ONNX MaxRoiPool).

    Attributes:
        sizes: the bins of a region, height and width.
        scale: factor from region coordinates to elements; the product is rounded to whole elements.

    ```mlir
    %2 = "stepwell.roi_max_pool"(%0, %1) {sizes = array<i64: 7, 7>, scale = 0.25 : f64}
        : (tensor<2x8x20x20xf32>, tensor<5x5xf32>) -> tensor<5x8x7x7xf32>
    ```
    """

    OPERATION_NAME = "stepwell.roi_max_pool"
    KERNEL = KernelTraits("movement")
    input = operand("images (batch, channels, height, width)")
    boxes = operand("image, left, top, right and bottom of each region, in the images' element type")
    sizes = attribute(tuple)
    scale = attribute(float, default=1.0)
    result = result("(region, channels, height, width)")

    @staticmethod
    def infer(input: TensorSpec, boxes: TensorSpec, *, sizes: tuple[int, ...], scale: float) -> TensorSpec:
        """The channels of `sizes` bins for each region."""
        require_float(input=input)
        same_dtype(input, boxes)
        return pooled_shape(input, boxes, 5, sizes)

    @staticmethod
    def reference(input: np.ndarray, boxes: np.ndarray, *, sizes: tuple[int, ...], scale: float) -> np.ndarray:
        """Computes bin by bin."""
        out = np.zeros((len(boxes), input.shape[1], *sizes), input.dtype)
        wide = widen(boxes)
        assert wide is not None
        kind = wide.dtype.type
        for number, (name, *region) in enumerate(wide):
            image = input[int(np.clip(name, 0, len(input) - 1))]
            left, top, right, bottom = (
                math.floor(abs(edge * kind(scale)) + kind(0.5)) * (1 if edge >= 0 else -1) for edge in region
            )
            for place in np.ndindex(*sizes):
                rows, columns = (
                    bin_of(place[axis], low, high, sizes[axis], image.shape[axis + 1], kind)
                    for axis, low, high in ((0, top, bottom), (1, left, right))
                )
                inside = image[:, slice(*rows), slice(*columns)]
                if inside.size:
                    out[(number, slice(None), *place)] = inside.max((1, 2))
        return out


def bin_of(place: int, low: int, high: int, count: int, extent: int, kind: type) -> tuple[int, int]:
    """The first element of a bin and the one after its last, along one dimension of a region."""
    step = kind(max(high - low + 1, 1)) / kind(count)
    ends = (np.floor(kind(place) * step) + low, np.ceil(kind(place + 1) * step) + low)
    first, last = (int(np.clip(end, 0, extent)) for end in ends)
    return first, max(first, last)


def pooled_shape(input: TensorSpec, boxes: TensorSpec, columns: int, sizes: tuple[int, ...]) -> TensorSpec:
    """The shape of all bins of all regions, with the channels of the images.

    Raises:
        OpError: the images, regions or sizes are not valid.
    """
    require_rank(4, input=input)
    require_rank(2, boxes=boxes)
    if not is_float(boxes.dtype) or not may_equal(boxes.shape[1], columns):
        raise OpError(f"operand 'boxes' must have {columns} floats each, but is {boxes}")
    if len(sizes) != 2 or min(sizes) < 1:
        raise OpError(f"attribute 'sizes' must be two positive numbers, but is {', '.join(map(str, sizes))}")
    if 0 in (input.shape[0], *input.shape[2:]):
        raise OpError(f"operand 'input' is {input}, which has no elements to take")
    return input.with_shape((boxes.shape[0], input.shape[1], *sizes))
