"""Patterns that lower transposed convolutions to convolutions, in channels-last layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ....dialects.stepwell.contraction import ConvOp, ConvTransposeOp
from ....dialects.stepwell.elementwise import AddOp
from ....dialects.stepwell.movement import ConcatOp, PadOp, ReshapeOp, ReverseOp, SliceOp, TransposeOp
from ...ir.rewriting import Pattern, Refusal, Replacement
from ..values import is_fixed, static_shape


class WeavePhases(Pattern[ConvTransposeOp]):
    """conv_transpose(x, w) --> interleaved(conv(x, the pixels of w at each phase of a stride))

    The pixel `q * stride + phase` of the result is the sum of `x[q - t] * w[t * stride + phase]` over t: a convolution
    whose output channels are those of all phases, which are then interleaved (Shi et al., "Is the deconvolution layer
    the same as a convolutional layer?", 2016). No stuffed zero is multiplied. If the stride does not divide
    the kernel, phases with fewer pixels have a separate convolution.
    """

    root = ConvTransposeOp

    def rewrite(self, op: ConvTransposeOp) -> Replacement:
        shape, weight, out = static_shape(op.input), static_shape(op.weight), static_shape(op.result)
        if op.layout != "channels_last" or shape is None or weight is None or out is None:
            return None
        if set(op.strides) == {1} or set(op.dilations) != {1}:
            return Refusal("there is only one phase, or the kernel is dilated")
        if op.group > 1 and op.group == weight[0]:
            return Refusal("a depthwise convolution is limited by loads, so fewer multiplications gain nothing")
        count, strides = len(weight) - 2, op.strides
        # The pixels of a phase from `first` to `last` are in the result, which begins at pixel `pads`.
        starts = op.pads[:count]
        first = [pad // stride for pad, stride in zip(starts, strides, strict=True)]
        last = [-(-(pad + size) // stride) for pad, size, stride in zip(starts, out[1:-1], strides, strict=True)]
        ranges = list(zip(first, last, strict=True))
        for kernel, stride, (begin, end), pixels in zip(weight[2:], strides, ranges, shape[1:-1], strict=True):
            fewest = min(phases.taps for phases in _phases(kernel, stride))
            if max(0, begin - fewest + 1) + max(0, pixels - end) >= pixels:
                return Refusal("a phase reads no pixel of the input")
        phases = _every_phase(op, weight, ranges)
        interleaved = _interleaved(phases, count, op.group)
        begins = [pad - begin * stride for pad, begin, stride in zip(starts, first, strides, strict=True)]
        stops = [begin + extent for begin, extent in zip(begins, out[1:-1], strict=True)]
        return _with_bias(_sliced(interleaved, (0, *begins, 0), (out[0], *stops, out[-1])), op.bias)


class StuffZeros(Pattern[ConvTransposeOp]):
    """conv_transpose(x, w) --> conv(x with zeros between its pixels, w reversed)

    If w is computed in every run and larger than the images, these are reversed in its place.
    """

    root = ConvTransposeOp

    def rewrite(self, op: ConvTransposeOp) -> Replacement:
        shape, weight = static_shape(op.input), static_shape(op.weight)
        if op.layout != "channels_last" or shape is None or weight is None:
            return None
        count = len(weight) - 2
        reach = [step * (size - 1) for step, size in zip(op.dilations, weight[2:], strict=True)]
        low = [size - pad for size, pad in zip(reach, op.pads[:count], strict=True)]
        high = [size - pad for size, pad in zip(reach, op.pads[count:], strict=True)]
        high = [size + extra for size, extra in zip(high, op.output_padding or (0,) * count, strict=True)]
        stuffed = _resized(_stuffed(op.input, shape, op.strides), low, high)
        ones, spatial = (1,) * count, tuple(range(1, count + 1))
        images = (static_shape(stuffed) or (), static_shape(op.result) or ())
        turns_images = not is_fixed(op.weight) and math.prod(weight) > sum(map(math.prod, images))
        flipped = op.weight if turns_images else ReverseOp(op.weight, axes=tuple(range(2, len(weight)))).result
        result = ConvOp(
            ReverseOp(stuffed, axes=spatial).result if turns_images else stuffed,
            _swapped(flipped, weight, op.group),
            strides=ones,
            pads=(0,) * (2 * count),
            dilations=op.dilations,
            group=op.group,
            layout="channels_last",
        ).result
        return _with_bias(ReverseOp(result, axes=spatial).result if turns_images else result, op.bias)


PATTERNS = (WeavePhases(), StuffZeros())


def _stuffed(value: ir.Value, shape: tuple[int, ...], strides: tuple[int, ...]) -> ir.Value:
    """`value` [n, *size, c] with `stride - 1` zeros between two pixels of each dimension."""
    if set(strides) == {1}:
        return value
    batch, *size, channels = shape
    apart = ReshapeOp(value, shape=(batch, *(dim for pixels in size for dim in (pixels, 1)), channels)).result
    high = (0, *(amount for stride in strides for amount in (0, stride - 1)), 0)
    padded = PadOp(apart, low=(0,) * len(high), high=high, value=0.0).result
    wide = [pixels * stride for pixels, stride in zip(size, strides, strict=True)]
    joined = ReshapeOp(padded, shape=(batch, *wide, channels)).result
    # Drops the zeros after the last pixel.
    stops = [pixels - stride + 1 for pixels, stride in zip(wide, strides, strict=True)]
    return _sliced(joined, (0,) * len(shape), (batch, *stops, channels))


@dataclass(frozen=True)
class _Phases:
    """Adjacent phases of a stride with the same number `taps` of kernel pixels, which are `stride` apart."""

    start: int
    stop: int
    taps: int


def _phases(kernel: int, stride: int) -> list[_Phases]:
    """The phases of a stride, grouped by their number of kernel pixels."""
    whole, more = divmod(kernel, stride)
    if not whole or not more:
        return [_Phases(0, stride, max(whole, 1))]
    return [_Phases(0, more, whole + 1), _Phases(more, stride, whole)]


def _every_phase(op: ConvTransposeOp, weight: tuple[int, ...], ranges: Sequence[tuple[int, int]]) -> ir.Value:
    """The pixels of all phases, concatenated: [n, *size, group?, *strides, outputs / group]."""
    choices = [_phases(kernel, stride) for kernel, stride in zip(weight[2:], op.strides, strict=True)]
    count, before = len(choices), 1 + len(choices) + (op.group > 1)

    def joined(chosen: tuple[_Phases, ...]) -> ir.Value:
        if len(chosen) == count:
            return _some_phases(op, weight, ranges, chosen)
        parts = [joined((*chosen, choice)) for choice in choices[len(chosen)]]
        return parts[0] if len(parts) == 1 else ConcatOp(*parts, axis=before + len(chosen)).result

    return joined(())


def _some_phases(
    op: ConvTransposeOp, weight: tuple[int, ...], ranges: Sequence[tuple[int, int]], chosen: tuple[_Phases, ...]
) -> ir.Value:
    """As `_every_phase`, for the chosen phases."""
    shape = static_shape(op.input)
    assert shape is not None
    low = [phases.taps - 1 - first for phases, (first, _) in zip(chosen, ranges, strict=True)]
    high = [last - size for size, (_, last) in zip(shape[1:-1], ranges, strict=True)]
    ones = (1,) * len(chosen)
    value = ConvOp(
        _cropped(op.input, low, high),
        _by_phase(op.weight, weight, op.strides, chosen, op.group),
        strides=ones,
        pads=tuple(max(0, amount) for amount in (*low, *high)),
        dilations=ones,
        group=op.group,
        layout="channels_last",
    ).result
    size = (last - first for first, last in ranges)
    counts = (phases.stop - phases.start for phases in chosen)
    groups = (op.group,) if op.group > 1 else ()
    return ReshapeOp(value, shape=(shape[0], *size, *groups, *counts, weight[1])).result


def _by_phase(
    value: ir.Value, shape: tuple[int, ...], strides: Sequence[int], chosen: Sequence[_Phases], group: int
) -> ir.Value:
    """The weight [inputs, outputs / group, *kernel] for a convolution: [group * phases * outputs, inputs, *taps].

    Tap t of a phase is `w[t * stride + phase]`, zero beyond the kernel; a convolution needs the taps in reverse.
    """
    inputs, outputs, *kernel = shape
    count, taps = len(kernel), [phases.taps for phases in chosen]
    reach = [phases.taps * step for phases, step in zip(chosen, strides, strict=True)]
    whole = _resized(value, [0] * count, [end - size for end, size in zip(reach, kernel, strict=True)], first=2)
    split = [size for pair in zip(taps, strides, strict=True) for size in pair]
    apart = ReshapeOp(whole, shape=(group, inputs // group, outputs, *split)).result
    tap_axes, phase_axes = tuple(range(3, 3 + 2 * count, 2)), tuple(range(4, 4 + 2 * count, 2))
    bounds = [bound for phases in chosen for bound in ((0, phases.taps), (phases.start, phases.stop))]
    starts, stops = zip((0, group), (0, inputs // group), (0, outputs), *bounds, strict=True)
    phases_of_group = _sliced(apart, starts, stops)
    if set(taps) != {1}:
        phases_of_group = ReverseOp(phases_of_group, axes=tap_axes).result
    ordered = TransposeOp(phases_of_group, permutation=(0, *phase_axes, 2, 1, *tap_axes)).result
    channels = group * math.prod(phases.stop - phases.start for phases in chosen) * outputs
    return ReshapeOp(ordered, shape=(channels, inputs // group, *taps)).result


def _interleaved(value: ir.Value, count: int, group: int) -> ir.Value:
    """[n, *size, group?, *phases, c] --> [n, *(size * phases), group * c], for `count` spatial dimensions"""
    shape = static_shape(value)
    assert shape is not None
    batch, *size = shape[: count + 1]
    strides, channels = shape[-1 - count : -1], shape[-1] * group
    rank = len(shape)
    pairs = (axis for at in range(1, 1 + count) for axis in (at, rank - 2 - count + at))
    rest = (axis for axis in range(1 + count, rank) if not rank - 1 - count <= axis < rank - 1)
    interleaved = TransposeOp(value, permutation=(0, *pairs, *rest)).result
    wide = (extent * stride for extent, stride in zip(size, strides, strict=True))
    return ReshapeOp(interleaved, shape=(batch, *wide, channels)).result


def _sliced(value: ir.Value, starts: tuple[int, ...], stops: tuple[int, ...]) -> ir.Value:
    if not any(starts) and stops == static_shape(value):
        return value
    return SliceOp(value, starts=starts, stops=stops, steps=(1,) * len(stops)).result


def _cropped(value: ir.Value, low: Sequence[int], high: Sequence[int], first: int = 1) -> ir.Value:
    """`value` cropped by the absolute values of negative amounts at both ends of the dimensions from `first` on."""
    shape = static_shape(value)
    assert shape is not None
    end = first + len(low)
    starts = (*(0 for _ in shape[:first]), *(max(0, -amount) for amount in low), *(0 for _ in shape[end:]))
    ends = (dim + min(0, amount) for dim, amount in zip(shape[first:end], high, strict=True))
    return _sliced(value, starts, (*shape[:first], *ends, *shape[end:]))


def _resized(value: ir.Value, low: Sequence[int], high: Sequence[int], first: int = 1) -> ir.Value:
    """As `_cropped`, and zero-padded by positive amounts; cropping may remove all data if zeros remain."""
    after = len(static_shape(value) or ()) - first - len(low)
    more = [(*(0,) * first, *(max(0, amount) for amount in amounts), *(0,) * after) for amounts in (low, high)]
    wide = PadOp(value, low=more[0], high=more[1], value=0.0).result if any(map(any, more)) else value
    return _cropped(wide, low, high, first)


def _swapped(value: ir.Value, shape: tuple[int, ...], group: int) -> ir.Value:
    """The weight [inputs, outputs / group, *kernel] for a convolution: [outputs, inputs / group, *kernel]."""
    inputs, outputs, *kernel = shape
    apart = ReshapeOp(value, shape=(group, inputs // group, outputs, *kernel)).result
    swapped = TransposeOp(apart, permutation=(0, 2, 1, *range(3, 3 + len(kernel)))).result
    return ReshapeOp(swapped, shape=(group * outputs, inputs // group, *kernel)).result


def _with_bias(value: ir.Value, bias: ir.Value | None) -> ir.Value:
    return value if bias is None else AddOp(value, bias).result
