"""Sliding windows, as used by convolution and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from ...sizes.extrema import is_surely_less, least
from ..core import OpError
from ..dims import Dim, DimShape, ceil_div
from ..specs import size_of
from .shapes import require_length

CHANNELS_FIRST = "channels_first"
CHANNELS_LAST = "channels_last"
LAYOUTS = (CHANNELS_FIRST, CHANNELS_LAST)


@dataclass(frozen=True)
class Window:
    """The geometry of a kernel that slides over the spatial dimensions.

    Attributes:
        kernel: its extent per spatial dimension.
        strides: the step from one position to the next.
        pads: elements added before every spatial dimension, then those added after (ONNX's order).
        dilations: the distance between two neighbouring kernel elements.
        ceil_mode: whether a last position that overhangs the padded input counts if it starts inside.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil_mode: bool = False

    def check(self) -> None:
        """Checks the attributes against each other.

        Raises:
            OpError: a list has the wrong length or an entry the wrong sign.
        """
        rank = len(self.kernel)
        if not 1 <= rank <= 3:
            raise OpError(f"takes 1 to 3 spatial dimensions, but has {rank}")
        require_length(rank, strides=self.strides, dilations=self.dilations)
        require_length(2 * rank, pads=self.pads)
        for name, entries in (("kernel", self.kernel), ("strides", self.strides), ("dilations", self.dilations)):
            if min(entries) < 1:
                raise OpError(f"{name} must be positive, but are {', '.join(map(str, entries))}")
        if any(is_surely_less(pad, 0) for pad in self.pads):
            raise OpError(f"pads must not be negative, but are {', '.join(map(str, self.pads))}")

    @property
    def extents(self) -> tuple[int, ...]:
        """The extent of the dilated kernel per spatial dimension."""
        return tuple((size - 1) * step + 1 for size, step in zip(self.kernel, self.dilations, strict=True))

    @property
    def meets_data(self) -> bool:
        """Returns whether every window position reads data, so that none lies in the padding alone."""
        return not self._crossed

    def check_pads(self) -> None:
        """Checks that no window position can lie in the padding alone.

        Raises:
            OpError: one can.
        """
        for extent in self._crossed:
            raise OpError(
                f"pads must be less than the window's extent of {extent}, but are {', '.join(map(str, self.pads))}"
            )

    @property
    def _crossed(self) -> list[int]:
        """The kernel extents that are not greater than their padding."""
        pads = zip(self.pads, self.extents * 2, strict=True)
        return [extent for pad, extent in pads if not is_surely_less(pad, extent)]

    def output_shape(self, spatial: DimShape) -> DimShape:
        """The number of positions per spatial dimension of an input.

        Raises:
            OpError: the window has no position: the kernel does not fit into the padded input, and an overhang is not
                allowed or would start outside.
        """
        rank = len(self.kernel)
        return tuple(
            self._positions(axis, dim + self.pads[axis] + self.pads[axis + rank]) for axis, dim in enumerate(spatial)
        )

    def positions(self, array: np.ndarray) -> tuple[int, ...]:
        """The number of positions per spatial dimension of an array (batch, channels, spatial...)."""
        return tuple(int(count) for count in self.output_shape(array.shape[2:]) if isinstance(count, int))

    def _positions(self, axis: int, padded: Dim) -> Dim:
        stride, extent = self.strides[axis], self.extents[axis]
        if not self.ceil_mode:
            count = (padded - extent) // stride + 1
        else:
            # Counts positions that overlap the padded input and start before its high pads. If the kernel is larger
            # than the padded input, the first position overhangs as well.
            overhang = least((self.pads[axis + len(self.kernel)] + stride - extent, 0))
            count = ceil_div(padded - self.pads[axis + len(self.kernel)] + overhang, stride)
        if isinstance(count, int) and count < 1:
            raise OpError(f"a kernel of extent {extent} does not fit into {padded} padded elements")
        return count

    def clipped(self, spatial: Sequence[int]) -> Window:
        """The window without its last taps that read no element of an input at any position.

        Taps that are after the end of the data at the first position are so at all positions. The results stay the
        same, but the number of positions does not, because it follows from the whole kernel. The first position still
        reaches beyond the low pads.

        Args:
            spatial: the extents of the input.
        """
        kernel = [
            min(places, max(-(-(size + low) // dilation), low // dilation + 2))
            for places, size, low, dilation in zip(self.kernel, spatial, self.pads, self.dilations, strict=False)
        ]
        return replace(self, kernel=tuple(kernel))

    def pad(self, array: np.ndarray, value: float, positions: tuple[int, ...]) -> np.ndarray:
        """`array` (batch, channels, spatial...) padded for `positions` of the window, the overhang included."""
        rank = len(self.kernel)
        widths = [(0, 0), (0, 0)]
        for axis, (size, count) in enumerate(zip(array.shape[2:], positions, strict=True)):
            needed = (count - 1) * self.strides[axis] + self.extents[axis]
            low, high = self.pads[axis], self.pads[axis + rank]
            widths.append((low, max(high, needed - low - size)))
        return np.pad(array, widths, constant_values=value)

    def views(self, padded: np.ndarray, positions: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
        """For each kernel tap, the elements (batch, channels, positions...) that it reads, as a view."""
        for place in itertools.product(*map(range, self.kernel)):
            yield place, padded[(..., *self._meets(place, positions))]

    def _meets(self, place: tuple[int, ...], positions: tuple[int, ...]) -> Iterator[slice]:
        for offset, dilation, stride, count in zip(place, self.dilations, self.strides, positions, strict=True):
            yield slice(offset * dilation, offset * dilation + (count - 1) * stride + 1, stride)


def split_layout(shape: DimShape, layout: str) -> tuple[Dim, Dim, DimShape]:
    """The batch, the channels and the spatial dimensions of a shape."""
    if layout == CHANNELS_FIRST:
        return shape[0], shape[1], shape[2:]
    return shape[0], shape[-1], shape[1:-1]


def join_layout(batch: Dim, channels: Dim, spatial: DimShape, layout: str) -> DimShape:
    """The inverse of `split_layout`."""
    return (batch, channels, *spatial) if layout == CHANNELS_FIRST else (batch, *spatial, channels)


def to_channels_first(array: np.ndarray, layout: str) -> np.ndarray:
    """A view of `array` as (batch, channels, spatial...)."""
    return array if layout == CHANNELS_FIRST else np.moveaxis(array, -1, 1)


def from_channels_first(array: np.ndarray, layout: str) -> np.ndarray:
    """The inverse of `to_channels_first`."""
    return array if layout == CHANNELS_FIRST else np.ascontiguousarray(np.moveaxis(array, 1, -1))


def flops_of_convolution(weight: ir.Value, positions: ir.Value, layout: str) -> int:
    """The floating-point operations of a convolution that multiplies every weight once per position of a tensor."""
    channels = ir.RankedTensorType(positions.type).shape[-1 if layout == CHANNELS_LAST else 1]
    return 2 * (size_of(positions) // channels * size_of(weight))
