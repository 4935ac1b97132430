"""Loop nest of a transpose with a few long rows: vectors of all rows are interleaved or deinterleaved in registers.

%out[.., column, row] = %x[.., row, .., column]     rows merged: channels last, channel shuffles
%out[.., row, .., column] = %x[.., column, row]     rows parted
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import tensor, vector

from ...builders.access import Point, read_row
from ...builders.indices import Index, at_most, loop, multiply, value_of
from .generic import Generic
from .widths import Widths, element_bytes

_Values = list[ir.Value]
# Maximum number of rows; more are transposed faster in square tiles.
_MOST_ROWS = 8


@dataclass(frozen=True)
class Rows:
    """Copy that interleaves (merges) or deinterleaves (parts) rows.

    Attributes:
        merges: whether the result has the rows' elements interleaved; otherwise the operand has.
        sizes: extents of the result's dimensions.
        source: for each dimension of the operand, the corresponding dimension of the result.
        row: dimension of the result that numbers rows.
        column: dimension of the result along a row.
    """

    merges: bool
    sizes: tuple[int, ...]
    source: tuple[int, ...]
    row: int
    column: int

    @property
    def count(self) -> int:
        """Number of rows."""
        return self.sizes[self.row]

    @property
    def length(self) -> int:
        """Length of a row."""
        return self.sizes[self.column]

    @property
    def outer(self) -> list[int]:
        """Dimensions around rows, in the order of the result."""
        return [dim for dim in range(len(self.sizes)) if dim not in (self.row, self.column)]


def interleaved(generic: Generic) -> Rows | None:
    """Returns the rows that an op merges or parts; None if it does neither, or in an unsupported form."""
    if generic.reductions or generic.num_inputs != 1 or not _is_copy(generic):
        return None
    source, target = (tuple(_plain(expr) for expr in exprs) for exprs in generic.maps)
    sizes = tuple(size for size in generic.static_sizes() if size is not None)
    rank = len(generic.static_sizes())
    if len(sizes) < rank or rank < 2 or target != tuple(range(rank)):
        return None
    places = tuple(dim for dim in source if dim is not None)
    if sorted(places) != list(range(rank)) or len(source) != rank:
        return None
    ways = []
    if places[-1] == rank - 2:
        ways.append(Rows(True, sizes, places, rank - 1, rank - 2))
    if places[-2] == rank - 1:
        ways.append(Rows(False, sizes, places, places[-1], rank - 1))
    fitting = [rows for rows in ways if 1 < rows.count <= _MOST_ROWS and rows.length >= max(4, 2 * rows.count)]
    return next((rows for rows in fitting if _is_dense(generic.operands[int(rows.merges)])), None)


def _is_copy(generic: Generic) -> bool:
    (*others, last) = generic.block.operations
    return not others and last.operands[0] == generic.block.arguments[0]


def _is_dense(value: ir.Value) -> bool:
    """Returns whether the last two dimensions of `value` are contiguous: it is not a slice that cuts the last one."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "tensor.extract_slice":
        return True
    source, kind = ir.RankedTensorType(owner.operands[0].type), ir.RankedTensorType(value.type)
    steps = list(ir.DenseI64ArrayAttr(owner.attributes["static_strides"]))
    return source.rank == kind.rank and source.shape[-1] == kind.shape[-1] and set(steps) == {1}


