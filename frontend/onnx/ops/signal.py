"""Signal processing: Fourier transforms, and tables of weights."""

from __future__ import annotations

import numpy as np
from mlir import ir

from ....dialects.stepwell.elementwise import AddOp, MulOp
from ....dialects.stepwell.movement import ExpandDimsOp
from ....support.wording import quantity
from ...build import (
    cast,
    dtype,
    emit,
    gathered,
    integers,
    known_number,
    normal_axis,
    numbered,
    rank,
    shape,
    tabulate,
    transposed,
)
from ...errors import NodeError
from ...fourier import fitted, real_inverse, transform, wide_type
from ..nodes.node import Node
from ..nodes.registry import imports


@imports("DFT", since=17)
def dft_by_attribute(node: Node, input: ir.Value, length: ir.Value | None = None) -> ir.Value:
    """DFT with the axis as an attribute (opset 17)."""
    return _dft(node, input, length, node.attribute("axis"))


@imports("DFT", since=20)
def dft_by_input(node: Node, input: ir.Value, length: ir.Value | None = None, axis: ir.Value | None = None) -> ir.Value:
    """DFT with the axis as an input (opset 20)."""
    return _dft(node, input, length, -2 if axis is None else node.integers(axis, "axis")[0])


def _dft(node: Node, input: ir.Value, length: ir.Value | None, axis: int) -> ir.Value:
    """Transforms along an axis, which is moved behind the others (before the complex parts) and back afterwards."""
    inverse, onesided = bool(node.attribute("inverse")), bool(node.attribute("onesided"))
    axis = normal_axis(axis, rank(input))
    if axis == rank(input) - 1:
        raise NodeError("transforms along the dimension of the complex parts")
    order = [*(other for other in range(rank(input)) if other not in (axis, rank(input) - 1)), axis, rank(input) - 1]
    extent = known_number(input, axis, "the length of the signal")
    if length is not None:
        size = node.integers(length, "dft_length")[0]
    else:
        size = 2 * (extent - 1) if inverse and onesided else extent
    if size < 1:
        raise NodeError(f"transforms {quantity(size, 'element')}")
    moved = transposed(cast(input, wide_type(input)), order)
    used = size // 2 + 1 if inverse and onesided else size
    moved = fitted(moved, rank(input) - 2, used)
    result = real_inverse(node, moved, size) if inverse and onesided else transform(node, moved, inverse)
    if onesided and not inverse:
        result = fitted(result, rank(input) - 2, size // 2 + 1)
    return cast(transposed(result, [order.index(other) for other in range(rank(input))]), dtype(input))


@imports("STFT", since=17)
def stft(
    node: Node, signal: ir.Value, step: ir.Value, window: ir.Value | None = None, length: ir.Value | None = None
) -> ir.Value:
    """STFT: transforms frames of the signal, each multiplied by the window.

    [b, n, part] --> [b, frame, length, part] --> [b, frame, frequency, 2]

    Exporters may omit the last dimension of real signals.
    """
    if rank(signal) == 2:
        signal = emit(ExpandDimsOp, signal, axes=(2,))
    hop, onesided = node.integers(step, "frame_step")[0], bool(node.attribute("onesided"))
    (extent,) = node.static(shape(signal)[1:2], "the length of the signal")
    if length is not None:
        size = node.integers(length, "frame_length")[0]
    elif window is not None:
        (size,) = node.static(shape(window), "the length of the window")
    else:
        size = extent
    if hop < 1 or not 1 <= size <= extent:
        raise NodeError(f"takes frames of {quantity(size, 'element')}, {hop} apart, from {extent}")
    starts = tabulate(MulOp, numbered((extent - size) // hop + 1, 0, 2), integers(hop))
    frames = gathered(signal, tabulate(AddOp, starts, numbered(size)), 1)
    frames = cast(frames, wide_type(signal))
    if window is not None:
        frames = emit(MulOp, frames, emit(ExpandDimsOp, cast(window, wide_type(signal)), axes=(1,)))
    result = transform(node, frames, inverse=False)
    return cast(fitted(result, 2, size // 2 + 1) if onesided else result, dtype(signal))


@imports("MelWeightMatrix", since=17)
def mel_weight_matrix(node: Node, *inputs: ir.Value) -> ir.Value:
    """MelWeightMatrix: triangles over frequencies that are evenly spaced on the mel scale; a constant."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bins, size, rate, *edges = (node.constant(value, name).item() for name, value in zip(names, inputs, strict=True))
    if bins < 1 or size < 1 or rate < 1 or not 0 <= edges[0] <= edges[1] <= rate / 2:
        raise NodeError(f"makes {bins} bins from {edges[0]} to {edges[1]} Hz of {size} elements at {rate} Hz")
    low, high = (2595 * np.log1p(edge / 700) / np.log(10) for edge in edges)
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    points = ((size + 1) * (700 * np.expm1(mels / 2595 * np.log(10))) // rate).astype(np.int64)
    left, center, right = (points[None, start : start + bins] for start in range(3))
    at = np.arange(size // 2 + 1)[:, None]
    rising = np.where(center > left, (at - left) / np.maximum(center - left, 1), at == center)
    falling = (right - at) / np.maximum(right - center, 1)
    weights = np.where((at >= left) & (at <= center), rising, 0.0)
    weights = np.where((at >= center) & (at < right), falling, weights)
    kind = node.dtype("output_datatype") or np.dtype(np.float32)
    return node.importer.weight(f"{node.name}.weights", weights.astype(kind))
