"""Times of convolutions on one core: directly, by Winograd's method, and of the strips of the latter."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .caches import block_bytes
from .machine import Machine
from .paces import paces_of
from .tiles import tile_cycles

# Part of the shorter of two overlapping phases that is not hidden, and overhead of a product in rows.
_NOT_HIDDEN, _ROWS_MORE = 0.3, 4

# Maximum size of a strip in bytes; a larger one would show in a program's memory use.
_MOST_STRIP_BYTES = 16 << 20

# Maximum number of consecutive tiles of a strip: a choice.
_MOST_RUN = 64

# Registers of a row of sums in a strip's products. A register each holds the weights of the row and a broadcast.
_STRIP_VECTORS = 2


def direct_ns(machine: Machine, weights: int, element_bytes: int, places: int) -> float:
    """Returns the time of a direct convolution.

    Args:
        machine: the machine.
        weights: number of weights, each of which is multiplied at all places.
        element_bytes: size of an element.
        places: number of places of the result.
    """
    paces = paces_of(machine)
    return max(2 * weights * places / paces.product_flops, element_bytes * weights / paces.cold_weight_bytes)


def winograd_ns(
    machine: Machine,
    weights: int,
    element_bytes: int,
    tiles: int,
    transformed: float,
    stacked_bytes: float = 0.0,
    copied_bytes: float = 0.0,
) -> float:
    """Returns the time of a convolution by Winograd's method.

    Args:
        machine: the machine.
        weights: number of transformed weights, each of which is multiplied at all tiles.
        element_bytes: size of an element.
        tiles: number of tiles.
        transformed: number of elements that the transforms make, in whole vectors.
        stacked_bytes: bytes that are copied before, in order to be stacked.
        copied_bytes: bytes that are copied before or after for another reason.
    """
    paces = paces_of(machine)
    products = 2 * weights * (tiles + _ROWS_MORE) / paces.product_flops
    streaming = element_bytes * weights / paces.cold_weight_bytes
    copies = stacked_bytes / paces.stacked_bytes + copied_bytes / paces.copied_bytes
    around = transformed / paces.transformed + copies
    return max(products, streaming) + _NOT_HIDDEN * min(products, streaming) + around


@dataclass(frozen=True)
class WinogradStrips:
    """Work of the strips of tiles of a Winograd convolution.

    Attributes:
        points: numbers of points at which a tile is evaluated, along rows and columns.
        tile: rows and columns of the results of a tile.
        channels: channels of the input.
        columns: channels of the result.
        image_bytes: size of an image of the input.
    """

    points: tuple[int, int]
    tile: tuple[int, int]
    channels: int
    columns: int
    image_bytes: int

    def strip_ns(self, machine: Machine, shape: tuple[int, int]) -> float | None:
        """Returns the time of a strip of `shape` rows and columns of tiles; None if it would take too much memory."""
        paces, vector = paces_of(machine), machine.vector_bytes
        points, channels, columns = math.prod(self.points), self.channels, self.columns
        tile_bytes = 4 * points * (channels + columns)
        weights = 4 * points * channels * columns
        height = (machine.vector_registers - _STRIP_VECTORS - 1) // _STRIP_VECTORS
        count = math.prod(shape)
        if count * tile_bytes > _MOST_STRIP_BYTES and count > height:
            return None
        # Rows are distributed evenly over the register tiles: 22 rows are two tiles of 11.
        tiles = -(-count // height)
        panels = -(-columns // (_STRIP_VECTORS * vector // 4))
        step = tile_cycles(machine, -(-count // tiles), _STRIP_VECTORS, _STRIP_VECTORS * vector, channels)
        products = points * panels * channels * tiles * step / paces.strip_cycles
        transforms = 0.0
        for size in (channels, columns):
            # Rows at multiples of a page share a few lines of the first-level cache: the transform takes twice as long.
            is_aliased = 4 * count * size % machine.page_bytes == 0
            transforms += count * points * size * (1 + is_aliased) / paces.transformed
        spilled = count * tile_bytes * paces.spilled_ns * math.log2(max(1, count * tile_bytes / block_bytes(machine)))
        far = max(0, weights - machine.l2_bytes)
        reread = weights * paces.strip_reread_ns + far * paces.far_reread_ns
        return products + transforms + spilled + reread + self._waits_ns(machine, shape[0])

    def run_ns(self, machine: Machine, most: int) -> dict[int, float]:
        """Returns the times of strips of consecutive tiles, by their number up to `most`."""
        times = {count: self.strip_ns(machine, (1, count)) for count in range(1, min(most, _MOST_RUN) + 1)}
        return {count: time for count, time in times.items() if time is not None}

    def _waits_ns(self, machine: Machine, rows: int) -> float:
        """Returns the time for which a strip waits for the lines of its pixels.

        Each line begins on another page, to which no hardware prefetcher reads ahead.
        """
        lines = rows * self.tile[0] + self.points[0] - self.tile[0]
        return lines * machine.memory_latency if self.image_bytes > machine.l2_bytes else 0.0
