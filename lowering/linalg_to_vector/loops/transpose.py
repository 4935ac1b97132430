"""Loops of an op that reads an operand along another dimension than it writes: square tiles, turned in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import vector

from .access import Point, read, write
from .body import Body
from .generic import Generic
from .indices import Index, add, at_most, loop
from .widths import Widths, element_bytes

Values = list[ir.Value]
_LARGEST_TILE = 16


def transposed_inputs(generic: Generic) -> dict[int, int]:
    """Input number -> the loop along which its elements lie, for inputs that are read across; {} where none is."""
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
    """Emits one op at the insertion point."""

    def __init__(self, generic: Generic, widths: Widths) -> None:
        self._generic = generic
        self._inputs = transposed_inputs(generic)
        self._along = next(iter(self._inputs.values()))
        written = _plain(self._generic.output_maps[0][-1])
        assert written is not None
        self._across = written
        self._sizes = self._generic.sizes()
        self._tile = min(_LARGEST_TILE, max(4, widths.vector_bytes // element_bytes(self._generic)))

    def emit(self) -> Values:
        """The tensor that the op makes."""
        outer = [dim for dim in range(len(self._sizes)) if dim not in (self._along, self._across)]
        return self._loops(outer, Point((0,) * len(self._sizes)), list(self._generic.outputs))

    def _loops(self, dims: Sequence[int], point: Point, carried: Values) -> Values:
        if dims:
            return loop(
                0,
                self._sizes[dims[0]],
                1,
                carried,
                lambda index, values: self._loops(dims[1:], point.at(dims[0], index), values),
            )
        return self._tiles(
            self._along,
            carried,
            lambda start, rows, values: self._tiles(
                self._across,
                values,
                lambda at, columns, inner: self._turn(
                    point.at(self._along, start).at(self._across, at), rows, columns, inner
                ),
            ),
        )

    def _tiles(self, dim: int, carried: Values, body: Callable[[Index, int, Values], Values]) -> Values:
        """Steps of a whole tile. The last one is moved back to end where the dimension ends, and computes some results
        twice: less code than for what is left of a tile, and as fast.
        """
        size = self._sizes[dim]
        assert isinstance(size, int)
        if size < self._tile:
            return body(0, size, carried)
        return loop(
            0,
            size,
            self._tile,
            carried,
            lambda index, values: body(at_most(index, size - self._tile), self._tile, values),
        )

    def _turn(self, point: Point, rows: int, columns: int, carried: Values) -> Values:
        """One tile: `rows` along the dimension in which inputs lie, `columns` along that of the result."""
        turned = {position: self._columns(position, point, rows, columns) for position in self._inputs}
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
                if position in turned:
                    arguments[argument] = turned[position][row]
                elif isinstance(operand.type, ir.ShapedType):
                    arguments[argument] = read(operand, generic.maps[position], here)
                else:
                    arguments[argument] = operand
            (value,) = Body(generic.block, here).run(arguments)
            target = write(value, target, generic.output_maps[0], here)
        return [target]

    def _columns(self, position: int, point: Point, rows: int, columns: int) -> Values:
        """The tile of an input as vectors along the result's dimension."""
        operand, exprs = self._generic.operands[position], self._generic.maps[position]
        read_rows = [
            read(operand, exprs, Point(_moved(point, self._across, column).dims, self._along, self._tile, rows))
            for column in range(columns)
        ]
        return transpose([*read_rows, *[read_rows[0]] * (self._tile - columns)])


def transpose(rows: Sequence[ir.Value]) -> Values:
    """The columns of a square tile, a power of two wide: in each step pairs of rows swap ever smaller blocks."""
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


def _moved(point: Point, dim: int, by: int) -> Point:
    return point.at(dim, add(point.dims[dim], by))


def _plain(expr: ir.AffineExpr) -> int | None:
    simple = expr.maybe_downcast()
    return simple.position if isinstance(simple, ir.AffineDimExpr) else None
