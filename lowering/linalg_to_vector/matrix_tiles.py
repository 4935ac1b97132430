"""Products of bytes, or of bfloat16, in two-dimensional tiles, as the tile registers of a matrix unit hold them (AMX).

    %s = linalg.generic {(m, p, l, k, b): %s[m, p, l] += ui8 %a[m, k, b] * i8 %w[p, k, 4 * l + b]}
    // -->
    %1 = scf.for %k = 0 to %depth step 16 iter_args(%0 = %zeros) -> (vector<16x16xi32>) {
      %a_k = vector.transfer_read %a[%m, %k, 0] : vector<16x16x4xi8>
      %w_k = vector.transfer_read %w[%p, %k, 4 * %l] : vector<16x64xi8>
      %2 = vector.contract (arith.extui %a_k) (arith.extsi %w_k) %0
      scf.yield %2
    }
    vector.transfer_write %1, %s[%m, %p, %l]

`stepwell-lower-matrix-tiles` converts these to the unit's instructions once their operands are in memory.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, linalg, scf, tensor, vector

from ...dialects import discardable
from ...machines.matrix_units import GRAIN_BYTES, LINE_BYTES, ROWS, divisor, even_parts
from ...passes.ir.values import constant_index, shape_of
from ..builders.generics import constant, zero_of
from ..builders.linear_forms import LinearForm, LinearIndex, apply_linear, factor_of, linear_form
from .tile_reads import Indexing

MATRIX_METHOD = "amx"
"""Method of products of bytes in the schedule of a kernel."""

_INPUT, _WEIGHT = 0, 1

Where = Mapping[int, LinearIndex]
"""Indices of dimensions of the op."""

# The contraction of a tile: rows m, columns n, grains k, bytes b.
_MAPS = (
    "[affine_map<(m, n, k, b) -> (m, k, b)>, affine_map<(m, n, k, b) -> (k, n, b)>, affine_map<(m, n, k, b) -> (m, n)>]"
)
_KINDS = ", ".join(f"#vector.iterator_type<{kind}>" for kind in ("parallel", "parallel", "reduction", "reduction"))


def row_dim(loops: Indexing) -> int | None:
    """Returns the dimension whose indices are the rows of a tile; None if the input's rows are not evenly spaced.

    It is the last outer dimension with several indices, or the last one of all; the weight must not depend on it.
    """
    outer = range(loops.parallel - 2)
    if not outer:
        return None
    dim = next((dim for dim in reversed(outer) if loops.sizes[dim] > 1), outer[-1])
    spaced = [axis for axis, expr in enumerate(loops.exprs[_INPUT]) if factor_of(expr, dim)]
    is_shared = not any(factor_of(expr, dim) for expr in loops.exprs[_WEIGHT])
    return dim if len(spaced) == 1 and is_shared else None


@dataclass
class MatrixProduct:
    """The product of one linalg op on tiles of a matrix unit.

    Attributes:
        op: the op, whose last dimension is a grain of neighbours along the reduction.
    """

    op: linalg.GenericOp
    _loops: Indexing = field(init=False)

    def __post_init__(self) -> None:
        """Reads the iteration space."""
        self._loops = Indexing(self.op)

    def emit(self) -> ir.Value:
        """Emits the product; returns the tensor with the sums.

        Raises:
            PassError: an index is not linear.
        """
        rows, columns = self._rows(), self._columns()
        target, sums = self._start(rows, columns)
        sums = self._reduce(self._reductions, {}, sums, rows, columns)
        for (row, column), total in zip(itertools.product(rows, columns), sums, strict=True):
            places = [*row, *column]
            target = vector.TransferWriteOp(
                target.type, total, target, [constant_index(place) for place in places], self._map, [True, True]
            ).results[0]
        return target

    @property
    def _dim(self) -> int:
        dim = row_dim(self._loops)
        assert dim is not None
        return dim

    @property
    def _reductions(self) -> list[int]:
        return list(range(self._loops.parallel, len(self._loops.sizes) - 1))

    @property
    def _map(self) -> ir.AffineMapAttr:
        """The map from the result's indices to those of a tile of sums."""
        rank = self._loops.parallel
        dims = [ir.AffineExpr.get_dim(dim) for dim in (self._dim, rank - 1)]
        return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, dims))

    def _rows(self) -> list[tuple[int, ...]]:
        """The first row of every tile, as indices of the outer dimensions."""
        sizes, starts = self._loops.sizes, even_parts(self._loops.sizes[self._dim], ROWS)[0]
        ranges = [starts if dim == self._dim else range(sizes[dim]) for dim in range(self._loops.parallel - 2)]
        return list(itertools.product(*ranges))

    def _columns(self) -> list[tuple[int, int]]:
        """The panel and first lane of every tile."""
        sizes, parallel = self._loops.sizes, self._loops.parallel
        starts, _ = even_parts(sizes[parallel - 1], LINE_BYTES // GRAIN_BYTES)
        return list(itertools.product(range(sizes[parallel - 2]), starts))

    def _start(self, rows: Sequence, columns: Sequence) -> tuple[ir.Value, list[ir.Value]]:
        """Returns the tensor that takes the sums, and the sums to begin with."""
        target = self.op.operands[len(self.op.operands) - 1]
        element = ir.RankedTensorType(target.type).element_type
        height = even_parts(self._loops.sizes[self._dim], ROWS)[1]
        kind = ir.VectorType.get([height, self._width], element)
        zero = constant(zero_of(element))
        if isinstance(target.owner, ir.Operation | ir.OpView) and isinstance(target.owner.opview, linalg.FillOp):
            fill = target.owner.opview
            sums = [vector.broadcast(kind, fill.operands[0])] * (len(rows) * len(columns))
            # Sums that another op reads stay near: a tensor of one tile becomes a buffer on the stack.
            shape = shape_of(target)
            return fill.operands[1] if discardable.ROOT.is_on(self.op) else tensor.empty(shape, element), sums
        starts = [
            [constant_index(place) for place in (*row, *column)] for row, column in itertools.product(rows, columns)
        ]
        reads = [vector.TransferReadOp(kind, target, start, self._map, zero, [True, True]).result for start in starts]
        return target, reads

    @property
    def _width(self) -> int:
        return even_parts(self._loops.sizes[self._loops.parallel - 1], LINE_BYTES // GRAIN_BYTES)[1]

    def _reduce(
        self, dims: Sequence[int], where: Where, sums: list[ir.Value], rows: Sequence, columns: Sequence
    ) -> list[ir.Value]:
        """Emits the loops over the reduced dimensions from the first of `dims` on."""
        if not dims:
            return self._step(where, sums, rows, columns)
        size = self._loops.sizes[dims[0]]
        step = divisor(size, LINE_BYTES // GRAIN_BYTES) if len(dims) == 1 else 1
        if size == step:
            return self._reduce(dims[1:], {**where, dims[0]: 0}, sums, rows, columns)
        loop = scf.ForOp(constant_index(0), constant_index(size), constant_index(step), sums)
        with ir.InsertionPoint(loop.body):
            inside = {**where, dims[0]: loop.induction_variable}
            scf.YieldOp(self._reduce(dims[1:], inside, list(loop.inner_iter_args), rows, columns))
        return list(loop.results)

    def _step(self, where: Where, sums: list[ir.Value], rows: Sequence, columns: Sequence) -> list[ir.Value]:
        """Adds the products of one step of every row and column."""
        left = [widened(self._read_input(row, where), is_signed=False) for row in rows]
        right = [widened(self._read_weight(rows[0], column, where), is_signed=True) for column in columns]
        return [contract_tiles(*pair, total) for pair, total in zip(itertools.product(left, right), sums, strict=True)]

    @property
    def _grain(self) -> int:
        return self._loops.sizes[-1]

    @property
    def _depth(self) -> int:
        """Number of grains of a step."""
        return divisor(self._loops.sizes[-2], LINE_BYTES // GRAIN_BYTES)

    def _read_input(self, row: Sequence[int], where: Where) -> ir.Value:
        """Reads a tile of the input, [rows, grains, grain]."""
        height = even_parts(self._loops.sizes[self._dim], ROWS)[1]
        sizes = {self._dim: height, self._reductions[-1]: self._depth, len(self._loops.sizes) - 1: self._grain}
        return self._read(_INPUT, {**dict(enumerate(row)), **where}, sizes)

    def _read_weight(self, row: Sequence[int], column: tuple[int, int], where: Where) -> ir.Value:
        """Reads a tile of the weight, [grains, columns, grain]."""
        panel, lane = self._loops.parallel - 2, self._loops.parallel - 1
        places = {**dict(enumerate(row)), panel: column[0], lane: column[1], **where}
        lines = self._read(_WEIGHT, places, {self._reductions[-1]: self._depth, lane: self._width * self._grain})
        shape = [self._depth, self._width, self._grain]
        return vector.shape_cast(ir.VectorType.get(shape, ir.VectorType(lines.type).element_type), lines)

    def _read(self, operand: int, places: Where, sizes: Mapping[int, int]) -> ir.Value:
        return read_part(self._loops, operand, places, sizes, self._dim if operand == _INPUT else None)


def read_part(loops: Indexing, operand: int, places: Where, sizes: Mapping[int, int], spaced: int | None) -> ir.Value:
    """Reads a part of an operand as a vector without its dimensions of one element.

    Args:
        loops: how the op indexes its operands.
        operand: number of the operand.
        places: the first index along dimensions of the op; 0 along the others.
        sizes: number of elements along some dimensions; one along the others.
        spaced: the dimension of `sizes` whose elements may be apart; None if all are neighbours.
    """
    source, exprs = loops.operands[operand], loops.exprs[operand]
    everywhere = dict.fromkeys(range(len(loops.sizes)), 0) | dict(places)
    counts, strides = [], []
    for expr in exprs:
        dims = [dim for dim in sizes if factor_of(expr, dim)]
        counts.append(sizes[dims[0]] if dims else 1)
        # The lanes of a weight are read with their grains, which are neighbours.
        strides.append(factor_of(expr, dims[0]) if dims and dims[0] == spaced else 1)
    part = _slice(source, [linear_form(expr, everywhere) for expr in exprs], counts, strides)
    return read_whole(part)


def read_whole(tile: ir.Value) -> ir.Value:
    """Reads a tensor as a vector."""
    element = ir.RankedTensorType(tile.type).element_type
    zeros = [constant_index(0)] * len(shape_of(tile))
    identity = ir.AffineMapAttr.get(ir.AffineMap.get_identity(len(zeros)))
    kind, padding = ir.VectorType.get(shape_of(tile), element), constant(zero_of(element))
    return vector.TransferReadOp(kind, tile, zeros, identity, padding, [True] * len(zeros)).result


def contract_tiles(left: ir.Value, right: ir.Value, total: ir.Value) -> ir.Value:
    """Returns a tile of sums plus the product of tiles [rows, grains, grain] and [grains, columns, grain]."""
    maps, kinds = ir.Attribute.parse(_MAPS), ir.Attribute.parse(f"[{_KINDS}]")
    return vector.contract(total.type, left, right, total, indexing_maps=maps, iterator_types=kinds)


def _slice(source: ir.Value, linear: Sequence[LinearForm], counts: Sequence[int], strides: Sequence[int]) -> ir.Value:
    """Returns a part of a tensor without its dimensions of one element."""
    places = [base if not terms else apply_linear((base, terms)) for base, terms in linear]
    dynamic = [place for place in places if isinstance(place, ir.Value)]
    static = [place if isinstance(place, int) else ir.ShapedType.get_dynamic_stride_or_offset() for place in places]
    shape = [count for count in counts if count > 1]
    kind = ir.RankedTensorType.get(shape, ir.RankedTensorType(source.type).element_type)
    return tensor.extract_slice(kind, source, dynamic, [], [], static, counts, strides)


def widened(value: ir.Value, *, is_signed: bool) -> ir.Value:
    """Extends a tile to the type of the sums."""
    tile = ir.VectorType(value.type)
    if isinstance(tile.element_type, ir.FloatType):
        return arith.extf(ir.VectorType.get(tile.shape, ir.F32Type.get()), value)
    kind = ir.VectorType.get(tile.shape, ir.IntegerType.get_signless(32))
    return arith.extsi(kind, value) if is_signed else arith.extui(kind, value)
