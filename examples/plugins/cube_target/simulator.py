"""Execution of an instruction stream in numpy.

Instructions run in the order of the stream. That gives the result of any order that the engines may take, because
`hazards.check` has found that tokens order all accesses to the same tiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from .hazards import check
from .isa import ELEMENTS, SUM_BYTES, Box, CubeProgram, Load, MemoryView, Multiply, Store, tile_bytes, tiles
from .machine import TILE, CubeMachine


class Simulator:
    """A cube unit that executes one stream."""

    def __init__(self, program: CubeProgram, machine: CubeMachine) -> None:
        """Prepares a stream.

        Raises:
            StreamError: the stream is illegal.
        """
        check(program, machine)
        self._program = program
        self._operands = np.zeros(machine.operand_bytes, np.uint8)
        self._sums = np.zeros(machine.sum_bytes, np.uint8)

    def run(self, arguments: Sequence[np.ndarray]) -> None:
        """Executes the stream.

        Args:
            arguments: the memory of each argument as bytes; stores change it.
        """
        memory = [
            arguments[view.argument][: self._program.sizes[view.argument]].view(ELEMENTS[view.element])[view.start :]
            for view in self._program.views
        ]
        for item in self._program.instructions:
            if isinstance(item, Multiply):
                self._multiply(item)
            elif isinstance(item, Load):
                self._load(item, self._program.views[item.box.view], memory[item.box.view])
            else:
                self._store(item, self._program.views[item.box.view], memory[item.box.view])

    def _load(self, item: Load, view: MemoryView, memory: np.ndarray) -> None:
        box = item.box
        block = np.zeros((tiles(box.rows) * TILE, tiles(box.columns) * TILE), memory.dtype)
        block[: box.rows, : box.columns] = memory[_places(view, box)]
        size = box.tiles * tile_bytes(view.element)
        self._operands[item.address : item.address + size] = _to_tiles(block).view(np.uint8).ravel()

    def _multiply(self, item: Multiply) -> None:
        m, k, n = item.shape
        left, right = (
            _from_tiles(self._operands, address, shape, ELEMENTS[element])
            for address, shape, element in (
                (item.left, (m, k), item.elements[0]),
                (item.right, (k, n), item.elements[1]),
            )
        )
        # Sums of products of bytes are exact in 64-bit floats, which numpy multiplies faster than integers.
        wide, kind = (np.float32, np.float32) if item.elements[0] == "f16" else (np.float64, np.int32)
        product = (left.astype(wide) @ right.astype(wide)).astype(kind)
        sums = self._sums[item.sums : item.sums + m * n * SUM_BYTES].view(kind)
        if item.starts:
            sums[:] = _to_tiles(product).ravel()
        else:
            sums += _to_tiles(product).ravel()

    def _store(self, item: Store, view: MemoryView, memory: np.ndarray) -> None:
        box = item.box
        kind = np.dtype(np.int32 if view.element == "i32" else np.float32)
        block = _from_tiles(self._sums, item.address, (tiles(box.rows), tiles(box.columns)), kind)
        with np.errstate(over="ignore"):  # sums beyond the range of f16 become infinite, as on any other target
            memory[_places(view, box)] = block[: box.rows, : box.columns]


def _places(view: MemoryView, box: Box) -> np.ndarray:
    """Returns the offset of each element of a box."""
    rows = view.rows.offsets[box.row : box.row + box.rows]
    columns = view.columns.offsets[box.column : box.column + box.columns]
    return rows[:, None] + columns


def _to_tiles(block: np.ndarray) -> np.ndarray:
    """Returns a matrix as tiles, row by row of the matrix of tiles."""
    rows, columns = block.shape
    split = block.reshape(rows // TILE, TILE, columns // TILE, TILE)
    return np.ascontiguousarray(split.transpose(0, 2, 1, 3))


def _from_tiles(scratchpad: np.ndarray, address: int, shape: tuple[int, int], kind: np.dtype) -> np.ndarray:
    """Returns the matrix whose tiles are at an address."""
    rows, columns = shape
    size = prod(shape) * TILE * TILE * kind.itemsize
    found = scratchpad[address : address + size].view(kind).reshape(rows, columns, TILE, TILE)
    return found.transpose(0, 2, 1, 3).reshape(rows * TILE, columns * TILE)
