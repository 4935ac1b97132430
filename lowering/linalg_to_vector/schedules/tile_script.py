"""Transform script of the register-tiled schedules: parallel blocks with loops over tiles in them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlir import ir

from ....dialects import discardable
from ....dialects.discardable_attribute import DiscardableAttribute
from ....machines.matrix_units import divisor
from ....passes.infra.base import PassError
from ....support.wording import quantity
from .base import Schedule, given_parameters
from .steps import CLEANUP, FOLD_EMPTY
from .tiles import ColumnGroupExtents, Extents

_PER_GROUP = ("tiles", "blocks", "panels", "lanes", "outermost")
"""Parameters with one entry for each column group."""

_EPILOGUE_ROWS = 4
"""Rows of vectors that an epilogue of a matrix unit's sums computes at once: enough to hide latencies."""

_ANNOTATIONS = {"steps": discardable.STEPS, "prefetch": discardable.PREFETCH}
"""Parameters that a schedule records only if they were given, with the attributes that carry them on sums."""


def make_schedule(
    name: str,
    kernel: ir.Operation,
    groups: Sequence[ColumnGroupExtents],
    tiles: list[list[int]],
    blocks: list[list[int]],
    *,
    is_panel_outermost: Callable[[Extents], bool],
    panels: Sequence[int] = (),
    unroll: int = 0,
    ahead: int = 1,
    lanes: Sequence[int] = (),
) -> Schedule:
    """Returns a schedule with these tiles and blocks, or with those in the kernel's `stepwell.schedule` instead.

    Args:
        name: the schedule's name.
        kernel: the kernel.
        groups: its column groups.
        tiles: per group, the register tile along the outer dimensions.
        blocks: per group, the parallel block along the outer dimensions and the panels.
        is_panel_outermost: returns whether a group's loop over panels is outside of those over rows.
        panels: per group, the number of panels of a register tile; one each if empty.
        unroll: maximum number of unrolled reduction steps (0: the vectoriser decides).
        ahead: number of elements of a row, used in successive steps, that may be read as one vector.
        lanes: per group, the columns of a register tile; empty for all columns of a panel.

    Optional parameters, per group: `outermost`, 1 if the loop over panels is outside of those over rows;
    `steps`, the reduction steps per iteration of the innermost loop; and `prefetch`, 0 to prefetch nothing.
    """
    parameters: dict[str, Any] = {"tiles": tiles, "blocks": blocks, "unroll": unroll}
    if lanes:
        parameters["lanes"] = list(lanes)
    if ahead > 1:
        parameters["ahead"] = ahead
    if any(count > 1 for count in panels):
        parameters["panels"] = list(panels)
    parameters |= given_parameters(kernel)
    widths = parameters.get("panels", [1] * len(groups))
    for key in (key for key in _PER_GROUP if key in parameters):
        if len(parameters[key]) != len(groups):
            given, wanted = quantity(len(parameters[key]), "entry"), quantity(len(groups), "group")
            raise PassError(f"'{key}' of the schedule has {given}, but the kernel has {wanted} of columns")
    columns = parameters.get("lanes", [group.extents.lane for group in groups])
    outermost = parameters.get("outermost", [int(is_panel_outermost(group.extents)) for group in groups])
    steps = [
        _group_script(group, [*tile, width], lane, block, parameters, is_panel_outermost=bool(is_outermost))
        for group, tile, width, lane, block, is_outermost in zip(
            groups, parameters["tiles"], widths, columns, parameters["blocks"], outermost, strict=True
        )
    ]
    return Schedule(name, parameters, _SCRIPT.format(steps="\n".join(steps)))


_SCRIPT = """
module attributes {{transform.with_named_sequence}} {{
  transform.named_sequence @__transform_main(%kernel: !transform.any_op) {{
{steps}
    transform.yield
  }}
}}
"""


