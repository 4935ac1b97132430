"""Loops over tiles that work on one panel of a weight, and how many iterations they have if sizes vary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, tensor

from ...dialects import discardable
from ...passes.ir.values import constant_index
from ...passes.kernel.demand import kernel_of


@dataclass(frozen=True)
class TileLoop:
    """A loop over tiles.

    Attributes:
        index: its index, which starts at 0.
        step: distance of two iterations.
        count: maximum number of iterations.
    """

    index: ir.Value
    step: int
    count: int


@dataclass(frozen=True)
class TileCounts:
    """The iterations of the loops over tiles if the number of rows varies.

    Attributes:
        fewest: minimum number of iterations of each loop, or 0 if there is only one tile; empty if it does not vary.
        ends: where each loop ends in a call, as `stepwell.ends` has it; may be empty.
    """

    fewest: Sequence[int]
    ends: Sequence[int]

    @property
    def is_single(self) -> bool:
        """True if there is one tile at all sizes."""
        return bool(self.fewest) and not any(self.fewest)

    def are_known(self, loops: Sequence[TileLoop]) -> bool:
        """Returns whether the number of iterations of each loop is known at the start of a call."""
        return len(self.ends) == 3 * len(loops) and max(self.ends[::3], default=-1) >= 0

    def in_call(self, loops: Sequence[TileLoop], block: ir.Block) -> tuple[ir.Value, ir.Value]:
        """Emits the number of tiles of a call, at the start of the kernel, and the number of the tile of an iteration.

        Args:
            loops: the loops, outermost first.
            block: body of the innermost loop.
        """
        kernel = kernel_of(block.owner.operation)
        with kernel.location, ir.InsertionPoint.at_block_begin(kernel.regions[0].blocks[0]):
            rounds = [self._rounds(kernel, loop, end) for loop, end in zip(loops, self._each_end(), strict=True)]
            total = rounds[0]
            for other in rounds[1:]:
                total = arith.MulIOp(total, other).result
        number: ir.Value | None = None
        for loop, count in zip(loops, rounds, strict=True):
            here = arith.DivUIOp(loop.index, constant_index(loop.step)).result
            if number is not None:
                here = arith.AddIOp(arith.MulIOp(number, count).result, here).result
            number = here
        assert number is not None
        last = arith.SubIOp(total, constant_index(1)).result
        return total, arith.MinUIOp(number, last).result

    def _each_end(self) -> Iterator[tuple[int, int, int]]:
        yield from zip(self.ends[::3], self.ends[1::3], self.ends[2::3], strict=True)

    def _rounds(self, kernel: ir.Operation, loop: TileLoop, end: tuple[int, int, int]) -> ir.Value:
        """Emits the number of iterations of a loop in a call, at least 1."""
        entry, inner, most = end
        if entry < 0:
            return constant_index(loop.count)
        table = kernel.regions[0].blocks[0].arguments[discardable.TABLE_ARGUMENT.required(kernel)]
        extent = arith.IndexCastOp(ir.IndexType.get(), tensor.ExtractOp(table, [constant_index(entry)]).result).result
        positions = arith.MinSIOp(arith.MulIOp(extent, constant_index(inner)).result, constant_index(most)).result
        rounds = arith.CeilDivSIOp(positions, constant_index(loop.step)).result
        return arith.MaxSIOp(rounds, constant_index(1)).result


def tile_loops(block: ir.Block, panel: set[ir.Value]) -> list[TileLoop]:
    """Returns the loops around `block`, outermost first, whose tiles all work on one panel."""
    loops = []
    moves_panel = _arguments_behind(panel)
    loop = block.owner.operation
    while loop.name == "scf.for" and block.arguments[0] not in moves_panel:
        bounds = [value.owner.attributes["value"] for value in list(loop.operands)[:3]]
        lower, upper, step = (ir.IntegerAttr(bound).value for bound in bounds)
        loops.insert(0, TileLoop(block.arguments[0], step, -(-(upper - lower) // step)))
        block = loop.block
        loop = block.owner.operation
    return loops


def _arguments_behind(values: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns the block arguments that `values` are computed from by index arithmetic."""
    found, pending = set(), list(values)
    while pending:
        value = pending.pop()
        if isinstance(value.owner, ir.Block):
            found.add(value)
        else:
            pending.extend(value.owner.operands)
    return found
