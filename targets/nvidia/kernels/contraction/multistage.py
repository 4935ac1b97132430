"""Multistage loop over depth of kernels whose threads copy and multiply: copies overlap with products of other tiles.

    stage 0..S-2 <- tiles 0..S-2                     (asynchronously)
    for t in tiles:
      wait for tile t; barrier                       (all threads see tile t, and have finished reading tile t - 1)
      stage (t + S - 1) mod S <- tile t + S - 1      (replaces tile t - 1)
      sums += lhs tile t * rhs tile t

One barrier per tile suffices: the stage being written is the one that all threads have left at the barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mlir import ir
from mlir.dialects import gpu

from ...instructions.inline_ptx import await_copies, commit_copies, hidden
from ...instructions.integers import Int
from ...instructions.loops import repeat

Multiply = Callable[[Int, Sequence[ir.Value]], Sequence[ir.Value]]


class Copies(Protocol):
    """Copies of the tiles of one operand."""

    def start(self, depth: Int, shared: Int, wanted: ir.Value | None) -> None:
        """Starts copying the tile at `depth` to `shared`, if `wanted` holds."""
        ...

    def finish(self) -> None:
        """Completes the copies after the products of another tile."""
        ...


def accumulate(
    copies: Sequence[tuple[Copies, Int]],
    tiles: Int,
    depth: int,
    stages: int,
    stage_bytes: int,
    sums: Sequence[ir.Value],
    multiply: Multiply,
) -> list[ir.Value]:
    """Builds the loop.

    Args:
        copies: copies of each operand, with the base of its tiles in a stage, in the form that the copies take.
        tiles: number of tiles.
        depth: depth of a tile.
        stages: number of stages, at least 2.
        stage_bytes: size of a stage in bytes.
        sums: the initial sums.
        multiply: function of a stage's offset and the sums so far that returns the new sums.

    Returns:
        The sums.
    """

    def start(number: Int, stage: Int, wanted: ir.Value | None) -> None:
        for copy, base in copies:
            copy.start(number * depth, base + stage, wanted)

    def finish() -> None:
        for copy, _ in copies:
            copy.finish()
        commit_copies()

    for number in range(stages - 1):
        exists = None if tiles.known is not None and number < tiles.known else Int(number).below(tiles)
        start(Int(number), Int(number * stage_bytes), exists)
        finish()

    def after(stage: Int) -> Int:
        following = stage + stage_bytes
        return Int(0).where(following.equals(stages * stage_bytes), following)

    def step(number: Int, carried: Sequence[ir.Value]) -> list[ir.Value]:
        reading, writing, *so_far = carried
        await_copies(stages - 2)
        gpu.barrier()
        ahead = number + (stages - 1)
        start(ahead, Int(writing), ahead.below(tiles))
        new = multiply(Int(reading), so_far)
        finish()
        return [after(Int(reading)).ir, after(Int(writing)).ir, *new]

    # A loop of one iteration would be unrolled. The compiler would then move its products to the stores of the results,
    # and keep all their operands in registers until then.
    count = tiles if tiles.known is None or tiles.known > 1 else hidden(tiles)
    _, _, *results = repeat(count, [Int(0).ir, Int((stages - 1) * stage_bytes).ir, *sums], step)
    return results