def _group_script(
    group: ColumnGroupExtents,
    tile: Sequence[int],
    lane: int,
    block: Sequence[int],
    parameters: Mapping[str, Any],
    *,
    is_panel_outermost: bool,
) -> str:
    """Returns the script lines of one column group: blocks become an scf.forall, tiles loops inside it."""
    extents, number = group.extents, group.number
    sizes = [*extents.outer, extents.panels]
    blocks = [0 if part >= size else part for part, size in zip(block, sizes, strict=True)]
    inside = [min(part, size) for part, size in zip(block, sizes, strict=True)]
    tiles = [0 if part >= size else part for part, size in zip(tile, inside, strict=True)]
    lines, handle = [_match(f"%root{number}", "root", number)], f"%root{number}"
    if parameters["unroll"]:
        lines += _annotated(number, discardable.UNROLL, f"{parameters['unroll']} : i64")
    for key in (key for key in _ANNOTATIONS if key in parameters):
        lines += _annotated(number, _ANNOTATIONS[key], f"{parameters[key]} : i64")
    outer = list(range(len(tiles) - 1))
    fewest = [_least_rounds(extents, dim, step, inside[dim]) for dim, step in enumerate(tiles[:-1]) if step]
    if _is_alone(extents, tile):
        fewest = [0] * len(fewest)
    if extents.typical and is_panel_outermost and fewest:
        lines += _annotated(number, discardable.FEWEST, f"array<i64: {', '.join(map(str, fewest))}>")
        ends = [_end_in_block(extents, dim, inside[dim]) for dim, step in enumerate(tiles[:-1]) if step]
        lines += _annotated(number, discardable.ENDS, f"array<i64: {', '.join(map(str, itertools.chain(*ends)))}>")
    order = [len(tiles) - 1, *outer] if is_panel_outermost else [*outer, len(tiles) - 1]
    if any(blocks):
        sequence = f" interchange {order}" if is_panel_outermost and extents.is_panel_major else ""
        lines.append(
            f"%block{number}, %forall{number} = transform.structured.fuse {handle} tile_sizes {blocks}{sequence}"
            " {use_forall} : (!transform.any_op) -> (!transform.any_op, !transform.any_op)"
        )
        handle = f"%block{number}"
    if extents.packs:
        return "\n".join(f"    {line}" for line in [*lines, *_packing_script(group, handle, tiles, tile, lane)])
    if lane < extents.lane:  # innermost: the tiles of a panel read the same lines
        tiles, order = [*tiles, lane], [*order, len(order)]
    count = sum(part > 0 for part in tiles)
    if count:
        kinds = ", ".join(["!transform.any_op"] * (count + 1))
        lines.append(
            f"%tile{number}, %loops{number}:{count} = transform.structured.fuse {handle} tile_sizes {tiles}"
            f" interchange {order} : (!transform.any_op) -> ({kinds})"
        )
        handle = f"%tile{number}"
    if extents.grains and group.has_epilogue:
        lines += _epilogue_script(extents, number, handle, tile)
    return "\n".join(f"    {line}" for line in lines)


