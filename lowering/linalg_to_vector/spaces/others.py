"""The search spaces of attention and of Winograd convolutions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ....lowering.target import Target
from ....machines.convolutions import WinogradStrips
from ....machines.tiles import step_cycles
from .space import Axis, Parameters, RefusedError, SearchSpace, SpaceChoice, log2

# Numbers of keys, rows and vectors of columns to try; tiles that need too many registers are refused.
_KEYS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24)
_ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14)
_REGISTERS = (1, 2, 3, 4)
_MOST_SCORE_BYTES = 256 * 1024
"""Maximum size in bytes of a block's scores: a choice that second-level caches hold; stacks of threads are larger."""


@dataclass(frozen=True)
class AttentionSpace(SearchSpace):
    """The queries of a block, the keys of a tile of scores, and the rows and columns of a tile of the result.

    Attributes:
        sizes: numbers of queries (`q`), keys (`k`), elements (`d`) and columns of the value (`v`).
        lanes: elements of a vector register.
        heads: number of heads in all.
    """

    sizes: Mapping[str, int] = None  # type: ignore[assignment]  # given by `of`
    lanes: int = 1
    heads: int = 1

    @staticmethod
    def of(sizes: Mapping[str, int], heads: int, default: Mapping[str, Any], target: Target) -> AttentionSpace:
        """Returns the space of a kernel of these sizes and this default schedule."""
        lanes = target.lanes(4)
        axes = (
            Axis.of("queries", [min(sizes["q"], lanes * count) for count in (1, 2, 3, 4, 8)]),
            Axis.of("keys", [count for count in _KEYS if count <= sizes["k"]]),
            Axis.of("rows", [count for count in _ROWS if count <= sizes["q"]]),
            Axis.of("columns", [min(sizes["v"], lanes * count) for count in _REGISTERS]),
            Axis.of("unroll", (1, 2, 4, 8)),
        )
        return AttentionSpace(target.machine, default, axes, dict(sizes), lanes, heads)

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        found = self.changed({name: value for name, value in choice.items() if value is not None})
        whole = self.complete(found)
        registers = self.machine.vector_registers
        across = -(-min(whole["queries"], self.sizes["q"]) // self.lanes)
        if (whole["keys"] + 1) * across + 1 > registers:
            raise RefusedError(f"a tile of {whole['keys']} keys needs more than {registers} registers")
        if (whole["rows"] + 1) * -(-whole["columns"] // self.lanes) + 1 > registers:
            raise RefusedError(f"a tile of {whole['rows']} rows needs more than {registers} registers")
        if whole["rows"] > whole["queries"]:
            raise RefusedError("a tile has more rows than a block has queries")
        if 4 * whole["queries"] * self.sizes["k"] > _MOST_SCORE_BYTES:
            raise RefusedError(f"scores of a block need more than {_MOST_SCORE_BYTES >> 10} KiB of the stack")
        return found

    def features(self, parameters: Parameters) -> dict[str, float]:
        whole = self.complete(parameters)
        blocks = self.heads * -(-self.sizes["q"] // max(1, whole["queries"]))
        return {
            **{f"size {name}": log2(size) for name, size in sorted(self.sizes.items())},
            **{name: float(whole[name]) for name in ("queries", "keys", "rows", "columns", "unroll")},
            "blocks": log2(blocks),
            "scores of L1": log2(4 * whole["queries"] * self.sizes["k"] / self.machine.l1_bytes),
            "predicted": log2(self.predicted(parameters) or 0),
        }

    def predicted(self, parameters: Parameters) -> float | None:
        whole, sizes = self.complete(parameters), self.sizes
        queries = min(whole["queries"], sizes["q"])
        across, over = -(-queries // self.lanes), -(-whole["columns"] // self.lanes)
        scores = -(-sizes["k"] // whole["keys"]) * sizes.get("d", 1)
        scores *= step_cycles(self.machine, whole["keys"], across, is_near=True)
        tiles = -(-queries // whole["rows"]) * -(-sizes["v"] // whole["columns"])
        sums = tiles * sizes["k"] * step_cycles(self.machine, whole["rows"], over, is_near=True)
        blocks = self.heads * -(-sizes["q"] // queries)
        return (scores + sums) * -(-blocks // 2)


@dataclass(frozen=True)
class WinogradSpace(SearchSpace):
    """The images, rows and columns of tiles of a strip, and those of a parallel block of the transforms.

    Attributes:
        tiles: images, and rows and columns of tiles.
        strips: work of the strips.
    """

    tiles: tuple[int, int, int] = field(kw_only=True)
    strips: WinogradStrips = field(kw_only=True)

    @staticmethod
    def axes_of(tiles: tuple[int, int, int]) -> tuple[Axis, ...]:
        """Returns the axes for numbers of images, and of rows and columns of tiles."""
        images, heights, widths = (sorted({-(-size // cut) for cut in range(1, size + 1)}) for size in tiles)
        parts = Axis.of("parts", (1, 2, 4, 8))
        return Axis.of("images", images), Axis.of("height", heights), Axis.of("width", widths), parts

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        strip = list(self.default["strip"])
        for place, name in enumerate(("height", "width")):
            if choice.get(name) is not None:
                strip[place] = choice[name]
        images = choice.get("images") or self.default["images"]
        if images > 1 and strip != list(self.tiles[1:]):
            raise RefusedError("a strip of several images needs all of their tiles")
        is_default = strip == list(self.default["strip"]) and images == self.default["images"]
        if not is_default and self._strip_ns(images, strip) is None:
            raise RefusedError(f"a strip of {images}x{strip[0]}x{strip[1]} tiles takes too much memory")
        part = list(self.default["part"]) if strip == list(self.default["strip"]) else list(strip)
        if choice.get("parts") is not None:
            part = [-(-strip[0] // choice["parts"]), strip[1]]
        return self.changed({"images": images, "strip": strip, "part": part})

    def _strip_ns(self, images: int, strip: list[int]) -> float | None:
        return self.strips.strip_ns(self.machine, (images * strip[0], strip[1]))

    def features(self, parameters: Parameters) -> dict[str, float]:
        whole = self.complete(parameters)
        strip, part = whole["strip"], whole["part"]
        count = whole["images"] * math.prod(strip)
        points, channels, columns = math.prod(self.strips.points), self.strips.channels, self.strips.columns
        tile_bytes = 4 * points * (channels + columns)
        return {
            "points": float(points),
            "channels": log2(channels),
            "columns": log2(columns),
            "tiles": log2(math.prod(self.tiles)),
            "strip": log2(count),
            "strip images": log2(whole["images"]),
            "strip width": log2(strip[1]),
            "strip of L2": log2(count * tile_bytes / self.machine.l2_bytes),
            "weights of L2": log2(4 * points * channels * columns / self.machine.l2_bytes),
            "parts": log2(-(-strip[0] // part[0]) * -(-strip[1] // part[1])),
            "predicted": log2(self.predicted(parameters) or 0),
        }

    def predicted(self, parameters: Parameters) -> float | None:
        whole = self.complete(parameters)
        images, strip = whole["images"], whole["strip"]
        each = self._strip_ns(images, strip)
        batch, rows, cols = self.tiles
        return None if each is None else each * -(-batch // images) * -(-rows // strip[0]) * -(-cols // strip[1])
