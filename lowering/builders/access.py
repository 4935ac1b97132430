"""Reads operands of a linalg.generic and writes its results, one scalar or one vector at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, tensor, vector

from .indices import Index, add, affine, coefficient, subtract, value_of

# Maximum stride in elements of a strided read; beyond it, most of the loaded elements would be dropped.
_MOST_STRIDE = 4


@dataclass(frozen=True)
class Point:
    """A point of the loop nest for which code is emitted.

    Attributes:
        dims: index of each loop; for the vectorised loop, that of lane 0.
        lane_dim: the vectorised loop, or None for scalar code.
        width: number of lanes.
        valid: number of lanes inside the loop; the others are masked.
        interior: parallel loops at whose current indices no window reaches into padding.
    """

    dims: tuple[Index, ...]
    lane_dim: int | None = None
    width: int = 1
    valid: int = 1
    interior: frozenset[int] = frozenset()

    def at(self, dim: int, index: Index) -> Point:
        """Returns the same point with another index of one loop."""
        return replace(self, dims=(*self.dims[:dim], index, *self.dims[dim + 1 :]))

    def lanes(self, index: Index, width: int, valid: int) -> Point:
        """Returns the same point with lanes along `lane_dim` that start at `index`."""
        assert self.lane_dim is not None
        return replace(self.at(self.lane_dim, index), width=width, valid=valid)

    def scalar(self) -> Point:
        """Returns the same point without lanes."""
        return replace(self, lane_dim=None, width=1, valid=1)

    def mask(self) -> ir.Value | None:
        """Returns the mask of the valid lanes, or None if all lanes are valid."""
        if self.valid == self.width:
            return None
        kind = ir.VectorType.get([self.width], ir.IntegerType.get_signless(1))
        return vector.ConstantMaskOp(kind, ir.DenseI64ArrayAttr.get([self.valid])).result


def is_vector(value: ir.Value) -> bool:
    """Returns whether a value is a vector; a scalar is the same in all lanes."""
    return isinstance(value.type, ir.VectorType)


def vector_type(width: int, element: ir.Type) -> ir.VectorType:
    """Returns the vector type of `width` lanes of `element`."""
    return ir.VectorType.get([width], element)


def broadcast(value: ir.Value, width: int) -> ir.Value:
    """Returns a vector with `value` in every lane."""
    return value if is_vector(value) else vector.broadcast(vector_type(width, value.type), value)


def zero(kind: ir.Type) -> ir.Value:
    """Returns the number 0 of a scalar type."""
    return arith.constant(kind, 0.0 if isinstance(kind, ir.FloatType) else 0)


def read(source: ir.Value, exprs: Sequence[ir.AffineExpr], point: Point, shift: Sequence[Index] = ()) -> ir.Value:
    """Reads the element of `source` at `point`, or one element per lane; `shift` is added to the indices."""
    indices = [affine(expr, point.dims) for expr in exprs]
    if shift:
        indices = [add(index, by) for index, by in zip(indices, shift, strict=True)]
    slopes = [coefficient(expr, point.lane_dim) for expr in exprs]
    if point.lane_dim is None or not any(slopes):
        return tensor.extract(source, [value_of(index) for index in indices])
    if any(slopes[:-1]):
        return _read_lane_by_lane(source, indices, slopes, point)
    if slopes[-1] == 1:
        return read_row(source, indices, point)
    if slopes[-1] == -1 and point.mask() is None:
        row = read_row(source, [*indices[:-1], subtract(indices[-1], point.width - 1)], point)
        return vector.shuffle(row, row, list(reversed(range(point.width))))
    if 1 < slopes[-1] <= _MOST_STRIDE:
        return _read_strided(source, indices, slopes[-1], point)
    i32 = ir.IntegerType.get_signless(32)
    kind = vector_type(point.width, i32)
    offsets = ir.DenseElementsAttr.get(
        [ir.IntegerAttr.get(i32, slopes[-1] * lane) for lane in range(point.width)], kind
    )
    return gather(source, indices, arith.constant(kind, offsets), point)


def read_row(source: ir.Value, indices: Sequence[Index], point: Point) -> ir.Value:
    """Reads consecutive elements along the last dimension of `source`."""
    element = ir.RankedTensorType(source.type).element_type
    return vector.TransferReadOp(
        vector_type(point.width, element),
        source,
        [value_of(index) for index in indices],
        _last_dimension(len(indices)),
        zero(element),
        ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
        mask=point.mask(),
    ).result


def _read_strided(source: ir.Value, indices: Sequence[Index], stride: int, point: Point) -> ir.Value:
    """Reads every `stride`-th element along the last dimension: loads whole vectors and drops the elements between."""
    reach = replace(point, width=point.width * stride, valid=(point.valid - 1) * stride + 1)
    row = read_row(source, indices, reach)
    return vector.shuffle(row, row, list(range(0, reach.width, stride)))


def gather(source: ir.Value, indices: Sequence[Index], offsets: ir.Value, point: Point) -> ir.Value:
    """Reads one element per lane, at `offsets` from the element at `indices` along the last dimension."""
    element = ir.RankedTensorType(source.type).element_type
    kind = vector_type(point.width, element)
    everywhere = ir.DenseElementsAttr.get_splat(
        vector_type(point.width, ir.IntegerType.get_signless(1)), ir.BoolAttr.get(True)
    )
    mask = point.mask() or arith.constant(everywhere.type, everywhere)
    start = [value_of(index) for index in indices]
    return vector.GatherOp(kind, source, start, offsets, mask, broadcast(zero(element), point.width)).result


def _read_lane_by_lane(source: ir.Value, indices: Sequence[Index], slopes: Sequence[int], point: Point) -> ir.Value:
    lanes = [
        tensor.extract(
            source, [value_of(add(index, slope * lane)) for index, slope in zip(indices, slopes, strict=True)]
        )
        for lane in range(point.valid)
    ]
    lanes += [zero(lanes[0].type)] * (point.width - point.valid)
    return vector.FromElementsOp(vector_type(point.width, lanes[0].type), lanes).result


def write(value: ir.Value, target: ir.Value, exprs: Sequence[ir.AffineExpr], point: Point) -> ir.Value:
    """Returns `target` with the element at `point`, or one per lane, replaced by `value`."""
    indices = [value_of(affine(expr, point.dims)) for expr in exprs]
    if point.lane_dim is None:
        return tensor.insert(value, target, indices)
    return write_row(value, target, indices, point)


def write_row(value: ir.Value, target: ir.Value, indices: Sequence[Index], point: Point) -> ir.Value:
    """Returns `target` with consecutive elements along its last dimension replaced."""
    written = vector.TransferWriteOp(
        target.type,
        broadcast(value, point.width),
        target,
        [value_of(index) for index in indices],
        _last_dimension(len(indices)),
        ir.ArrayAttr.get([ir.BoolAttr.get(True)]),
        mask=point.mask(),
    )
    return written.operation.results[0]


def _last_dimension(rank: int) -> ir.AffineMapAttr:
    return ir.AffineMapAttr.get(ir.AffineMap.get(rank, 0, [ir.AffineDimExpr.get(rank - 1)]))
