"""Tiles of operands as the copy engine copies them: lines of 128 bytes, swizzled within 1024 bytes.

lines along depth:  consecutive panels, each a box of 128 bytes of depth by the tile's rows
lines along rows:   consecutive panels, each a box of 128 bytes of rows by the tile's depth
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from .....passes.infra.base import PassError
from ...emission.launch import LaunchContext, TensorMapArgument, width_of
from ...instructions.integers import Int
from ...instructions.warp_groups import LINE, STEP_BYTES
from .access import Dim, OperandAccess

MOST_DIMS, MOST_BOX, MOST_STEP, STRIDE_UNIT = 5, 256, 8, 16
"""Limits of the copy engine (cuda.h, cuTensorMapEncodeTiled): dimensions of a tensor, elements of a box and steps per
dimension, and alignment of strides in bytes."""
_ELEMENTS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


@dataclass(frozen=True)
class BoxedOperand:
    """Description of an operand for the copy engine; all lists start with the innermost dimension.

    Attributes:
        sizes: elements in each dimension.
        strides: distance of elements in bytes, for each dimension but the innermost.
        box: elements that one copy spans in each dimension.
        steps: traversal stride in each dimension; all 1 if empty.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()


def box_of(access: OperandAccess, rows: int, depth: int) -> BoxedOperand | None:
    """Returns how the copy engine reads tiles of `rows` x `depth`, or None if it cannot.

    It requires that rows and depth are one dimension each. One of them must be contiguous in memory. The strides of the
    other and of the batch dimensions must be multiples of 16 bytes.
    """
    bytes = access.element_bytes
    dims = _dims(access)
    if dims is None or len(dims) > MOST_DIMS or access.start * bytes % STRIDE_UNIT:
        return None
    strides = tuple(dim.stride * bytes for dim in dims[1:])
    inner, outer = (depth, rows) if access.by_depth else (rows, depth)
    if inner * bytes < LINE or (access.by_depth and inner * bytes % LINE):
        return None
    if dims[0].stride != 1 or any(stride % STRIDE_UNIT for stride in strides) or outer > MOST_BOX:
        return None
    box = (LINE // bytes, outer, *(1 for _ in dims[2:]))
    return BoxedOperand(tuple(dim.size for dim in dims), strides, box)


@dataclass(frozen=True)
class BoxedTile:
    """A tile of an operand in shared memory.

    Attributes:
        access: access function of the operand.
        map: generic pointer to its tensor map.
        rows: number of rows of the tile.
        depth: depth of the tile.
    """

    access: OperandAccess
    map: ir.Value
    rows: int
    depth: int

    @property
    def by_depth(self) -> bool:
        """True if lines run along depth."""
        return self.access.by_depth

    @property
    def bytes(self) -> int:
        """Size of the tile in bytes."""
        return self.rows * self.depth * self.access.element_bytes

    @property
    def panel_bytes(self) -> int:
        """Distance of neighbouring panels in bytes."""
        return (self.rows if self.by_depth else self.depth) * LINE

    def step_offset(self, number: int) -> int:
        """Returns the byte offset in the tile of the product's operand; each product takes 32 bytes of depth."""
        if not self.by_depth:
            return number * (STEP_BYTES // self.access.element_bytes) * LINE
        panel, step = divmod(number, LINE // STEP_BYTES)
        return panel * self.panel_bytes + step * STEP_BYTES

    def row_offset(self, group: Int, rows: int) -> Int:
        """Returns the byte offset of a warp group's `rows` rows, at least 128 bytes of them for lines along rows."""
        per_panel = LINE // self.access.element_bytes
        return group * (rows * LINE) if self.by_depth else group * (rows // per_panel * self.panel_bytes)

    def boxes(self, batch: Int, row: Int, depth: Int) -> Iterator[tuple[int, list[Int]]]:
        """Yields the offset of each box in the tile, and its corner in the operand."""
        outer = [*self._batch_corner(batch)]
        per_panel = LINE // self.access.element_bytes
        inner, lines, size = (depth, row, self.depth) if self.by_depth else (row, depth, self.rows)
        for number in range(math.ceil(size / per_panel)):
            yield number * self.panel_bytes, [inner + number * per_panel, lines, *outer]

    def place(self, start: Int, offset: Int) -> Int:
        """Returns the row of the product that is `offset` rows into the tile that starts at `start`."""
        return start + offset

    def bound(self, rows: int) -> int:
        """Returns a number that divides the product's rows only if no tile extends past them."""
        del rows
        return self.rows

    def _batch_corner(self, batch: Int) -> Iterator[Int]:
        dims = self.access.batch
        sizes = [math.prod(dim.size for dim in dims[place + 1 :]) for place in range(len(dims))]
        for place in reversed(range(len(dims))):
            if dims[place].stride:
                part = batch // sizes[place]
                yield part % dims[place].size if place else part


def boxed_tile(launch: LaunchContext, base: ir.Value, access: OperandAccess, rows: int, depth: int) -> BoxedTile:
    """Creates a tile of a launch argument, with a tensor map as an additional argument of the kernel.

    Raises:
        PassError: the copy engine cannot copy it.
    """
    box = box_of(access, rows, depth)
    if box is None:
        raise PassError("the copy engine cannot copy an operand with this layout", launch.function.location)
    return BoxedTile(access, add_map(launch, base, box, access.start), rows, depth)


def add_map(launch: LaunchContext, base: ir.Value, box: BoxedOperand, start: int) -> ir.Value:
    """Adds a tensor map for boxes of a launch argument, from element `start` on."""
    position = next(place for place, memory in enumerate(launch.arguments.values()) if memory.base == base)
    element = ir.ShapedType(base.type).element_type
    name, offset = _ELEMENTS.get(str(element), "uint8"), start * width_of(element) // 8
    return launch.add_map(
        TensorMapArgument(
            name, box.sizes, box.strides, box.box, argument=position, swizzle=LINE, steps=box.steps, offset=offset
        )
    )


def _dims(access: OperandAccess) -> list[Dim] | None:
    if len(access.rows) != 1 or len(access.depth) != 1 or access.guards:
        return None
    pair = [access.depth[0], access.rows[0]] if access.by_depth else [access.rows[0], access.depth[0]]
    return [*pair, *(dim for dim in reversed(access.batch) if dim.stride)]