def _packing_script(
    group: ColumnGroupExtents, handle: str, tiles: Sequence[int], tile: Sequence[int], lane: int
) -> list[str]:
    """Returns the script lines that tile a block whose panels are packed: panels, in each of which rows are tiled.

    All producers are fused into the loop over panels, but only the sums into the loops over rows.

    Args:
        group: the column group.
        handle: handle of the block's root.
        tiles: sizes of the loops over tiles, 0 for no loop.
        tile: the register tile.
        lane: columns of the register tile.
    """
    number, last = group.number, len(tiles) - 1
    lines = [*FOLD_EMPTY, *CLEANUP]
    panels = [0 if dim in group.extents.rows else part for dim, part in enumerate(tiles)]
    rows = [part if dim in group.extents.rows else 0 for dim, part in enumerate(tiles[:last])]
    rows += [0, lane] if lane < group.extents.lane else []
    if count := sum(part > 0 for part in panels):
        kinds = ", ".join(["!transform.any_op"] * (count + 1))
        lines += [
            f"%panel{number}, %panels{number}:{count} = transform.structured.fuse {handle} tile_sizes {panels}"
            f" : (!transform.any_op) -> ({kinds})",
            *FOLD_EMPTY,
            *CLEANUP,
        ]
    if not (count := sum(part > 0 for part in rows)):
        return lines
    kinds = ", ".join(["!transform.any_op"] * (count + 1))
    lines += [
        _match(f"%rows{number}", "root", number),
        f"%tile{number}, %loops{number}:{count} = transform.structured.tile_using_for %rows{number} tile_sizes {rows}"
        f" : (!transform.any_op) -> ({kinds})",
    ]
    if group.has_epilogue:
        pair = "(!transform.any_op, !transform.any_op) -> (!transform.any_op, !transform.any_op)"
        lines += [
            _match(f"%sums{number}", "contraction", number),
            f"%zeros{number} = transform.get_producer_of_operand %sums{number}[{group.operands - 1}]"
            " : (!transform.any_op) -> !transform.any_op",
            f"%sum{number}, %inner{number} = transform.structured.fuse_into_containing_op %sums{number}"
            f" into %loops{number}#{count - 1} : {pair}",
            f"%zero{number}, %innermost{number} = transform.structured.fuse_into_containing_op %zeros{number}"
            f" into %inner{number} : {pair}",
        ]
        if group.extents.grains:
            lines += _epilogue_script(group.extents, number, f"%tile{number}", tile)
    return [*lines, *FOLD_EMPTY, *CLEANUP]


def _epilogue_script(extents: Extents, number: int, handle: str, tile: Sequence[int]) -> list[str]:
    """Returns the script lines that tile the epilogue of a tile of a matrix unit, whose sums come from memory."""
    *_, last = extents.rows
    rows = [divisor(tile[last], _EPILOGUE_ROWS) if dim == last else 1 for dim in range(len(extents.outer))]
    kinds = ", ".join(["!transform.any_op"] * (len(rows) + 1))
    return [
        f"%few{number}, %loop{number}:{len(rows)} = transform.structured.tile_using_for {handle}"
        f" tile_sizes {rows} : (!transform.any_op) -> ({kinds})"
    ]


def _is_alone(extents: Extents, tile: Sequence[int]) -> bool:
    """Returns whether a tile holds all rows at all sizes."""
    others = [size for dim, size in enumerate(extents.outer) if dim not in extents.rows[-2:]]
    steps = [tile[dim] for dim in extents.rows[-2:]]
    return math.prod(others) == 1 and all(
        size <= step for sizes in extents.typical for size, step in zip(sizes, steps, strict=True)
    )


def _least_rounds(extents: Extents, dim: int, step: int, part: int) -> int:
    """Returns the minimum number of steps along a dimension of a part, over the typical sizes if its extent varies."""
    if dim not in extents.rows[-2:]:
        return -(-part // step)
    place = extents.rows[-2:].index(dim)
    return min((-(-min(sizes[place], part) // step) for sizes in extents.typical), default=-(-part // step))


def _end_in_block(extents: Extents, dim: int, part: int) -> tuple[int, int, int]:
    """Returns where the loop over tiles of a part of a dimension ends: entry, positions per unit of it, and maximum."""
    entry, inner = extents.ends[dim] if extents.ends else (-1, 1)
    return entry, inner, part


def _annotated(number: int, attribute: DiscardableAttribute[Any], value: str) -> list[str]:
    """Returns the script lines that give the sum of a column group an attribute."""
    handle = f"%{attribute.name.rpartition('.')[2]}{number}"
    return [
        _match(f"{handle}_sum", "contraction", number),
        f"{handle} = transform.param.constant {value} -> !transform.any_param",
        f'transform.annotate {handle}_sum "{attribute.name}" = {handle} : !transform.any_op, !transform.any_param',
    ]


def _match(handle: str, tag: str, number: int) -> str:
    return (
        f"{handle} = transform.structured.match attributes {{stepwell.{tag} = {number} : i64}} in %kernel"
        " : (!transform.any_op) -> !transform.any_op"
    )
