"""Tiles of operands as the copy engine brings them: lines of 128 bytes, swizzled within 1024 bytes.

lines along depth:  panels, each a box of 128 bytes of depth by the tile's rows, one after the other
lines along rows:   panels, each a box of 128 bytes of rows by the tile's depth
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir

from ....passes.base import PassError
from ..integers import Int
from ..launch import Launch, TensorMap, width_of
from ..warp_groups import LINE, STEP_BYTES
from .access import Access, Dim

MOST_DIMS, MOST_BOX, STRIDE_UNIT = 5, 256, 16
"""Of a tensor; elements of a box; what the bytes between elements are a multiple of."""
_ELEMENTS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32"}


@dataclass(frozen=True)
class Box:
    """What the copy engine is told of an operand: all innermost dimension first.

    Attributes:
        sizes: elements in each dimension.
        strides: bytes from element to element in each dimension but the innermost.
        box: the elements that one copy spans in each dimension.
        steps: of which one is taken; all of them if empty.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    steps: tuple[int, ...] = ()


def box_of(access: Access, rows: int, depth: int) -> Box | None:
    """How the copy engine reads tiles of `rows` x `depth`; None where it cannot.

    It can where rows and depth are one dimension each, of which one lies side by side in memory and the other, as the
    dimensions of the batch, in steps of 16 bytes.
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
    return Box(tuple(dim.size for dim in dims), strides, box)


@dataclass(frozen=True)
class BoxedTile:
    """A tile of an operand in shared memory.

    Attributes:
        access: how the operand is read.
        map: a generic pointer to its tensor map.
        rows: of the tile.
        depth: of the tile.
    """

    access: Access
    map: ir.Value
    rows: int
    depth: int

    @property
    def by_depth(self) -> bool:
        """Whether lines run along depth."""
        return self.access.by_depth

    @property
    def bytes(self) -> int:
        """The size of the tile."""
        return self.rows * self.depth * self.access.element_bytes

    @property
    def panel_bytes(self) -> int:
        """How far one panel lies from the next."""
        return (self.rows if self.by_depth else self.depth) * LINE

    def step_offset(self, number: int) -> int:
        """Where the operand of a product begins, each taking 32 bytes of depth, from the tile's first byte."""
        if not self.by_depth:
            return number * (STEP_BYTES // self.access.element_bytes) * LINE
        panel, step = divmod(number, LINE // STEP_BYTES)
        return panel * self.panel_bytes + step * STEP_BYTES

    def row_offset(self, group: Int, rows: int) -> Int:
        """Where the rows of a warp group begin, each having `rows`, 128 bytes of them or more."""
        per_panel = LINE // self.access.element_bytes
        return group * (rows * LINE) if self.by_depth else group * (rows // per_panel * self.panel_bytes)

    def boxes(self, batch: Int, row: Int, depth: Int) -> Iterator[tuple[int, list[Int]]]:
        """Where in the tile each box goes, and its corner in the operand."""
        outer = [*self._batch_corner(batch)]
        per_panel = LINE // self.access.element_bytes
        inner, lines, size = (depth, row, self.depth) if self.by_depth else (row, depth, self.rows)
        for number in range(math.ceil(size / per_panel)):
            yield number * self.panel_bytes, [inner + number * per_panel, lines, *outer]

    def place(self, start: Int, offset: Int) -> Int:
        """The row of the product that is `offset` rows into the tile from `start` on."""
        return start + offset

    def bound(self, rows: int) -> int:
        """A number that divides the rows of the product only where no tile reaches past them."""
        del rows
        return self.rows

    def _batch_corner(self, batch: Int) -> Iterator[Int]:
        dims = self.access.batch
        sizes = [math.prod(dim.size for dim in dims[place + 1 :]) for place in range(len(dims))]
        for place in reversed(range(len(dims))):
            if dims[place].stride:
                part = batch // sizes[place]
                yield part % dims[place].size if place else part


def boxed_tile(launch: Launch, base: ir.Value, access: Access, rows: int, depth: int) -> BoxedTile:
    """A tile of what lies in an argument of a launch, whose kernel gets a tensor map for it.

    Raises:
        PassError: the copy engine cannot bring it.
    """
    box = box_of(access, rows, depth)
    if box is None:
        raise PassError("the copy engine cannot bring such an operand", launch.function.location)
    return BoxedTile(access, add_map(launch, base, box, access.start), rows, depth)


def add_map(launch: Launch, base: ir.Value, box: Box, start: int) -> ir.Value:
    """The tensor map of boxes of an argument of a launch, from an element on."""
    position = next(place for place, memory in enumerate(launch.arguments.values()) if memory.base == base)
    element = ir.ShapedType(base.type).element_type
    name, offset = _ELEMENTS.get(str(element), "uint8"), start * width_of(element) // 8
    return launch.add_map(
        TensorMap(position, name, box.sizes, box.strides, box.box, swizzle=LINE, steps=box.steps, offset=offset)
    )


def _dims(access: Access) -> list[Dim] | None:
    if len(access.rows) != 1 or len(access.depth) != 1 or access.guards:
        return None
    pair = [access.depth[0], access.rows[0]] if access.by_depth else [access.rows[0], access.depth[0]]
    return [*pair, *(dim for dim in reversed(access.batch) if dim.stride)]
