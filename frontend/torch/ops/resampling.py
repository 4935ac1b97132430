"""Interpolation: images in other sizes, and at computed positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import DynamicResizeOp, ResizeOp, ReverseOp, SampleOp
from ...build import constant, dtype, emit, known_number, rank, scalar, shape, transposed
from ...errors import NeedsShapes
from ..node import AtenNode
from ..registry import AtenHandler, imports
from ..symbols import AtenSize, extents
from .tables import IntervalTable, by_tables, transposed_tables

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


def _linear(position: np.ndarray, extent: int) -> IntervalTable:
    position = np.maximum(position, 0)
    start = np.minimum(position.astype(np.int64), extent - 1)
    share = np.clip(position - start, 0, 1)
    return np.stack([start, np.minimum(start + 1, extent - 1)]), np.stack([1 - share, share])


def _cubic(position: np.ndarray, extent: int) -> IntervalTable:
    start = np.floor(position)
    places = start + np.arange(-1, 3)[:, None]
    weights = _cubic_weight(position - places, -0.75)
    return np.clip(places, 0, extent - 1).astype(np.int64), weights


def _cubic_weight(distance: np.ndarray, a: float) -> np.ndarray:
    """Keys' kernel."""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _lanczos_weight(distance: np.ndarray) -> np.ndarray:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


_SMOOTH = {"linear": _linear, "cubic": _cubic}
_FILTERS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "bilinear": (1, lambda x: np.maximum(1 - np.abs(x), 0)),
    "bicubic": (2, lambda x: _cubic_weight(x, -0.5)),
    "lanczos": (3, _lanczos_weight),
}
"""Half of the width of filters, and their weights by distance."""


def _extents(node: AtenNode, input: ir.Value, count: int) -> list[tuple[int, int]]:
    """The extents of images before and after, which must be numbers."""
    what = "the extents of images that are resampled"
    before = [known_number(input, axis, what) for axis in range(rank(input) - count, rank(input))]
    after = [size for size in node.sizes()[-count:] if isinstance(size, int)]
    if len(after) < count:
        raise NeedsShapes(f"{what} must be known")
    return list(zip(before, after, strict=True))


def _step(before: int, after: int, align_corners: bool, factor: float | None) -> float:
    """The distance between the positions of two neighbouring results."""
    if align_corners:
        return (before - 1) / (after - 1) if after > 1 else 0.0
    return 1 / factor if factor else before / after


def _anti_aliased(name: str) -> tuple[AtenHandler, AtenHandler]:
    """Returns the importers of a resampling and of its gradient."""
    width, weight_at = _FILTERS[name]

    def table(before: int, after: int, align_corners: bool, factor: float | None) -> IntervalTable:
        step = _step(before, after, align_corners, factor)
        scale = max(step, 1)
        centre = step * (np.arange(after) + 0.5)
        start = np.maximum((centre - width * scale + 0.5).astype(np.int64), 0)
        stop = np.minimum((centre + width * scale + 0.5).astype(np.int64), before)
        places = start + np.arange(int((stop - start).max(initial=1)))[:, None]
        weights = np.where(places < stop, weight_at((places - centre + 0.5) / scale), 0)
        return np.minimum(places, before - 1), weights / weights.sum(0)

    def handler(
        node: AtenNode,
        input: ir.Value,
        output_size: Sequence[AtenSize],
        align_corners: bool,
        scales_h: float | None,
        scales_w: float | None,
    ) -> ir.Value:
        """Filters as wide as the distance between results, or between elements if that is more."""
        pairs = zip(_extents(node, input, 2), (scales_h, scales_w), strict=True)
        return by_tables(node, input, [table(*sizes, align_corners, factor) for sizes, factor in pairs])

    def gradient(
        node: AtenNode,
        grad_output: ir.Value,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        scales_h: float | None,
        scales_w: float | None,
    ) -> ir.Value:
        """The sums of the gradients of the results times the weights that an element has in them."""
        after = [known_number(grad_output, axis, "the extents of images that are resampled") for axis in (2, 3)]
        triples = zip(input_size[-2:], after, (scales_h, scales_w), strict=True)
        tables = [table(before, size, align_corners, factor) for before, size, factor in triples]
        return by_tables(node, grad_output, transposed_tables(tables, input_size[-2:]))

    return handler, gradient


for _name in _FILTERS:
    _handler, _gradient = _anti_aliased(_name)
    imports(f"aten._upsample_{_name}2d_aa.default")(_handler)
    imports(f"aten._upsample_{_name}2d_aa_backward.default")(_gradient)


def _nearest(attributes: dict[str, Any]) -> AtenHandler:
    def handler(
        node: AtenNode, input: ir.Value, output_size: Sequence[AtenSize] | None, scale_factors: Sequence[float] | None
    ) -> ir.Value:
        return _resized(node, input, scale_factors, attributes)

    return handler


def _smooth(mode: str) -> AtenHandler:
    def handler(
        node: AtenNode,
        input: ir.Value,
        output_size: Sequence[AtenSize] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> ir.Value:
        if dtype(input) == np.float64:  # positions are f32 otherwise
            count = rank(input) - 2
            tables = []
            for (before, after), factor in zip(
                _extents(node, input, count), scale_factors or [None] * count, strict=True
            ):
                step, place = _step(before, after, align_corners, factor), np.arange(after)
                position = step * place if align_corners else step * (place + 0.5) - 0.5
                tables.append(_SMOOTH[mode](position, before))
            return by_tables(node, input, tables)
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
    spatial = [known_number(input, axis, "the extents of the images") for axis in range(2, rank(input))]
    planes = transposed(emit(ReverseOp, grid, axes=(rank(grid) - 1,)), (0, rank(grid) - 1, *range(1, rank(grid) - 1)))
    sizes = np.array(spatial, dtype(planes)).reshape(-1, *[1] * len(spatial))
    moved, two = emit(ew.AddOp, planes, scalar(1, planes)), scalar(2, planes)
    if align_corners:
        lasts = node.importer.weight(f"{node.name}.lasts", sizes - 1)
        positions = emit(ew.MulOp, emit(ew.DivOp, moved, two), lasts)
    else:
        scaled = emit(ew.MulOp, moved, node.importer.weight(f"{node.name}.extents", sizes))
        positions = emit(ew.DivOp, emit(ew.SubOp, scaled, scalar(1, planes)), two)
    return emit(
        SampleOp,
        input,
        positions,
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding=("zeros", "border", "reflection")[padding_mode],
        about_edges=align_corners,
    )
