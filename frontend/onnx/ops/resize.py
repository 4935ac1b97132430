"""Resize, and Upsample from before it."""

from __future__ import annotations

from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import DynamicResizeOp, ResizeOp
from ...errors import NodeError, UnsupportedError
from ..build import cast, constant, emit, normal_axis, rank, shape
from ..node import Node
from ..registry import imports

_LEGACY: dict[str, Any] = {"coordinates": "asymmetric", "nearest": "floor"}
"""What opsets before 11 mean; they have no attributes for it."""


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

    The region of interest only matters to `tf_crop_and_resize`, which is not supported.
    """
    if node.attribute("antialias", 0):
        raise UnsupportedError("attribute 'antialias' is not supported")
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
    if given_sizes is None:
        return emit(DynamicResizeOp, input, given_scales, axes=axes, **attributes)
    if node.attribute("keep_aspect_ratio_policy", "stretch") != "stretch":
        return emit(ResizeOp, input, **_same_aspect(node, input, given_sizes, axes), **attributes)
    return emit(DynamicResizeOp, input, None, cast(given_sizes, np.int64), axes=axes, **attributes)


def _unless_empty(node: Node, value: ir.Value | None) -> ir.Value | None:
    """Exporters of opset 11 leave an input out by giving an empty tensor."""
    contents = node.known(value)
    return None if contents is not None and contents.size == 0 else value


def _same_aspect(node: Node, input: ir.Value, sizes: ir.Value, axes: tuple[int, ...]) -> dict[str, Any]:
    """The sizes that one factor for all of `axes` gives, the greatest within `sizes` or the least to cover them."""
    extents = node.static(shape(input), "the extents that keep their aspect ratio")
    along, wanted = axes or tuple(range(len(extents))), node.integers(sizes, "sizes")
    if len(wanted) != len(along):
        raise NodeError(f"has {len(wanted)} sizes for {len(along)} dimensions")
    ratios = [size / extents[axis] for size, axis in zip(wanted, along, strict=True)]
    factor = min(ratios) if node.attribute("keep_aspect_ratio_policy") == "not_larger" else max(ratios)
    scales = np.array([factor if axis in along else 1 for axis in range(len(extents))], np.float32)
    full = tuple(int(extent * factor + 0.5) if axis in along else extent for axis, extent in enumerate(extents))
    return {"sizes": full, "scales": scales}
