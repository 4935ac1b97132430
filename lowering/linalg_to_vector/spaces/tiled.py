"""The search space of register-tiled kernels: contractions, convolutions and depthwise convolutions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....machines import caches
from ....machines.machine import Machine
from ....machines.matrix_units import divisor
from ....machines.paces import paces_of
from ....machines.tiles import TILE_CYCLES, depthwise_cycles, step_cycles, waiting_cycles
from ..schedules.contraction import is_panel_outermost
from ..schedules.tiles import Extents, cut_rows, registers_per_row, tile_step_cycles, whole_tiles
from ..schedules.typical import tiles_in
from .space import Axis, Parameters, RefusedError, SearchSpace, SpaceChoice, counts_up_to, divisors_up_to, log2

_MOST_POSITIONS = 24
"""Maximum number of positions of a tile; more only make the code longer."""

_MOST_TOGETHER = 4
"""Maximum number of panels of a tile."""

# Steps of a reduction per iteration to try, and taps of a depthwise kernel: a row, or all, of usual kernels.
_STEPS = (1, 2, 4, 8)
_UNROLLS = (1, 3, 5, 7, 9, 15, 25, 49)
_THREADS = 2
"""Number of threads among which the cost function distributes blocks."""


@dataclass(frozen=True)
class TiledSpace(SearchSpace):
    """Register tiles, parallel blocks, the order of loops, unrolling and prefetching of each group of columns.

    Attributes:
        groups: extents of the column groups.
        is_depthwise: whether channels are independent.
    """

    groups: tuple[Extents, ...] = ()
    is_depthwise: bool = False

    @staticmethod
    def of(groups: Sequence[Extents], default: Mapping[str, Any], *, is_depthwise: bool) -> TiledSpace:
        """Returns the space of a kernel with these column groups and this default schedule."""
        axes = [axis for number, group in enumerate(groups) for axis in _axes(group, _suffix(number), is_depthwise)]
        if any(group.block is not None or group.grains for group in groups):
            pass  # a step is a block of numbers or a product of tiles, which is not unrolled
        elif is_depthwise:
            most = max(math.prod(group.reduction[-2:]) for group in groups)
            axes.append(Axis.of("unroll", [count for count in _UNROLLS if count <= most]))
        else:
            axes.append(Axis.of("steps", _STEPS))
            axes.append(Axis.of("prefetch", (0, 1)))
        return TiledSpace(groups[0].machine, default, tuple(axes), tuple(groups), is_depthwise)

    def on(self, machine: Machine) -> TiledSpace:
        groups = tuple(replace(group, machine=machine) for group in self.groups)
        return replace(self, machine=machine, groups=groups)

    def parameters(self, choice: SpaceChoice) -> dict[str, Any]:
        tiles = [list(tile) for tile in self.default["tiles"]]
        blocks = [list(block) for block in self.default["blocks"]]
        panels = list(self.default.get("panels", [1] * len(self.groups)))
        lanes = list(self.default.get("lanes", [group.lane for group in self.groups]))
        outermost: list[int | None] = [None] * len(self.groups)
        for number, group in enumerate(self.groups):
            suffix = _suffix(number)

            def given(name: str, suffix: str = suffix) -> Any:
                return choice.get(f"{name}{suffix}")

            if given("tile") is not None:
                tiles[number] = _whole_tile(group, given("tile"))
            if given("panels") is not None:
                panels[number] = given("panels")
            if given("lanes") is not None:
                lanes[number] = given("lanes")
            outermost[number] = given("outermost")
            self._check_registers(group, tiles[number], panels[number], lanes[number])
            if any(given(name) is not None for name in ("tile", "rows", "columns", "panels")):
                blocks[number] = self._block(number, tiles[number], panels[number], given("rows"), given("columns"))
        found: dict[str, Any] = {"tiles": tiles, "blocks": blocks}
        if "panels" in self.default or any(count > 1 for count in panels):
            found["panels"] = panels
        if "lanes" in self.default:
            found["lanes"] = lanes
        if any(value is not None for value in outermost):
            usual = [is_panel_outermost(group) and not self.is_depthwise for group in self.groups]
            found["outermost"] = [int(a if b is None else b) for a, b in zip(usual, outermost, strict=True)]
        names = [name for name in ("unroll", "steps", "prefetch") if choice.get(name) is not None]
        return self.changed(found | {name: choice[name] for name in names})

    def _check_registers(self, group: Extents, tile: Sequence[int], panels: int, lanes: int) -> None:
        """Checks that the sums of a tile fit the registers.

        Raises:
            RefusedError: they do not.
        """
        if group.grains:
            return  # the tiles are always those of the default schedule
        vectors = registers_per_row(replace(group, lane=lanes)) * panels
        needed = math.prod(tile) * vectors + (1 if self.is_depthwise else vectors + 1)
        if needed > self.machine.vector_registers:
            shape = "x".join(map(str, tile))
            registers = self.machine.vector_registers
            raise RefusedError(f"a tile of {shape} positions needs {needed} of {registers} registers")

    def _block(
        self, number: int, tile: Sequence[int], together: int, rows: int | None, columns: int | None
    ) -> list[int]:
        """Returns a parallel block of a group: rows in about `rows` parts and panels in `columns` parts.

        Raises:
            RefusedError: the panels cannot be divided evenly.
        """
        group, (*usual, part) = self.groups[number], self.default["blocks"][number]
        if rows is None:
            rows = math.prod(-(-group.outer[dim] // max(1, usual[dim])) for dim in group.rows[-2:])
        width = part if columns is None else group.panels // columns
        if width % together:
            width = together * divisor(group.panels // together, max(1, width // together))
        if group.panels % together or group.panels % width:
            raise RefusedError(f"{together} of {group.panels} panels at once leave a remainder")
        whole = [size if dim in group.rows[-2:] else 1 for dim, size in enumerate(group.outer)]
        if self.is_depthwise:
            width = group.panels
        if rows == 1:
            return [*whole_tiles(group, tile, whole), width]
        return [*whole_tiles(group, tile, cut_rows(group, tile, whole, rows)), width]

    def features(self, parameters: Parameters) -> dict[str, float]:
        number = max(range(len(self.groups)), key=lambda index: self.groups[index].flops)
        group, whole = self.groups[number], self.complete(parameters)
        tile, block = whole["tiles"][number], whole["blocks"][number]
        lane = whole.get("lanes", [item.lane for item in self.groups])[number]
        together = whole.get("panels", [1] * len(self.groups))[number]
        vectors = registers_per_row(replace(group, lane=lane)) * together
        depth, places = math.prod(group.reduction), math.prod(tile)
        blocks = _blocks(group, block)
        usual = whole.get("outermost", [int(is_panel_outermost(item)) for item in self.groups])[number]
        panel, row = group.element_bytes * depth * group.lane, group.element_bytes * group.reduction[-1]
        rows = math.prod(block[:-1])
        moved = group.weight_bytes * group.weights + row * math.prod(group.outer)
        return {
            "depthwise": float(self.is_depthwise),
            "flops": log2(sum(item.flops for item in self.groups)),
            "intensity": log2(group.flops / max(1, moved)),
            "places": log2(math.prod(group.outer)),
            "panels of all": log2(group.panels),
            "depth": log2(depth),
            "stride": float(group.stride),
            "tile rows": float(tile[group.rows[-1]] if group.rows else 1),
            "tile places": float(places),
            "vectors": float(vectors),
            "registers": (places * vectors + vectors + 1) / self.machine.vector_registers,
            "step cycles": step_cycles(self.machine, places, vectors),
            "efficiency": places * vectors / self.machine.fma_units / step_cycles(self.machine, places, vectors),
            "rest": _rest(group, block, tile),
            "panel of L1": log2(panel * together / self.machine.l1_bytes),
            "block of L2": log2((row * rows + panel * block[-1]) / self.machine.l2_bytes),
            "weight of L2": log2(group.weight_bytes / self.machine.l2_bytes),
            "weight of L3": log2(group.weight_bytes * group.weights / self.machine.l3_bytes),
            "blocks": log2(blocks),
            "block panels": log2(block[-1]),
            "block rows": log2(rows),
            "largest share": _largest_share(blocks),
            "outermost": float(usual),
            "unroll": float(whole.get("unroll", 0)),
            "steps": float(whole.get("steps", -1)),
            "prefetch": float(whole.get("prefetch", 1)),
        }

    def predicted(self, parameters: Parameters) -> float | None:
        whole = self.complete(parameters)
        lanes = whole.get("lanes", [group.lane for group in self.groups])
        panels = whole.get("panels", [1] * len(self.groups))
        total = 0.0
        for group, tile, block, lane, together in zip(
            self.groups, whole["tiles"], whole["blocks"], lanes, panels, strict=True
        ):
            blocks = _blocks(group, block)
            cycles = self._block_cycles(group, tile, block, lane, together)
            total += blocks * cycles * _largest_share(blocks)
        return total

    def _block_cycles(
        self, group: Extents, tile: Sequence[int], block: Sequence[int], lane: int, together: int
    ) -> float:
        """Returns the cycles of a parallel block of a group."""
        machine, depth = group.machine, math.prod(group.reduction)
        sizes = [min(part, size) for part, size in zip(block[:-1], group.outer, strict=True)]
        count, vectors = tiles_in(sizes, sizes, tile), registers_per_row(replace(group, lane=lane))
        inner = [tile[dim] for dim in group.rows[-2:]] or [1]
        if self.is_depthwise:
            each = depthwise_cycles(machine, inner, group.reduction, group.stride, vectors)
            return count * group.panels * -(-group.lane // lane) * each
        panel_bytes = group.element_bytes * depth * group.lane
        sums = vectors * together
        streamed = sums if panel_bytes * together > caches.near_bytes(machine) else 0
        step = step_cycles(machine, math.prod(tile), sums, streamed)
        if group.grains:
            step = tile_step_cycles(group, math.prod(tile), streamed)
        waits = waiting_cycles(machine, group.weights * group.weight_bytes, together * panel_bytes / depth)
        passes = min(block[-1], group.panels) / together
        stream = panel_bytes * min(block[-1], group.panels) / paces_of(machine).stream_bytes
        return passes * depth * max(count * step, waits) + passes * count * TILE_CYCLES + stream


def _axes(group: Extents, suffix: str, is_depthwise: bool) -> list[Axis]:
    sizes = [group.outer[dim] for dim in group.rows[-2:]]
    vectors = 1 if is_depthwise else registers_per_row(group)
    most = min(_MOST_POSITIONS, max(1, (group.machine.vector_registers - vectors - 1) // vectors))
    shapes = itertools.product(*(range(1, min(size, most) + 1) for size in sizes))
    tiles = sorted((shape for shape in shapes if math.prod(shape) <= most), key=lambda s: (math.prod(s), s))
    places = math.prod(sizes)
    axes = [] if group.grains else [Axis.of(f"tile{suffix}", tiles)]
    axes.append(Axis.of(f"rows{suffix}", counts_up_to(places)))
    if is_depthwise:
        lanes = group.machine.lanes(group.element_bytes)
        widths = [lanes * count for count in (1, 2, 4) if group.lane % (lanes * count) == 0]
        return [*axes, Axis.of(f"lanes{suffix}", [*widths, group.lane])]
    axes.append(Axis.of(f"columns{suffix}", divisors_up_to(group.panels, 32)))
    if group.block is None and not group.grains:
        axes.append(Axis.of(f"panels{suffix}", divisors_up_to(group.panels, _MOST_TOGETHER)))
    axes.append(Axis.of(f"outermost{suffix}", (0, 1)))
    return axes


def _suffix(number: int) -> str:
    return f" {number}" if number else ""


def _whole_tile(group: Extents, inner: Sequence[int]) -> list[int]:
    tile, rows = [1] * len(group.outer), group.rows[-2:]
    if len(rows) != len(inner):  # the choice was made for a kernel with other dimensions
        raise RefusedError(f"a tile of {len(inner)} dimensions does not suit {len(rows)} dimensions of rows")
    for dim, step in zip(rows, inner, strict=True):
        tile[dim] = step
    return tile


def _blocks(group: Extents, block: Sequence[int]) -> int:
    sizes = (*group.outer, group.panels)
    return math.prod(-(-size // max(1, part)) for size, part in zip(sizes, block, strict=True))


def _largest_share(blocks: int) -> float:
    """Returns the share of the blocks that the thread with most of them gets."""
    return -(-blocks // _THREADS) / blocks


def _rest(group: Extents, block: Sequence[int], tile: Sequence[int]) -> float:
    """Returns the work of all tiles, relative to that of whole ones."""
    sizes = [min(part, size) for part, size in zip(block[:-1], group.outer, strict=True)]
    return tiles_in(sizes, sizes, tile) * math.prod(tile) / math.prod(sizes)
