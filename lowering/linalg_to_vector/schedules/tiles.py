"""What the register-tiled schedules share: extents, the choice of rows, the transform script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir

from ....passes.rewriting import walk
from ...target import Target
from ..tile_reads import Indexing, chunks_of


@dataclass(frozen=True)
class Schedule:
    """How a kernel is tiled.

    Attributes:
        name: the kind of schedule.
        parameters: the numbers it was made with; a tuner may replace them.
        text: the transform script, applied to the kernel.
    """

    name: str
    parameters: dict[str, int | list]
    text: str


@dataclass(frozen=True)
class Extents:
    """The iteration space of one column group.

    Attributes:
        outer: extents of the outer (and feature group) dimensions.
        panels: the number of panels.
        lane: the columns of one panel.
        reduction: extents of the reduced dimensions.
        element_bytes: the size of one element.
    """

    outer: tuple[int, ...]
    panels: int
    lane: int
    reduction: tuple[int, ...]
    element_bytes: int

    @property
    def flops(self) -> int:
        """Floating-point operations of the group."""
        return 2 * math.prod((*self.outer, self.panels, self.lane, *self.reduction))


@dataclass(frozen=True)
class Group:
    """A column group of a kernel: its number in the `stepwell.contraction` and `stepwell.root` tags, and its extents."""

    number: int
    extents: Extents


def groups_of(kernel: ir.Operation) -> Iterator[Group]:
    """The column groups of a kernel, by the tags that the lowering left."""
    for op in walk(kernel):
        if "stepwell.contraction" not in op.attributes:
            continue
        loops = Indexing(op.opview)
        sizes, parallel = loops.sizes, loops.parallel
        element = ir.RankedTensorType(op.results[0].type).element_type
        number = ir.IntegerAttr(op.attributes["stepwell.contraction"]).value
        outer = tuple(sizes[: parallel - 2])
        extents = Extents(outer, sizes[parallel - 2], sizes[parallel - 1], tuple(sizes[parallel:]), element.width // 8)
        yield Group(number, extents)


def registers_per_row(extents: Extents, target: Target) -> int:
    """How many vector registers one row of a panel takes."""
    lanes = target.lanes(extents.element_bytes)
    return sum(-(-chunk.lanes // lanes) for chunk in chunks_of(extents.lane, lanes))


def most_rows(extents: Extents, target: Target) -> int:
    """How many rows fit the registers beside one row of the weight and what is being broadcast."""
    vectors = registers_per_row(extents, target)
    return max(1, (target.vector_registers - vectors - 1) // vectors)


def best_rows(size: int, extents: Extents, target: Target) -> int:
    """The tile height that walks `size` rows in the least time; tiles that overhang are moved back, so they cost in full."""
    limit = min(size, most_rows(extents, target), 16)
    vectors = registers_per_row(extents, target)
    return min(range(1, limit + 1), key=lambda rows: (-(-size // rows) * step_cycles(rows, vectors), -rows))


def step_cycles(rows: int, vectors: int) -> float:
    """Cycles of one reduction step: two multiply-adds and two loads per cycle, four cycles from one sum to the next."""
    return max(rows * vectors / 2, (rows + vectors) / 2, 4) + 0.4


Choice = Callable[[Extents, Target], list[int]]
Blocks = Callable[[Extents, Sequence[int]], list[int]]


def schedule_groups(name: str, kernel: ir.Operation, target: Target, choose_rows: Choice, choose_blocks: Blocks) -> Schedule:
    """A schedule with `rows` and `blocks` per column group, taken from the kernel's `stepwell.schedule` if it has one."""
    groups = list(groups_of(kernel))
    given = kernel.attributes["stepwell.schedule"] if "stepwell.schedule" in kernel.attributes else None
    if given is not None:
        rows = [list(ir.DenseI64ArrayAttr(item)) for item in ir.ArrayAttr(given["rows"])]
        blocks = [list(ir.DenseI64ArrayAttr(item)) for item in ir.ArrayAttr(given["blocks"])]
    else:
        rows = [choose_rows(group.extents, target) for group in groups]
        blocks = [choose_blocks(group.extents, tile) for group, tile in zip(groups, rows, strict=True)]
    steps = [_group_script(*item) for item in zip(groups, rows, blocks, strict=True)]
    return Schedule(name, {"rows": rows, "blocks": blocks}, _SCRIPT.format(steps="\n".join(steps)))


_SCRIPT = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%kernel: !transform.any_op) {{
{steps}
    transform.yield
  }}
}}
"""


def _group_script(group: Group, rows: Sequence[int], blocks: Sequence[int]) -> str:
    """Blocks become an scf.forall, tiles loops inside it: panels outermost, so that one is read by all its rows in turn."""
    extents, number = group.extents, group.number
    sizes = [*extents.outer, extents.panels]
    block_tiles = [0 if block >= size else block for block, size in zip(blocks, sizes, strict=True)]
    inside = [min(block, size) for block, size in zip(blocks, sizes, strict=True)]
    tiles = [0 if tile >= size else tile for tile, size in zip([*rows, 1], inside, strict=True)]
    lines = [
        f"%root{number} = transform.structured.match attributes {{stepwell.root = {number} : i64}} in %kernel"
        " : (!transform.any_op) -> !transform.any_op"
    ]
    handle = f"%root{number}"
    if any(block_tiles):
        lines.append(
            f"%block{number}, %forall{number} = transform.structured.fuse {handle} tile_sizes {block_tiles} {{use_forall}}"
            " : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
        handle = f"%block{number}"
    count = sum(tile > 0 for tile in tiles)
    if count:
        order = [len(tiles) - 1, *range(len(tiles) - 1)]
        kinds = ", ".join(["!transform.any_op"] * (count + 1))
        lines.append(
            f"%tile{number}, %loops{number}:{count} = transform.structured.fuse {handle} tile_sizes {tiles} interchange {order}"
            f" : (!transform.any_op) -> ({kinds})"
        )
    return "\n".join(f"    {line}" for line in lines)
