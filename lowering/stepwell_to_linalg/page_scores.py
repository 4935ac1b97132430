"""Scores of some queries with several consecutive keys of a page, whose lanes are summed up together.

Keys of bytes are read faster than the lanes of single scores can be summed up.

    scores[row, key .. key + 3] = lane_sums(q[row] * k[key], q[row] * k[key + 1], ..) * scales[key .. key + 3]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from ...passes.ir.values import shape_of
from ..builders.access import read_row, vector_type, write_row
from ..builders.indices import Index, add, value_of
from ..builders.tensors import with_shape
from .lane_sums import SUMS, lane_sums, products
from .view_rows import LANES, PagedRows, lanes_of, read_part, runs_of
from .views import TensorView


@dataclass(frozen=True)
class PageScores:
    """The scores of some rows of queries with consecutive keys.

    Attributes:
        key: the pool of keys, [1, key heads, rows, depth].
        scales: their factors, [key heads, rows].
        at: the indices of the text and of the head.
        queries: the vectors of each row of queries.
        starts: the indices of the rows in the scores.
        keys: the number of keys.
        parts: the number of elements in a byte of the pool.
    """

    key: TensorView
    scales: ir.Value
    at: tuple[Index, Index]
    queries: Sequence[Sequence[ir.Value]]
    starts: Sequence[int]
    keys: int
    parts: int

    @property
    def _runs(self) -> list[tuple[int, int]]:
        return runs_of(self.key.shape[-1] * self.parts, self.parts)

    def step(self, key: Index, row: Index, carried: list[ir.Value]) -> list[ir.Value]:
        """Writes the scores of the keys from number `key` on, the first of which is in row `row` of the pool."""
        (scores,) = carried
        found: dict[int, list[ir.Value]] = {}

        def products_of(number: int) -> ir.Value:
            query, more = divmod(number, self.keys)
            if more not in found:
                places = (*self.at, add(row, more))
                found[more] = [read_part(self.key, places, *run, self.parts) for run in self._runs]
            # Sums behind those of the last row are not used.
            (made,) = products(self.queries[min(query, len(self.queries) - 1)], found[more])
            return made

        sums = arith.mulf(lane_sums(products_of), self._scales(row))
        kind = vector_type(self.keys, ir.F32Type.get())
        for number, start in enumerate(self.starts):
            part = vector.extract_strided_slice(kind, sums, [number * self.keys], [self.keys], [1])
            scores = write_row(part, scores, [value_of(add(key, start))], lanes_of(self.keys))
        return [scores]

    def _scales(self, row: Index) -> ir.Value:
        """Returns the factors of the keys, for each row of queries."""
        found = read_row(self.scales, [value_of(self.at[1]), value_of(row)], lanes_of(self.keys))
        return vector.shuffle(found, found, [lane % self.keys for lane in range(SUMS)])


def scores_of_pages(
    paged: PagedRows,
    key: TensorView,
    at: tuple[Index, Index],
    queries: Sequence[Sequence[ir.Value]],
    starts: Sequence[int],
) -> PageScores | None:
    """Returns the scores of several keys at once; None if keys are floats, or pages or depths have other sizes."""
    if paged.key_scales is None or key.shape[-1] % LANES or len(queries) > SUMS // 2:
        return None
    keys, pool = SUMS // (1 << (len(queries) - 1).bit_length()), list(shape_of(paged.key_scales.base))
    if paged.size % keys or pool != [*key.shape[1:3], 1]:
        return None
    return PageScores(key, with_shape(paged.key_scales.base, pool[:2]), at, queries, starts, keys, paged.parts)
