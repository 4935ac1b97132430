"""Tiles of what a convolution reads, as the copy engine brings them: the places of a tile are a box of the image.

For one tap of the kernel, neighbouring rows of the product read neighbouring places of the image, moved by the tap;
places outside of it are zeros, as the convolution's padding is:

    rows of a tile  =  a box of images x lines x columns        one copy: the box at (corner * stride + tap * dilation
    depth           =  taps x channels                                    - padding), 128 bytes of channels
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....passes.base import PassError
from ..integers import Int, both
from ..launch import Launch
from ..warp_groups import LINE
from .access import Access, Dim
from .boxes import MOST_BOX, MOST_DIMS, STRIDE_UNIT, Box, BoxedTile, add_map
from .operands import Operand
from .ways import unravelled


@dataclass(frozen=True)
class Side:
    """A dimension of the rows, as the copy engine sees it.

    Attributes:
        size: how many rows it has.
        extent: elements of the tensor along it.
        stride: elements of memory from one to the next.
        step: how many of these a row is from the next.
        start: where the first row begins, which may lie before the tensor.
        taps: of each dimension of the kernel, by how many elements a tap moves it.
    """

    size: int
    extent: int
    stride: int
    step: int
    start: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Window:
    """How the rows and the depth of an operand lie.

    Attributes:
        sides: the dimensions of the rows, outermost first.
        kernel: how many taps there are in each dimension of the kernel.
        channels: the elements side by side.
        batch: the dimensions of the batch.
        start: the tensor's first element.
        element_bytes: the size of an element.
    """

    sides: tuple[Side, ...]
    kernel: tuple[int, ...]
    channels: int
    batch: tuple[Dim, ...]
    start: int
    element_bytes: int

    def tile(self, rows: int) -> tuple[int, ...]:
        """The extents of a tile of so many rows, a power of two: those of which the fewest are needed."""

        def count(extents: tuple[int, ...]) -> int:
            return math.prod(self.counts(extents))

        return min(_splits(rows, len(self.sides)), key=count)

    def counts(self, extents: tuple[int, ...]) -> list[int]:
        """How many tiles there are along each dimension."""
        return [-(-side.size // extent) for side, extent in zip(self.sides, extents, strict=True)]

    def tiles(self, rows: int) -> int:
        """How many tiles there are."""
        return math.prod(self.counts(self.tile(rows)))

    def box(self, rows: int) -> Box | None:
        """What the copy engine is told; None where it cannot bring such tiles."""
        extents = self.tile(rows)
        outer = [dim for dim in reversed(self.batch) if dim.stride]
        pairs = list(zip(self.sides, extents, strict=True))[::-1]
        sizes = (self.channels, *(side.extent for side, _ in pairs), *(dim.size for dim in outer))
        strides = [*(side.stride for side, _ in pairs), *(dim.stride for dim in outer)]
        box = (*(1 + (extent - 1) * side.step for side, extent in pairs), *(1 for _ in outer))
        steps = (1, *(side.step for side, _ in pairs), *(1 for _ in outer))
        aligned = [self.start * self.element_bytes, *(stride * self.element_bytes for stride in strides)]
        if len(sizes) > MOST_DIMS or max(box) > MOST_BOX or max(steps) > _MOST_STEP:
            return None
        if any(number % STRIDE_UNIT for number in aligned) or self.channels * self.element_bytes % LINE:
            return None
        return Box(sizes, tuple(aligned[1:]), (LINE // self.element_bytes, *box), steps)


_MOST_STEP = 8


def window_of(access: Access) -> Window | None:
    """An operand as windows of an image; None where it is none that the copy engine knows its way about."""
    *taps, channels = access.depth or (Dim(1, 0),)
    if channels.stride != 1 or any(channels.moves) or not access.rows:
        return None
    sides, start = [], access.start
    for row in access.rows:
        guards = [place for place, move in enumerate(row.moves) if move]
        if not guards:
            sides.append(Side(row.size, row.size, row.stride, 1, 0, (0,) * len(taps)))
            continue
        guard, step = access.guards[guards[0]], row.moves[guards[0]]
        moved = [tap.moves[guards[0]] for tap in taps]
        if len(guards) > 1 or step < 0 or row.stride % step:
            return None
        unit = row.stride // step
        start -= guard.start * unit
        sides.append(Side(row.size, guard.size, unit, step, guard.start, tuple(moved)))
    if len([1 for row in access.rows if any(row.moves)]) != len(access.guards) or start < 0:
        return None
    for place, tap in enumerate(taps):
        if tap.stride != sum(side.stride * side.taps[place] for side in sides) or not any(tap.moves):
            return None
    kernel = tuple(tap.size for tap in taps)
    return Window(tuple(sides), kernel, channels.size, access.batch, start, access.element_bytes)


def _splits(rows: int, parts: int) -> Iterator[tuple[int, ...]]:
    """The ways to make a power of two of so many factors, those with the longest last one first."""
    powers = [1 << place for place in range(rows.bit_length())]
    for split in itertools.product(powers, repeat=parts - 1):
        if rows % math.prod(split) == 0:
            yield (*split, rows // math.prod(split))


@dataclass(frozen=True)
class WindowTile(BoxedTile):
    """A tile of an operand in shared memory, whose rows are a box of places.

    Attributes:
        window: how they lie.
    """

    window: Window

    def boxes(self, batch: Int, row: Int, depth: Int) -> Iterator[tuple[int, list[Int]]]:
        """Where in the tile each box goes, and its corner in the operand."""
        window, extents = self.window, self.window.tile(self.rows)
        corners = [part * extent for part, extent in zip(self._tile(row), extents, strict=True)]
        per_panel = LINE // window.element_bytes
        for number in range(self.depth // per_panel):
            tap, channel = divmod(depth + number * per_panel, window.channels)
            taps = unravelled(tap, window.kernel)
            places = []
            for side, corner in zip(window.sides, corners, strict=True):
                place = corner * side.step + side.start
                for part, move in zip(taps, side.taps, strict=True):
                    place = place + part * move
                places.append(place)
            yield number * self.panel_bytes, [channel, *reversed(places), *self._batch_corner(batch)]

    def place(self, start: Int, offset: Int) -> Int:
        """The row of the product that is `offset` rows into the tile from `start` on; past the last if it is none."""
        sizes, extents = [side.size for side in self.window.sides], self.window.tile(self.rows)
        tiles, inner = self._tile(start), unravelled(offset, extents)
        row, inside = Int(0), []
        for size, extent, tile, part in zip(sizes, extents, tiles, inner, strict=True):
            place = tile * extent + part
            row = row * size + place
            inside.append(place.below(size) if size % extent else None)
        return row.where(both(*inside), math.prod(sizes))

    def bound(self, rows: int) -> int:
        """A number that divides the rows of the product only where no tile reaches past them."""
        return rows if self.window.tiles(self.rows) * self.rows == rows else rows + 1

    def _tile(self, row: Int) -> list[Int]:
        return unravelled(row // self.rows, self.window.counts(self.window.tile(self.rows)))


def window_tile(launch: Launch, operand: Operand, rows: int, depth: int) -> WindowTile:
    """A tile of an operand of a launch, whose kernel gets a tensor map for it.

    Raises:
        PassError: the copy engine cannot bring it.
    """
    window = window_of(operand.access)
    box = None if window is None else window.box(rows)
    if window is None or box is None:
        raise PassError("the copy engine cannot bring such an operand", launch.function.location)
    map_ = add_map(launch, operand.memory.base, box, window.start)
    return WindowTile(operand.access, map_, rows, depth, window)
