"""Signal processing: Fourier transforms as products with constant matrices, and tables of weights."""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from ....dialects.stepwell.contraction import MatmulOp
from ....dialects.stepwell.elementwise import (
    AddOp,
    MulOp,
)
from ....dialects.stepwell.movement import ExpandDimsOp, PadOp, ReverseOp
from ....support.wording import quantity
from ...build import (
    cast,
    dims_of,
    dtype,
    emit,
    gathered,
    integers,
    joined,
    normal_axis,
    numbered,
    rank,
    reshaped,
    shape,
    tabulate,
    transposed,
)
from ...errors import NodeError, UnsupportedError
from ..node import Node
from ..registry import imports

# Transforms longer than _DENSE are composed of shorter ones if their length has factors. A matrix with more than
# _LONGEST rows would be too large.
_DENSE, _LONGEST = 128, 8192


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
    (extent,) = node.static(shape(input)[axis : axis + 1], "the length of the signal")
    if length is not None:
        size = node.integers(length, "dft_length")[0]
    else:
        size = 2 * (extent - 1) if inverse and onesided else extent
    if size < 1:
        raise NodeError(f"transforms {quantity(size, 'element')}")
    moved = transposed(cast(input, _wide(input)), order)
    used = size // 2 + 1 if inverse and onesided else size
    moved = _fitted(moved, rank(input) - 2, used)
    result = _real_inverse(node, moved, size) if inverse and onesided else _transform(node, moved, inverse)
    if onesided and not inverse:
        result = _fitted(result, rank(input) - 2, size // 2 + 1)
    return cast(transposed(result, [order.index(other) for other in range(rank(input))]), dtype(input))


def _wide(value: ir.Value) -> np.dtype:
    return np.dtype(np.float64 if dtype(value) == np.float64 else np.float32)


def _fitted(value: ir.Value, axis: int, size: int) -> ir.Value:
    """`value` truncated, or padded with zeros, to `size` elements along an axis."""
    extent, count = shape(value)[axis], rank(value)
    assert isinstance(extent, int)
    if extent == size:
        return value
    if extent < size:
        high = tuple(size - extent if other == axis else 0 for other in range(count))
        return emit(PadOp, value, low=(0,) * count, high=high)
    return gathered(value, integers(range(size)), axis)


def _twiddle_factors(rows: int, columns: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cosine and sine of `2 pi row column / size`, without the rounding of large angles."""
    angle = 2 * np.pi * (np.outer(np.arange(rows), np.arange(columns)) % size) / size
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.where(np.abs(cosine) < 1e-15, 0, cosine), np.where(np.abs(sine) < 1e-15, 0, sine)


def _product(node: Node, value: ir.Value, matrix: np.ndarray, parts: int) -> ir.Value:
    """[..., n, part] times [n * part, k * parts] --> [..., k, parts]"""
    outer = dims_of(value, 0, rank(value) - 2)
    flat = reshaped(value, joined([outer, integers([matrix.shape[0]])]))
    weight = node.importer.weight(f"{node.name}.matrix", matrix.astype(_wide(value)))
    made = emit(MatmulOp, flat, weight) if rank(flat) > 1 else _row_product(flat, weight)
    return reshaped(made, joined([outer, integers([matrix.shape[1] // parts, parts])]))


def _row_product(row: ir.Value, weight: ir.Value) -> ir.Value:
    return emit(MatmulOp, emit(ExpandDimsOp, row, axes=(0,)), weight)


def _transform(node: Node, value: ir.Value, inverse: bool) -> ir.Value:
    """[..., n, part] --> [..., n, 2], all frequencies.

    If n is a * b: [..., a, b, part], transforms along a, multiplies by twiddle factors, and transforms along b.
    """
    size, parts = shape(value)[-2:]
    assert isinstance(size, int)
    assert isinstance(parts, int)
    sign = 1 if inverse else -1
    factor = _factor(size) if size > _DENSE else 1
    if factor == 1:
        return _dense(node, value, size, parts, sign, 1 / size if inverse else 1.0)
    rest, count = size // factor, rank(value) - 2
    outer = dims_of(value, 0, count)
    split = reshaped(value, joined([outer, integers([factor, rest, parts])]))
    lead = tuple(range(count))
    swap = (*lead, count + 1, count, count + 2)
    first = _transform(node, transposed(split, swap), inverse)
    twiddled = _twiddled(node, first, rest, factor, size, sign)
    second = _transform(node, transposed(twiddled, swap), inverse)
    return reshaped(transposed(second, swap), joined([outer, integers([size, 2])]))


def _factor(size: int) -> int:
    """The greatest factor up to the square root."""
    return next(factor for factor in range(math.isqrt(size), 0, -1) if size % factor == 0)


def _dense(node: Node, value: ir.Value, size: int, parts: int, sign: int, scale: float) -> ir.Value:
    if size > _LONGEST:
        raise UnsupportedError(f"transforms {quantity(size, 'element')}, a number whose factors are too large")
    cosine, sine = _twiddle_factors(size, size, size)
    blocks = [np.stack([cosine, sign * sine], -1)]
    if parts == 2:
        blocks.append(np.stack([-sign * sine, cosine], -1))
    matrix = np.stack(blocks, 1).reshape(size * parts, size * 2) * scale
    return _product(node, value, matrix, 2)


def _twiddled(node: Node, value: ir.Value, rows: int, columns: int, size: int, sign: int) -> ir.Value:
    """Multiplies complex numbers [..., row, column, 2] by `exp(sign 2 pi i row column / size)`."""
    cosine, sine = _twiddle_factors(rows, columns, size)
    kind = _wide(value)
    same = node.importer.weight(f"{node.name}.cosines", np.stack([cosine, cosine], -1).astype(kind))
    crossed = node.importer.weight(f"{node.name}.sines", np.stack([-sign * sine, sign * sine], -1).astype(kind))
    swapped = emit(ReverseOp, value, axes=(-1,))
    return emit(AddOp, emit(MulOp, value, same), emit(MulOp, swapped, crossed))


def _real_inverse(node: Node, value: ir.Value, size: int) -> ir.Value:
    """[..., n / 2 + 1, 2] --> [..., n, 1]; the other frequencies are the conjugates of these."""
    count, parts = size // 2 + 1, shape(value)[-1]
    if count * 2 > _LONGEST:
        raise UnsupportedError(f"transforms {size} frequencies back to real numbers")
    cosine, sine = _twiddle_factors(count, size, size)
    weight = np.full((count, 1), 2 / size)
    weight[0] = 1 / size
    if size % 2 == 0:
        weight[-1] = 1 / size
    blocks = [cosine * weight, -sine * weight][: parts if isinstance(parts, int) else 2]
    return _product(node, value, np.stack(blocks, 1).reshape(-1, size), 1)


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
    frames = cast(frames, _wide(signal))
    if window is not None:
        frames = emit(MulOp, frames, emit(ExpandDimsOp, cast(window, _wide(signal)), axes=(1,)))
    result = _transform(node, frames, inverse=False)
    return cast(_fitted(result, 2, size // 2 + 1) if onesided else result, dtype(signal))


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
