"""Interpolation: images in other sizes, and at computed positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicResizeOp, ResizeOp, ReverseOp, SampleOp
from ...build import cast, constant, dtype, emit, known_dim, rank, scalar, shape, transposed
from ..node import AtenNode
from ..registry import Handler, imports
from ..symbols import Size, extents

_NEAREST = {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}
_EXACT = {"mode": "nearest", "coordinates": "half_pixel", "nearest": "round_prefer_ceil"}


def _resized(node: AtenNode, input: ir.Value, scales: Sequence[float] | None, attributes: dict[str, Any]) -> ir.Value:
    """Resizes to the size of the node's result; factors that were given count instead of the ratio of sizes."""
    sizes, count = node.sizes(), rank(input) - 2
    known, given = shape(input), [item for item in sizes if isinstance(item, int)]
    spatial = [dim for dim in known[2:] if isinstance(dim, int)]
    if len(spatial) == count and all(isinstance(size, int) for size in sizes[2:]):
        factors = scales or [size / max(dim, 1) for size, dim in zip(given[-count:], spatial, strict=True)]
        if len(given) == len(sizes):
            table = np.array([1, 1, *factors], np.float32)
            return emit(ResizeOp, input, sizes=tuple(given), scales=table, **attributes)
    axes = tuple(range(2, rank(input)))
    if scales is None:
        return emit(DynamicResizeOp, input, None, extents(sizes[2:]), axes=axes, **attributes)
    return emit(DynamicResizeOp, input, constant(np.array(scales, np.float32)), None, axes=axes, **attributes)


def _nearest(attributes: dict[str, Any]) -> Handler:
    def handler(
        node: AtenNode, input: ir.Value, output_size: Sequence[Size] | None, scale_factors: Sequence[float] | None
    ) -> ir.Value:
        return _resized(node, input, scale_factors, attributes)

    return handler


def _smooth(mode: str) -> Handler:
    def handler(
        node: AtenNode,
        input: ir.Value,
        output_size: Sequence[Size] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> ir.Value:
        attributes = {"mode": mode, "coordinates": "align_corners" if align_corners else "half_pixel"}
        return _resized(node, input, None if align_corners else scale_factors, attributes)

    return handler


for _dimensions in (1, 2, 3):
    imports(f"aten.upsample_nearest{_dimensions}d.vec")(_nearest(_NEAREST))
    imports(f"aten._upsample_nearest_exact{_dimensions}d.vec")(_nearest(_EXACT))
for _name, _mode in (
    ("linear1d", "linear"),
    ("bilinear2d", "linear"),
    ("trilinear3d", "linear"),
    ("bicubic2d", "cubic"),
):
    imports(f"aten.upsample_{_name}.vec")(_smooth(_mode))


@imports("aten.grid_sampler_2d.default", "aten.grid_sampler_3d.default")
def grid_sample(
    node: AtenNode, input: ir.Value, grid: ir.Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> ir.Value:
    """Images at positions from -1 to 1, the last dimension of the image first."""
    spatial = [known_dim(input, axis, "the extents of the images") for axis in range(2, rank(input))]
    planes = transposed(emit(ReverseOp, grid, axes=(rank(grid) - 1,)), (0, rank(grid) - 1, *range(1, rank(grid) - 1)))
    sizes = np.array(spatial, dtype(planes)).reshape(-1, *[1] * len(spatial))
    moved, two = emit(ew.AddOp, planes, scalar(1, planes)), scalar(2, planes)
    if align_corners:
        lasts = node.importer.weight(f"{node.name}.lasts", sizes - 1)
        positions = emit(ew.MulOp, emit(ew.DivOp, moved, two), lasts)
    else:
        scaled = emit(ew.MulOp, moved, node.importer.weight(f"{node.name}.extents", sizes))
        positions = emit(ew.DivOp, emit(ew.SubOp, scaled, scalar(1, planes)), two)
    return cast(
        emit(
            SampleOp,
            input,
            positions,
            mode=("linear", "nearest", "cubic")[interpolation_mode],
            padding=("zeros", "border", "reflection")[padding_mode],
            about_edges=align_corners,
        ),
        node.dtype(),
    )
