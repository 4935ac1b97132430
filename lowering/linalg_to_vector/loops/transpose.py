"""Loop nest of an op with a transposed operand: square tiles, transposed in registers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import tensor, vector

from ...builders.access import Point, read, write
from ...builders.indices import Index, add, at_most, coefficient, loop
from .body import Body
from .generic import Generic
from .widths import Widths, element_bytes

_Values = list[ir.Value]
_LARGEST_TILE = 16
"""Side of the largest tile in elements: more rows of narrow elements would not fit into 32 vector registers."""


def transposed_inputs(generic: Generic) -> dict[int, int]:
    """Returns the inputs that are read transposed: the loop along which an input is contiguous, by input number."""
    if generic.reductions or len(generic.results) != 1 or not generic.output_maps[0]:
        return {}
    sizes = generic.static_sizes()
    written = _plain(generic.output_maps[0][-1])
    found: dict[int, int] = {}
    for position in range(generic.num_inputs):
        loops = [_plain(expr) for expr in generic.maps[position]]
        if not loops or None in loops or written not in loops or loops[-1] == written:
            continue
        along = loops[-1]
        assert along is not None
        if sizes[along] not in (None, 1) and written is not None and sizes[written] not in (None, 1):
            found[position] = along
    return found if len(set(found.values())) == 1 else {}


class TransposeNest:
    """Emits one op at the insertion point.

    If the result's last dimension is shorter than a tile, a tile also covers several indices of the dimension before
    it, with which it is contiguous in memory.

    Tiles that share the cache lines of an input are visited in succession if the cache could not keep a line of
    each row until the next tiles along the rows.
    """

    def __init__(self, generic: Generic, widths: Widths) -> None:
        self._generic = generic
        self._inputs = transposed_inputs(generic)
        self._along = next(iter(self._inputs.values()))
        written = _plain(self._generic.output_maps[0][-1])
        assert written is not None
        self._across = written
        self._machine = widths.machine
        self._sizes = self._generic.sizes()
        self._tile = min(_LARGEST_TILE, max(4, widths.vector_bytes // element_bytes(self._generic)))
        self._before = _joined(generic, self._along, self._tile)
        self._output = list(generic.output_maps[0])
        if self._before is not None:
            *outer, before, last = self._output
            self._output = [*outer, before * self._extent(written) + last]

    def emit(self) -> _Values:
        """Returns the tensor that the op makes."""
        mine = (self._along, self._across, self._before)
        outer = [dim for dim in range(len(self._sizes)) if dim not in mine]
        (target,) = self._generic.outputs
        if self._before is None:
            return self._loops(outer, Point((0,) * len(self._sizes)), [target])
        kind = ir.RankedTensorType(target.type)
        rank = kind.rank
        groups = [*([dim] for dim in range(rank - 2)), [rank - 2, rank - 1]]
        shape = [*kind.shape[:-2], kind.shape[-2] * kind.shape[-1]]
        flat = tensor.CollapseShapeOp(ir.RankedTensorType.get(shape, kind.element_type), target, groups).result
        (made,) = self._loops(outer, Point((0,) * len(self._sizes)), [flat])
        return [tensor.ExpandShapeOp(kind, made, groups, [], list(kind.shape)).result]

    def _loops(self, dims: Sequence[int], point: Point, carried: _Values) -> _Values:
        if dims:
            return loop(
                0,
                self._sizes[dims[0]],
                1,
                carried,
                lambda index, values: self._loops(dims[1:], point.at(dims[0], index), values),
            )
        across, part = self._across, 1
        if self._before is not None:
            across, part = self._before, self._extent(self._across)
        line = self._machine.line_bytes // element_bytes(self._generic)
        step = line if self._rows_share_sets() and self._extent(self._along) >= line > self._tile else self._tile

        def turn(start: Index, rows: int, at: Index, columns: int, values: _Values) -> _Values:
            here, tile = point.at(across, at), min(rows, self._tile)
            return loop(
                0,
                rows,
                self._tile,
                values,
                lambda index, inner: self._transposed_tile(
                    here.at(self._along, add(start, index)), tile, columns * part, inner
                ),
            )

        return self._tiles(
            self._along,
            step,
            carried,
            lambda start, rows, values: self._tiles(
                across,
                self._tile // part,
                values,
                lambda at, columns, inner: turn(start, rows, at, columns, inner),
            ),
        )

    def _rows_share_sets(self) -> bool:
        """Returns whether the distance of neighbouring rows of an input is a multiple of the cache's set period."""
        across = self._across if self._before is None else self._before
        for position in self._inputs:
            places = [place for place, expr in enumerate(self._generic.maps[position]) if _plain(expr) == across]
            shape = _whole_shape(self._generic.operands[position])
            stride = math.prod(shape[places[0] + 1 :]) * element_bytes(self._generic) if places else 1
            if stride % self._machine.page_bytes == 0:
                return True
        return False

    def _extent(self, dim: int) -> int:
        size = self._sizes[dim]
        assert isinstance(size, int)
        return size

    def _tiles(self, dim: int, step: int, carried: _Values, body: Callable[[Index, int, _Values], _Values]) -> _Values:
        """Emits steps of a whole tile.

        The last tile is moved back to end at the end of the dimension, and computes some results twice: this is as
        fast as a partial tile and needs less code.
        """
        size = self._extent(dim)
        if size < step:
            return body(0, size, carried)
        return loop(
            0,
            size,
            step,
            carried,
            lambda index, values: body(at_most(index, size - step), step, values),
        )

    def _transposed_tile(self, point: Point, rows: int, columns: int, carried: _Values) -> _Values:
        """Emits one tile: `rows` along the contiguous dimension of the inputs, `columns` along that of the result."""
        transposed = {position: self._columns(position, point, rows, columns) for position in self._inputs}
        (target,) = carried
        generic = self._generic
        for row in range(rows):
            here = _moved(point, self._along, row)
            here = Point(here.dims, self._across, self._tile, columns)
            arguments = {}
            for position, argument in enumerate(generic.block.arguments):
                if not any(True for _ in argument.uses):
                    continue
                operand = target if position >= generic.num_inputs else generic.operands[position]
                if position in transposed:
                    arguments[argument] = transposed[position][row]
                elif isinstance(operand.type, ir.ShapedType):
                    arguments[argument] = read(operand, generic.maps[position], here)
                else:
                    arguments[argument] = operand
            (value,) = Body(generic.block, here).run(arguments)
            target = write(value, target, self._output, here)
        return [target]

    def _columns(self, position: int, point: Point, rows: int, columns: int) -> _Values:
        """Returns the tile of an input as vectors along the result's dimension."""
        operand, exprs = self._generic.operands[position], self._generic.maps[position]
        read_rows = [
            read(operand, exprs, Point(self._column(point, column).dims, self._along, self._tile, rows))
            for column in range(columns)
        ]
        return transpose([*read_rows, *[read_rows[0]] * (self._tile - columns)])

    def _column(self, point: Point, column: int) -> Point:
        if self._before is None:
            return _moved(point, self._across, column)
        part = self._extent(self._across)
        return _moved(point, self._before, column // part).at(self._across, column % part)


def _whole_shape(value: ir.Value) -> list[int]:
    """Returns the shape of the tensor that a value is a slice of, or of the value itself."""
    rank = ir.RankedTensorType(value.type).rank
    while not isinstance(value.owner, ir.Block) and value.owner.name == "tensor.extract_slice":
        source = value.owner.operands[0]
        if ir.RankedTensorType(source.type).rank != rank:
            break
        value = source
    return list(ir.RankedTensorType(value.type).shape)


def transpose(rows: Sequence[ir.Value]) -> _Values:
    """Returns the columns of a square tile, a power of two wide; each step swaps ever smaller blocks of row pairs."""
    size = len(rows)
    values = list(rows)
    distance = size // 2
    while distance:
        low = [lane if not lane & distance else size + lane - distance for lane in range(size)]
        high = [lane + distance if not lane & distance else size + lane for lane in range(size)]
        for first in range(size):
            if first & distance:
                continue
            upper, lower = values[first], values[first + distance]
            values[first] = vector.shuffle(upper, lower, low)
            values[first + distance] = vector.shuffle(upper, lower, high)
        distance //= 2
    return values


def _joined(generic: Generic, along: int, tile: int) -> int | None:
    """Returns the loop of the result's second-to-last dimension, if a tile covers a part of it and all of the last."""
    if len(generic.output_maps[0]) < 2:
        return None
    before, last = map(_plain, generic.output_maps[0][-2:])
    if before is None or last is None or before == along:
        return None
    sizes = generic.static_sizes()
    part, count = sizes[last], sizes[before]
    if part is None or count is None or part == 1 or tile % part or part * count < tile or part >= tile:
        return None
    # Operands that are not transposed have lanes along the last dimension only.
    transposed = transposed_inputs(generic)
    others = [exprs for position, exprs in enumerate(generic.maps[: generic.num_inputs]) if position not in transposed]
    is_same = all(coefficient(expr, dim) == 0 for exprs in others for expr in exprs for dim in (before, last))
    is_read = any(True for _ in generic.block.arguments[generic.num_inputs].uses)
    return before if is_same and not is_read else None


def _moved(point: Point, dim: int, by: int) -> Point:
    return point.at(dim, add(point.dims[dim], by))


def _plain(expr: ir.AffineExpr) -> int | None:
    simple = expr.maybe_downcast()
    return simple.position if isinstance(simple, ir.AffineDimExpr) else None