class InterleaveNest:
    """Emits one op at the insertion point."""

    def __init__(self, generic: Generic, rows: Rows, widths: Widths) -> None:
        self._generic, self._rows = generic, rows
        native = max(4, widths.vector_bytes // element_bytes(self._generic))
        self._lanes = min(native, 1 << (rows.length.bit_length() - 1))

    def emit(self) -> _Values:
        """Returns the tensor that the op makes."""
        (source, target), rows = self._generic.operands, self._rows
        flat_source = source if rows.merges else _flattened(source)
        flat_target = _flattened(target) if rows.merges else target
        (made,) = self._loops(rows.outer, {}, flat_source, [flat_target])
        if not rows.merges:
            return [made]
        rank = len(rows.outer)
        groups = [*([dim] for dim in range(rank)), [rank, rank + 1]]
        shape = ir.RankedTensorType(target.type).shape
        return [tensor.ExpandShapeOp(target.type, made, groups, [], shape).result]

    def _loops(self, dims: Sequence[int], at: dict[int, Index], source: ir.Value, carried: _Values) -> _Values:
        rows = self._rows
        if dims:
            first, *others = dims
            return loop(
                0,
                rows.sizes[first],
                1,
                carried,
                lambda index, values: self._loops(others, {**at, first: index}, source, values),
            )
        last = rows.length - self._lanes
        move = self._merge if rows.merges else self._part
        # The last vectors are moved back to end at the end of the rows, and write some elements twice.
        return loop(
            0,
            rows.length,
            self._lanes,
            carried,
            lambda index, values: [move(at, at_most(index, last), source, values[0])],
        )

    def _merge(self, at: dict[int, Index], start: Index, source: ir.Value, target: ir.Value) -> ir.Value:
        rows = self._rows
        read = []
        for row in range(rows.count):
            here = {**at, rows.row: row, rows.column: start}
            read.append(_read(source, [here[dim] for dim in rows.source], self._lanes))
        return _write(merged(read), target, [*(at[dim] for dim in rows.outer), multiply(start, rows.count)])

    def _part(self, at: dict[int, Index], start: Index, source: ir.Value, target: ir.Value) -> ir.Value:
        rows = self._rows
        before = [at[dim] for dim in rows.source[:-2]]
        whole = _read(source, [*before, multiply(start, rows.count)], self._lanes * rows.count)
        for row, value in enumerate(parted(whole, rows.count)):
            here = {**at, rows.row: row, rows.column: start}
            target = _write(value, target, [here[dim] for dim in range(len(rows.sizes))])
        return target


def merged(rows: Sequence[ir.Value]) -> ir.Value:
    """Interleaves rows: the first lanes of all rows, then their second lanes, and so on.

    The even rows and the odd rows are interleaved recursively, then with each other.
    """
    if len(rows) == 1:
        return rows[0]
    evens, odds = merged(rows[::2]), merged(rows[1::2])
    lanes = [_lanes(part) for part in (evens, odds)]
    length, few, many = lanes[1] // (len(rows) // 2), len(rows[1::2]), len(rows[::2])
    places = []
    for lane in range(length):
        for row in range(len(rows)):
            places.append(lane * many + row // 2 if row % 2 == 0 else lanes[0] + lane * few + row // 2)
    if lanes[1] < lanes[0]:
        # Both operands of a shuffle must have the same size; the added lanes are never read.
        odds = vector.shuffle(odds, odds, [*range(lanes[1]), *[0] * (lanes[0] - lanes[1])])
    return vector.shuffle(evens, odds, places)


def parted(whole: ir.Value, count: int) -> _Values:
    """Deinterleaves rows; the inverse of `merged`."""
    if count % 2:
        return [vector.shuffle(whole, whole, list(range(row, _lanes(whole), count))) for row in range(count)]
    evens, odds = (vector.shuffle(whole, whole, list(range(first, _lanes(whole), 2))) for first in (0, 1))
    if count == 2:
        return [evens, odds]
    pairs = zip(parted(evens, count // 2), parted(odds, count // 2), strict=True)
    return [row for pair in pairs for row in pair]


def _lanes(value: ir.Value) -> int:
    return ir.VectorType(value.type).shape[0]


def _read(source: ir.Value, indices: list[Index], lanes: int) -> ir.Value:
    return read_row(source, indices, Point((), width=lanes, valid=lanes))


def _write(value: ir.Value, target: ir.Value, indices: list[Index]) -> ir.Value:
    last = ir.AffineMap.get(len(indices), 0, [ir.AffineDimExpr.get(len(indices) - 1)])
    written = vector.TransferWriteOp(
        target.type,
        value,
        target,
        [value_of(index) for index in indices],
        ir.AffineMapAttr.get(last),
        ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
    )
    return written.operation.results[0]


def _flattened(value: ir.Value) -> ir.Value:
    """Returns `value` with its last two dimensions collapsed."""
    kind = ir.RankedTensorType(value.type)
    *outer, rows, columns = kind.shape
    rank = len(outer)
    flat = ir.RankedTensorType.get([*outer, rows * columns], kind.element_type)
    return tensor.CollapseShapeOp(flat, value, [*([dim] for dim in range(rank)), [rank, rank + 1]]).result


def _plain(expr: ir.AffineExpr) -> int | None:
    simple = expr.maybe_downcast()
    return simple.position if isinstance(simple, ir.AffineDimExpr) else None
