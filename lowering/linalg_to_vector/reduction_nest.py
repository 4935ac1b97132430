"""Reduction loops of a register tile: all sums are carried in registers from one step to the next.

%s:2 = scf.for %i = 0 to (depth / 4) iter_args(%0 = .., %1 = ..) {
  // four steps: a row of the weight, multiplied with one element of each row of the tile
  ...
}
// and the remaining steps
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import linalg, scf

from ...dialects import discardable
from ...passes.ir.values import constant_index, shape_of
from ..builders.linear_forms import LinearForm, LinearIndex, linear_index
from .packing import packing_of
from .row_stream import RowStream, row_stream
from .tile_counts import TileCounts
from .tile_reads import Reader
from .tile_stream import TileStream, tile_streams
from .weight_stream import WeightStream, weight_stream

_Step = Callable[[Reader, Mapping[int, LinearIndex], list[ir.Value]], list[ir.Value]]
"""Emits one step; takes the operands' reader, the indices of the reduced dimensions and the sums, and returns the sums.
"""

Part = Callable[[Reader, Mapping[int, LinearIndex], int, ir.Value], ir.Value]
"""Emits the part of a step for one sum; takes the operands' reader, the indices, and the number and value of the sum.
"""

_Stream = WeightStream | RowStream | TileStream

# Maximum number of steps of an unrolled reduction, unless the op specifies another.
_UNROLL = 4

# Steps per iteration of the innermost loop, by the maximum number of registers of sums. If sums take nearly all
# registers, LLVM gets only one step per iteration: with more, it would read ahead and spill sums.
_STEPS = {16: 4, 26: 2}


@dataclass(frozen=True)
class ReductionNest:
    """The reduction of one linalg op on a tile.

    Attributes:
        op: the op.
        step: emits one step.
        dims: reduced dimensions, outermost first.
        sizes: extents of `dims`.
        width: number of vector registers that hold the sums.
        line_bytes: size of a cache line.
        part: emits the part of a step that adds to one of the sums, given by its number; None if it has no parts.
        is_unrolled: whether a few steps follow each other without a loop.
        position: returns where the part of a sum reads the input at some indices of the reduced dimensions.
    """

    op: linalg.GenericOp
    step: _Step
    dims: Sequence[int]
    sizes: Sequence[int]
    width: int
    line_bytes: int
    part: Part | None = None
    is_unrolled: bool = True
    position: Callable[[int, Mapping[int, int]], tuple[int, ...]] | None = None

    def run(self, reader: Reader, sums: list[ir.Value]) -> list[ir.Value]:
        """Returns the sums after all steps."""
        streams = []
        steps, iterations = math.prod(self.sizes), math.prod(self.sizes[:-1]) * (self.sizes[-1] // self._steps)
        prefetches = discardable.CONTRACTION.is_on(self.op) and discardable.PREFETCH.read(self.op, 1) > 0
        if prefetches and steps > self._unroll_limit and iterations:
            count = math.prod(shape_of(self.op.results[0])[:-1])
            fewest = discardable.FEWEST.read(self.op, ())
            block, line = self.op.operation.block, self.line_bytes
            weight = self.op.operands[1]
            packing = packing_of(self.op)
            if packing is not None:  # reads the next panel of the stored weight
                weight = packing.operands[0]
            weights = weight_stream(
                weight,
                block,
                count,
                iterations,
                TileCounts(fewest, discardable.ENDS.read(self.op, ())),
                line,
                is_long=self._is_long,
                is_whole=packing is not None,
            )
            rows = row_stream(self.op, block, iterations, line) if len(self.sizes) == 1 else None
            streams = [*filter(None, (weights, rows)), *tile_streams(self.op, steps, iterations, line)]
        return self._loops(reader, 0, {}, sums, streams)

    @property
    def _unroll_limit(self) -> int:
        return discardable.UNROLL.read(self.op, _UNROLL) if self.is_unrolled else 1

    @property
    def _is_long(self) -> bool:
        """True if a step is long by itself: a block of products."""
        return discardable.BLOCK_BITS.is_on(self.op)

    @property
    def _steps(self) -> int:
        """Number of steps per iteration of the innermost loop."""
        if self._is_long:
            return 1
        given = discardable.STEPS.read(self.op)
        if given is not None:
            return max(1, min(given, self.sizes[-1]))
        return next((steps for most, steps in _STEPS.items() if self.width <= most), 1)

    def _loops(
        self,
        reader: Reader,
        depth: int,
        where: dict[int, LinearIndex],
        sums: list[ir.Value],
        streams: Sequence[_Stream],
    ) -> list[ir.Value]:
        """Emits all steps of the dimensions from `depth` on, with the outer ones at `where`."""
        dims, sizes = self.dims[depth:], self.sizes[depth:]
        if len(dims) == 1 and sizes[0] <= self._unroll_limit and self.part and self.position:
            return self._along_input(reader, where, sums, self.part, self.position)
        if math.prod(sizes) <= self._unroll_limit:
            for index in itertools.product(*map(range, sizes)):
                sums = self.step(reader, where | dict(zip(dims, index, strict=True)), sums)
            return sums
        if sizes[0] == 1:
            return self._loops(reader, depth + 1, where | {dims[0]: 0}, sums, streams)
        if len(dims) == 1:
            return self._innermost(reader, where, sums, streams)
        loop = scf.ForOp(constant_index(0), constant_index(sizes[0]), constant_index(1), sums)
        with ir.InsertionPoint(loop.body):
            inside = where | {dims[0]: loop.induction_variable}
            scf.YieldOp(self._loops(reader.inner(), depth + 1, inside, list(loop.inner_iter_args), streams))
        return list(loop.results)

    def _along_input(
        self,
        reader: Reader,
        where: Mapping[int, LinearIndex],
        sums: list[ir.Value],
        part: Part,
        position: Callable[[int, Mapping[int, int]], tuple[int, ...]],
    ) -> list[ir.Value]:
        """Emits the steps of the last dimension in the order of the input, whose elements neighbouring positions share.

        An element is then used up before the next one is read. Step by step, all elements of a tile would have to stay
        in registers, which LLVM would write to the stack. Each sum has its terms in the same order as step by step.
        """
        dim, size, sums = self.dims[-1], self.sizes[-1], list(sums)
        pairs = itertools.product(range(size), range(len(sums)))
        for index, number in sorted(pairs, key=lambda pair: position(pair[1], {dim: pair[0]})):
            sums[number] = part(reader, {**where, dim: index}, number, sums[number])
        return sums

    def _innermost(
        self,
        reader: Reader,
        where: dict[int, LinearIndex],
        sums: list[ir.Value],
        streams: Sequence[_Stream],
    ) -> list[ir.Value]:
        dim, size = self.dims[-1], self.sizes[-1]
        whole, rest = divmod(size, self._steps)
        loop = scf.ForOp(constant_index(0), constant_index(whole), constant_index(1), sums)
        with ir.InsertionPoint(loop.body):
            carried, inner = list(loop.inner_iter_args), reader.inner()
            for number in range(self._steps):
                index = (number, ((loop.induction_variable, self._steps),))
                carried = self.step(inner, where | {dim: index}, carried)
            for stream in streams:
                stream.fetch(self._iteration(where, whole, loop.induction_variable))
            scf.YieldOp(carried)
        sums = list(loop.results)
        for number in range(size - rest, size):
            sums = self.step(reader, where | {dim: number}, sums)
        return sums

    def _iteration(self, where: Mapping[int, LinearIndex], whole: int, innermost: ir.Value) -> LinearForm:
        """Returns the linear index of the current iteration over all loops."""
        base, terms, factor = 0, ((innermost, 1),), whole
        for dim, size in zip(reversed(self.dims[:-1]), reversed(self.sizes[:-1]), strict=True):
            start, values = linear_index(where[dim])
            base += start * factor
            terms = (*terms, *((value, count * factor) for value, count in values))
            factor *= size
        return base, terms
