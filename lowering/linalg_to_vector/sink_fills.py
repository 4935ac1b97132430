"""Fills the accumulator of a loop over tiles tile by tile."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import linalg

from ...passes.ir.rewriting import walk


def sink_fills(kernel: ir.Operation) -> None:
    """Moves the fill of a tensor into the loop that cuts it into tiles, so that a tile starts from registers.

        %0 = linalg.fill ins(%zero) outs(%empty : tensor<512x32xf32>)
        scf.for %i = ... iter_args(%t = %0) {
          %tile = tensor.extract_slice %t[%i, 0] [8, 32] [1, 1]
          %1 = linalg.generic outs(%tile)
        // -->
        scf.for %i = ... iter_args(%t = %empty) {
          %tile = tensor.extract_slice %t[%i, 0] [8, 32] [1, 1]
          %filled = linalg.fill ins(%zero) outs(%tile)
          %1 = linalg.generic outs(%filled)

    Preconditions: the tiles of a loop that starts from a fill cover the tensor; overlapping tiles are equal.
    """
    for loop in walk(kernel):
        if loop.name == "scf.for":
            for index in range(len(loop.results)):
                _sink(loop, index)


def _sink(loop: ir.Operation, index: int) -> None:
    start = loop.operands[3 + index]
    if isinstance(start.owner, ir.Block) or start.owner.name != "linalg.fill" or len(list(start.uses)) != 1:
        return
    carried = loop.regions[0].blocks[0].arguments[1 + index]
    tiles = [use.owner.operation for use in carried.uses if use.owner.operation.name == "tensor.extract_slice"]
    others = [use.owner.operation.name for use in carried.uses if use.owner.operation not in tiles]
    if others != ["tensor.insert_slice"] or len(tiles) != 1:
        return
    fill, (tile,) = start.owner.operation, tiles
    with fill.location, ir.InsertionPoint.after(tile):
        filled = linalg.fill(fill.operands[0], outs=[tile.results[0]])
    for name in fill.attributes:
        if name.startswith("stepwell."):
            filled.owner.attributes[name] = fill.attributes[name]
    tile.results[0].replace_all_uses_except(filled, filled.owner.operation)
    loop.operands[3 + index] = fill.operands[1]
    fill.erase()
