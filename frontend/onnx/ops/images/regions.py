"""Pooling of regions of interest."""

from __future__ import annotations

from typing import Any

from mlir import ir

from .....dialects.stepwell.regions import RoiAlignOp, RoiMaxPoolOp
from ....build import emit
from ....errors import AttributeFault
from ...nodes.node import Node
from ...nodes.registry import imports


@imports("RoiAlign", since=10)
def roi_align_by_edges(node: Node, input: ir.Value, regions: ir.Value, images: ir.Value) -> ir.Value:
    """RoiAlign of opset 10: positions count from the outer edge of the first element."""
    return _roi_align(node, input, regions, images, shift=0.0)


@imports("RoiAlign", since=16)
def roi_align(node: Node, input: ir.Value, regions: ir.Value, images: ir.Value) -> ir.Value:
    """RoiAlign with a choice of coordinates (opset 16)."""
    coordinates = node.attribute("coordinate_transformation_mode")
    if coordinates not in ("half_pixel", "output_half_pixel"):
        raise AttributeFault(
            f"attribute 'coordinate_transformation_mode' is '{coordinates}', which ONNX does not define"
        )
    return _roi_align(node, input, regions, images, shift=0.5 if coordinates == "half_pixel" else 0.0)


def _roi_align(node: Node, *operands: ir.Value, **attributes: Any) -> ir.Value:
    mode = node.attribute("mode")
    return emit(
        RoiAlignOp,
        *operands,
        sizes=(node.attribute("output_height"), node.attribute("output_width")),
        mode="mean" if mode == "avg" else mode,
        scale=node.attribute("spatial_scale"),
        samples=node.attribute("sampling_ratio"),
        **attributes,
    )


@imports("MaxRoiPool")
def roi_max_pool(node: Node, input: ir.Value, regions: ir.Value) -> ir.Value:
    """MaxRoiPool."""
    sizes, scale = node.attribute("pooled_shape"), node.attribute("spatial_scale")
    return emit(RoiMaxPoolOp, input, regions, sizes=sizes, scale=scale)
