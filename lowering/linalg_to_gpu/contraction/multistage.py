"""The loop over depth of kernels that feed themselves: tiles on their way to shared memory while others are multiplied.

    stage 0..S-2 <- tiles 0..S-2                     (asynchronously)
    for t in tiles:
      wait for tile t; barrier                       (all threads see it, and none reads tile t - 1 any more)
      stage (t + S - 1) mod S <- tile t + S - 1      (where tile t - 1 was)
      sums += lhs tile t * rhs tile t

One barrier per tile: the stage that is written is the one that the threads have left by reaching it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from mlir import ir
from mlir.dialects import gpu

from ..instructions import await_copies, commit_copies, hidden
from ..integers import Int
from ..loops import repeat

Multiply = Callable[[Int, Sequence[ir.Value]], Sequence[ir.Value]]


class Copies(Protocol):
    """Copies of the tiles of one operand."""

    def start(self, depth: Int, shared: Int, wanted: ir.Value | None) -> None:
        """Starts copying the tile from `depth` on to `shared`, if it is wanted."""
        ...

    def finish(self) -> None:
        """Does what was left to do after the products of another tile."""
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
        copies: of each operand, and where in a stage its tiles begin, as the copies want it.
        tiles: how many tiles there are.
        depth: of a tile.
        stages: at least 2.
        stage_bytes: the size of a stage.
        sums: the initial sums.
        multiply: makes the new sums of the tiles in the stage at an offset, and the sums so far.

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

    # A loop of one turn would be none, and its products would be moved to where each result is written, with all that
    # they read kept in registers until then.
    count = tiles if tiles.known is None or tiles.known > 1 else hidden(tiles)
    _, _, *results = repeat(count, [Int(0).ir, Int((stages - 1) * stage_bytes).ir, *sums], step)
    return results
