"""Tiles of a convolution's input as the copy engine copies them: the rows of a tile are a box of the image.

For one tap of the kernel, neighbouring rows of the product read neighbouring positions of the image, shifted by the
tap. Positions outside the image are zeros, like the convolution's padding:

    rows of a tile  =  a box of images x lines x columns        one copy: the box at (corner * stride + tap * dilation
    depth           =  taps x channels                                    - padding), 128 bytes of channels
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from .....passes.infra.base import PassError
from ...emission.launch import LaunchContext
from ...instructions.integers import Int, both
from ...instructions.warp_groups import LINE
from .access import Dim, OperandAccess
from .boxes import MOST_BOX, MOST_DIMS, MOST_STEP, STRIDE_UNIT, BoxedOperand, BoxedTile, add_map
from .index_paths import unravelled
from .operands import ContractionOperand


@dataclass(frozen=True)
class Im2colDim:
    """A dimension of the rows, as the copy engine accesses it.

    Attributes:
        size: number of rows along it.
        extent: elements of the tensor along it.
        stride: distance of the tensor's elements in memory, in elements.
        step: distance of neighbouring rows in elements of the tensor.
        start: tensor index of the first row, which may be negative.
        taps: for each dimension of the kernel, the shift per tap in elements of the tensor.
    """

    size: int
    extent: int
    stride: int
    step: int
    start: int
    taps: tuple[int, ...]


@dataclass(frozen=True)
class Im2colLayout:
    """Layout of the rows and the depth of an operand.

    Attributes:
        sides: dimensions of the rows, outermost first.
        kernel: number of taps in each dimension of the kernel.
        channels: number of contiguous elements.
        batch: dimensions of the batch.
        start: offset of the tensor's first element.
        element_bytes: size of an element in bytes.
    """

    sides: tuple[Im2colDim, ...]
    kernel: tuple[int, ...]
    channels: int
    batch: tuple[Dim, ...]
    start: int
    element_bytes: int

    def tile(self, rows: int) -> tuple[int, ...]:
        """Returns the extents of a tile of `rows` rows, a power of two; chooses those that need the fewest tiles."""

        def count(extents: tuple[int, ...]) -> int:
            return math.prod(self.counts(extents))

        return min(_splits(rows, len(self.sides)), key=count)

    def counts(self, extents: tuple[int, ...]) -> list[int]:
        """Returns the number of tiles along each dimension."""
        return [-(-side.size // extent) for side, extent in zip(self.sides, extents, strict=True)]

    def tiles(self, rows: int) -> int:
        """Returns the number of tiles."""
        return math.prod(self.counts(self.tile(rows)))

    def box(self, rows: int) -> BoxedOperand | None:
        """Returns the description for the copy engine, or None if it cannot copy such tiles."""
        extents = self.tile(rows)
        outer = [dim for dim in reversed(self.batch) if dim.stride]
        pairs = list(zip(self.sides, extents, strict=True))[::-1]
        sizes = (self.channels, *(side.extent for side, _ in pairs), *(dim.size for dim in outer))
        strides = [*(side.stride for side, _ in pairs), *(dim.stride for dim in outer)]
        box = (*(1 + (extent - 1) * side.step for side, extent in pairs), *(1 for _ in outer))
        steps = (1, *(side.step for side, _ in pairs), *(1 for _ in outer))
        aligned = [self.start * self.element_bytes, *(stride * self.element_bytes for stride in strides)]
        if len(sizes) > MOST_DIMS or max(box) > MOST_BOX or max(steps) > MOST_STEP:
            return None
        if any(number % STRIDE_UNIT for number in aligned) or self.channels * self.element_bytes % LINE:
            return None
        return BoxedOperand(sizes, tuple(aligned[1:]), (LINE // self.element_bytes, *box), steps)


def window_of(access: OperandAccess) -> Im2colLayout | None:
    """Returns an operand as windows of an image, or None if the copy engine cannot copy them."""
    *taps, channels = access.depth or (Dim(1, 0),)
    if channels.stride != 1 or any(channels.moves) or not access.rows:
        return None
    sides, start = [], access.start
    for row in access.rows:
        guards = [place for place, move in enumerate(row.moves) if move]
        if not guards:
            sides.append(Im2colDim(row.size, row.size, row.stride, 1, 0, (0,) * len(taps)))
            continue
        guard, step = access.guards[guards[0]], row.moves[guards[0]]
        moved = [tap.moves[guards[0]] for tap in taps]
        if len(guards) > 1 or step < 0 or row.stride % step:
            return None
        unit = row.stride // step
        start -= guard.start * unit
        sides.append(Im2colDim(row.size, guard.size, unit, step, guard.start, tuple(moved)))
    if len([1 for row in access.rows if any(row.moves)]) != len(access.guards) or start < 0:
        return None
    for place, tap in enumerate(taps):
        if tap.stride != sum(side.stride * side.taps[place] for side in sides) or not any(tap.moves):
            return None
    kernel = tuple(tap.size for tap in taps)
    return Im2colLayout(tuple(sides), kernel, channels.size, access.batch, start, access.element_bytes)


def _splits(rows: int, parts: int) -> Iterator[tuple[int, ...]]:
    """Yields the factorizations of a power of two into `parts` factors, those with the largest last factor first."""
    powers = [1 << place for place in range(rows.bit_length())]
    for split in itertools.product(powers, repeat=parts - 1):
        if rows % math.prod(split) == 0:
            yield (*split, rows // math.prod(split))


@dataclass(frozen=True)
class WindowTile(BoxedTile):
    """A tile of an operand in shared memory whose rows are a box of positions.

    Attributes:
        window: layout of the operand.
    """

    window: Im2colLayout

    def boxes(self, batch: Int, row: Int, depth: Int) -> Iterator[tuple[int, list[Int]]]:
        """Yields the offset of each box in the tile, and its corner in the operand."""
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
        """Returns the row of the product at `offset` in the tile at `start`; past the last if there is none."""
        sizes, extents = [side.size for side in self.window.sides], self.window.tile(self.rows)
        tiles, inner = self._tile(start), unravelled(offset, extents)
        row, inside = Int(0), []
        for size, extent, tile, part in zip(sizes, extents, tiles, inner, strict=True):
            place = tile * extent + part
            row = row * size + place
            inside.append(place.below(size) if size % extent else None)
        return row.where(both(*inside), math.prod(sizes))

    def bound(self, rows: int) -> int:
        """Returns a number that divides the product's rows only if no tile extends past them."""
        return rows if self.window.tiles(self.rows) * self.rows == rows else rows + 1

    def _tile(self, row: Int) -> list[Int]:
        return unravelled(row // self.rows, self.window.counts(self.window.tile(self.rows)))


def window_tile(launch: LaunchContext, operand: ContractionOperand, rows: int, depth: int) -> WindowTile:
    """Creates a tile of a launch's operand, with a tensor map as an additional argument of the kernel.

    Raises:
        PassError: the copy engine cannot copy it.
    """
    window = window_of(operand.access)
    box = None if window is None else window.box(rows)
    if window is None or box is None:
        raise PassError("the copy engine cannot copy an operand with this layout", launch.function.location)
    map_ = add_map(launch, operand.memory.base, box, window.start)
    return WindowTile(operand.access, map_, rows, depth, window)
