"""Epilogue of a contraction: computes the rest of the launch from the sums in registers and writes the result.

The sums of a run of columns are bound to the contraction's result, and the launch's result is evaluated at the indices
that they map to. Biases, activations and residuals therefore cost no memory traffic for the sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mlir import ir

from .....passes.infra.base import PassError
from .....support.errors import StepwellError
from ...emission.indices import Index, add
from ...emission.launch import LaunchContext
from ...emission.values import Lanes, Values, pack
from ...instructions.integers import Int, both
from ...instructions.loops import when
from ..elements import root_of
from .index_paths import innermost, through, unravelled
from .matching import Contraction, path_to_result

_WIDEST = 8
"""Maximum number of sums per write: 16 bytes of 16-bit floats."""


class _OutOfLineError(StepwellError):
    """The sums are requested at an index that is not known to belong to the run."""


class Finisher:
    """Takes sums and writes results.

    Attributes:
        width: number of neighbouring columns that are written at once, if the caller has them.
    """

    def __init__(self, launch: LaunchContext, values: Values, contraction: Contraction) -> None:
        """Analyses the ops that follow the contraction.

        Raises:
            PassError: an element of the result needs other sums than the one at its place.
        """
        self._values, self._contraction = values, contraction
        self._root, self._target = root_of(launch)
        path = path_to_result(contraction, self._root)
        if path is None:
            raise PassError("an op after a contraction reads sums at other indices", contraction.op.location)
        self._path = path
        self._sizes = {name: contraction.sizes(getattr(contraction, name)) for name in ("batch", "rows", "columns")}
        self._rows, self._columns = (math.prod(self._sizes[name]) for name in ("rows", "columns"))
        most = min(_WIDEST, max(1, 16 // self._target.element_bytes))
        self.width = math.gcd(most, innermost(contraction, path))
        self._known: dict[int, tuple[Int, list[tuple[Int, ir.Value | None]]]] = {}
        self._sums: Lanes = []
        self._start: ir.Value | None = None
        self._indices: dict[int | ir.Value | None, ir.Value] = {}
        values.bind(contraction.result, self._sum)

    def write(self, batch: Int, row: Int, column: Int, sums: Sequence[ir.Value], bounds: tuple[int, int]) -> None:
        """Computes and writes the results of some sums.

        Args:
            batch: index of the batch element.
            row: index of the row; may lie past the last.
            column: index of the first column; the same object for equal columns.
            sums: sums of neighbouring columns.
            bounds: rows and columns of a tile; no bounds checks are needed for those that divide the result's.
        """
        inside = None if self._rows % bounds[0] == 0 else row.below(self._rows)
        row = row.where(inside, self._rows - 1)
        width = math.gcd(self.width, len(sums))
        places = self._places(column, len(sums), width, bounds[1])
        for (place, in_columns), first in zip(places, range(0, len(sums), width), strict=True):
            self._write(batch, row, place, list(sums[first : first + width]), both(inside, in_columns))

    def _places(self, column: Int, count: int, width: int, bound: int) -> list[tuple[Int, ir.Value | None]]:
        """Returns the first column of every run, clamped to the result, and whether it was in bounds."""
        if id(column) in self._known:
            return self._known[id(column)][1]
        found = []
        for first in range(0, count, width):
            place = column + first
            inside = None if self._columns % bound == 0 else place.below(self._columns)
            found.append((Int(place.where(inside, self._columns - width).ir), inside))
        self._known[id(column)] = column, found
        return found

    def _write(self, batch: Int, row: Int, column: Int, sums: Lanes, inside: ir.Value | None) -> None:
        contraction, known = self._contraction, {}
        numbers = {"batch": batch, "rows": row, "columns": column}
        for name, number in numbers.items():
            known.update(zip(getattr(contraction, name), unravelled(number, self._sizes[name]), strict=True))
        place = [known[dim] for dim in contraction.results_at()]
        first = place
        for op, operand in self._path:
            place = through(op, operand, place)
        indices = [self._index(part) for part in place]
        self._sums, self._start = sums, self._index(first[-1]) if first else None
        results = self._results(indices)
        with when(inside):
            most = self._target.width()
            for start in range(0, len(results), most):
                at = [*indices[:-1], self._index(place[-1] + start)] if start else indices
                self._target.store(pack(results[start : start + most]), at)

    def _results(self, indices: Sequence[Index]) -> Lanes:
        if len(self._sums) == 1:
            return [self._values.element(self._root, indices)]
        try:
            return self._values.lanes(self._root, indices, len(self._sums))
        except _OutOfLineError:
            return [self._single_result(indices, lane, value) for lane, value in enumerate(list(self._sums))]

    def _single_result(self, indices: Sequence[Index], lane: int, value: ir.Value) -> ir.Value:
        self._sums = [value]
        return self._values.element(self._root, [*indices[:-1], add(indices[-1], lane)])

    def _sum(self, indices: Sequence[Index]) -> ir.Value:
        if len(self._sums) == 1:
            return self._sums[0]
        return self._sums[self._lane_of(indices[-1])]

    def _lane_of(self, index: Index) -> int:
        """Returns the lane of a column in the run: its index must be the first one, plus a constant or not."""
        if index == self._start:
            return 0
        if isinstance(index, ir.Value) and not isinstance(index.owner, ir.Block) and index.owner.name == "arith.addi":
            left, right = index.owner.operands
            if left == self._start and right.owner.name == "arith.constant":
                return ir.IntegerAttr(right.owner.attributes["value"]).value
        raise _OutOfLineError

    def _index(self, number: Int) -> ir.Value:
        """Returns the number as an index, the same value for equal numbers so that dependent code is emitted once."""
        key = number.known if isinstance(number.value, int) else number.ir
        if key not in self._indices:
            self._indices[key] = number.index()
        return self._indices[key]
