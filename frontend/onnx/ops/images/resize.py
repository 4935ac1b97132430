"""Resize, and its predecessor Upsample."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from .....dialects.stepwell.elementwise import AndOp, MaximumOp, MinimumOp, RoundOp, SelectOp
from .....dialects.stepwell.movement import DynamicResizeOp, ResampleOp, ResizeOp
from .....dialects.stepwell.movement.resizing import resolve_sizes
from .....dialects.stepwell.resampling import Sampling, crop_positions
from .....dialects.types import is_float
from .....support.wording import quantity
from ....build import cast, constant, dtype, emit, gathered, normal_axis, rank, scalar, shape
from ....errors import AttributeFault, NodeError
from ...nodes.node import Node
from ...nodes.registry import imports

_LEGACY: dict[str, Any] = {"coordinates": "asymmetric", "nearest": "floor"}
"""The behaviour of opsets before 11, which have no attributes for it."""

_CROP = "tf_crop_and_resize"


@imports("Upsample")
def upsample_by_attribute(node: Node, input: ir.Value) -> ir.Value:
    """Upsample with the scales as an attribute (opset 7)."""
    return upsample(node, input, constant(np.array(node.attribute("scales"), np.float32)))


@imports("Upsample", since=9)
@imports("Resize", since=10)
def upsample(node: Node, input: ir.Value, scales: ir.Value) -> ir.Value:
    """Upsample (opset 9) and Resize (opset 10) with the scales as an input."""
    return emit(DynamicResizeOp, input, scales, mode=node.attribute("mode"), **_LEGACY)


@imports("Resize", since=11)
def resize(
    node: Node,
    input: ir.Value,
    region: ir.Value | None = None,
    scales: ir.Value | None = None,
    sizes: ir.Value | None = None,
) -> ir.Value:
    """Resize with a choice of coordinates (opset 11), axes and aspect ratio (opset 18); by scales or to sizes.

    Antialiasing and cropping use a table of weights for each dimension.
    """
    mode, kind = node.attribute("mode"), dtype(input)
    if mode != "nearest" and not is_float(kind):
        wide = np.float64 if kind.itemsize > 2 else np.float32
        return _to_integers(_resize(node, cast(input, wide), region, scales, sizes), kind)
    return _resize(node, input, region, scales, sizes)


def _to_integers(value: ir.Value, kind: np.dtype) -> ir.Value:
    """Rounds to the nearest numbers of an integer type."""
    info = np.iinfo(kind)
    inside = emit(MaximumOp, emit(MinimumOp, value, scalar(info.max, value)), scalar(info.min, value))
    return cast(emit(RoundOp, inside), kind)


def _resize(
    node: Node, input: ir.Value, region: ir.Value | None, scales: ir.Value | None, sizes: ir.Value | None
) -> ir.Value:
    axes = tuple(normal_axis(axis, rank(input)) for axis in node.attribute("axes", ()))
    attributes = {
        "mode": node.attribute("mode"),
        "coordinates": node.attribute("coordinate_transformation_mode"),
        "nearest": node.attribute("nearest_mode"),
        "cubic_coefficient": node.attribute("cubic_coeff_a"),
        "exclude_outside": bool(node.attribute("exclude_outside")),
    }
    given_scales, given_sizes = _unless_empty(node, scales), _unless_empty(node, sizes)
    if (given_scales is None) == (given_sizes is None):
        raise NodeError("needs either scales or sizes")
    is_stretched = node.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
    has_tables = node.attribute("antialias", 0) or attributes["coordinates"] == _CROP
    outside = node.attribute("extrapolation_value", 0.0)
    if given_sizes is not None and not is_stretched:
        fixed = _same_aspect(node, input, given_sizes, axes)
    elif has_tables:
        fixed = _known_sizes(node, input, given_scales, given_sizes, axes)
    elif given_sizes is not None:
        return emit(DynamicResizeOp, input, None, cast(given_sizes, np.int64), axes=axes, **attributes)
    else:
        return emit(DynamicResizeOp, input, given_scales, axes=axes, **attributes)
    if not has_tables:
        return emit(ResizeOp, input, **fixed, **attributes)
    sampling = Sampling(**attributes)
    if attributes["coordinates"] != _CROP:
        return _smoothed(node, input, sampling, **fixed)
    if region is None:
        raise NodeError("needs the input 'roi'")
    return _cropped(node, input, sampling, _region(node, input, region, axes), outside, **fixed)


def _known_sizes(
    node: Node, input: ir.Value, scales: ir.Value | None, sizes: ir.Value | None, axes: tuple[int, ...]
) -> dict[str, Any]:
    extents = node.static(shape(input), "the extents of the input")
    wanted = None if sizes is None else np.array(node.integers(sizes, "sizes"), object).reshape(shape(sizes))
    factors = None if scales is None else node.constant(scales, "scales")
    along = len(axes or extents)
    for array in (wanted, factors):
        if array is not None and array.shape != (along,):
            raise NodeError(f"scales or sizes must be a list of {along} numbers, but have the shape {array.shape}")
    full_sizes, full_scales = resolve_sizes(extents, factors, wanted, axes)
    return {"sizes": full_sizes, "scales": full_scales}


def _region(node: Node, input: ir.Value, region: ir.Value, axes: tuple[int, ...]) -> list[tuple[float, float]]:
    """Start and end of the cropped part along each dimension, as fractions of the input."""
    along, bounds = axes or tuple(range(rank(input))), node.constant(region, "roi").reshape(-1)
    if len(bounds) != 2 * len(along):
        raise NodeError(f"input 'roi' must have {2 * len(along)} elements, but has {len(bounds)}")
    found = [(0.0, 1.0)] * rank(input)
    for start, stop, axis in zip(bounds[: len(along)], bounds[len(along) :], along, strict=True):
        found[axis] = (float(start), float(stop))
    return found


def _smoothed(node: Node, input: ir.Value, sampling: Sampling, sizes: tuple[int, ...], scales: np.ndarray) -> ir.Value:
    """Resizes dimension by dimension with kernels as wide as the steps; dimensions that shrink most come first."""
    if sampling.mode == "nearest":
        raise AttributeFault("attribute 'antialias' is not supported for mode nearest")
    extents = node.static(shape(input), "the extents of the input")
    for axis in sorted(range(len(sizes)), key=lambda axis: sizes[axis] / max(extents[axis], 1)):
        if sizes[axis] != extents[axis] or scales[axis] != 1:
            tables = sampling.smoothed_taps(extents[axis], sizes[axis], float(scales[axis]))
            input = _resampled(node, input, axis, *tables)
    return input


def _cropped(
    node: Node,
    input: ir.Value,
    sampling: Sampling,
    region: list[tuple[float, float]],
    outside: float,
    sizes: tuple[int, ...],
    scales: np.ndarray,
) -> ir.Value:
    """Crops and resizes the input dimension by dimension; elements outside the input become `outside`."""
    extents = node.static(shape(input), "the extents of the input")
    is_inside = constant(np.array(True))
    for axis, (extent, size) in enumerate(zip(extents, sizes, strict=True)):
        if size == extent and scales[axis] == 1 and region[axis] == (0, 1):
            continue
        positions = crop_positions(extent, size, float(scales[axis]) * extent, *region[axis])
        indices, weights = sampling.taps_at(positions, extent)
        if sampling.mode == "nearest":
            input = gathered(input, node.table("indices", indices[0]), axis)
        else:
            input = _resampled(node, input, axis, indices, weights)
        line = ((positions >= 0) & (positions <= extent - 1)).reshape(-1, *[1] * (len(sizes) - 1 - axis))
        is_inside = emit(AndOp, is_inside, node.table("inside", line))
    return emit(SelectOp, is_inside, input, scalar(outside, input))


def _resampled(node: Node, input: ir.Value, axis: int, indices: np.ndarray, weights: np.ndarray) -> ir.Value:
    kind = np.float64 if dtype(input) == np.float64 else np.float32
    tables = {"indices": indices, "weights": weights.astype(kind)}
    return emit(
        ResampleOp,
        input,
        *(node.importer.weight(f"{node.name}.{name}", item) for name, item in tables.items()),
        axis=axis,
    )


def _unless_empty(node: Node, value: ir.Value | None) -> ir.Value | None:
    """Returns None for an empty tensor, by which exporters of opset 11 omit an input."""
    contents = node.known(value)
    return None if contents is not None and contents.size == 0 else value


def _same_aspect(node: Node, input: ir.Value, sizes: ir.Value, axes: tuple[int, ...]) -> dict[str, Any]:
    """The sizes for one common factor of `axes`: the greatest that fit `sizes`, or the least that cover them."""
    extents = node.static(shape(input), "the extents that keep their aspect ratio")
    along, wanted = axes or tuple(range(len(extents))), node.integers(sizes, "sizes")
    if len(wanted) != len(along):
        raise NodeError(f"has {quantity(len(wanted), 'size')} for {quantity(len(along), 'dimension')}")
    ratios = [size / extents[axis] for size, axis in zip(wanted, along, strict=True)]
    factor = min(ratios) if node.attribute("keep_aspect_ratio_policy") == "not_larger" else max(ratios)
    scales = np.array([factor if axis in along else 1 for axis in range(len(extents))], np.float32)
    full = tuple(int(extent * factor + 0.5) if axis in along else extent for axis, extent in enumerate(extents))
    return {"sizes": full, "scales": scales}
