"""Values of a row kernel for single elements: computed on demand, and once per scope in which they are valid.

A place is a row and a column of the thread: a group (an index known at run time) and a lane in it. The lanes of a group
are neighbours in memory, accessed as one vector. Values that do not depend on the column are computed before the loop
over columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, vector

from .....machines.gpus import ACCESS_BYTES
from ...instructions import memory
from ...instructions.integers import Int
from .axes import Axes, element_bytes
from .space import RowAccess, RowSpace

LaneKey = tuple[int, int]
"""A group of rows or columns, and a lane in it."""

_Cell = tuple[LaneKey, LaneKey]
"""Row and column."""

ROW, COLUMN = "row", "column"


@dataclass
class _Scope:
    """Values valid up to the end of a loop's body; `before` is the insertion point for values of the outer scope."""

    values: dict[object, ir.Value] = field(default_factory=dict)
    before: ir.InsertionPoint | None = None


class RowElements:
    """Computes values of a row kernel at places."""

    def __init__(self, space: RowSpace, axes: Axes, pointers: dict[ir.Value, ir.Value]) -> None:
        """Prepares for a kernel with its arguments at `pointers`."""
        self._space, self._axes, self._pointers = space, axes, pointers
        self._scopes = [_Scope()]
        self._indices: dict[tuple[str, int, int], Int] = {}
        self._depends: dict[ir.Value, frozenset[str]] = {}

    def place(self, side: str, group: int, index: Int) -> None:
        """Declares the row or column (linearised over all axes) of a group's first lane."""
        axes = self._axes.rows if side == ROW else self._axes.columns
        for number in reversed(range(len(axes))):
            extent = self._space.extent(axes[number])
            self._indices[side, group, number] = index % extent if number else index
            index = index // extent if number else index

    @contextmanager
    def loop(self, before: ir.Operation) -> Iterator[None]:
        """Opens the body of a loop over columns: values made in it are not valid outside."""
        self._scopes.append(_Scope(before=ir.InsertionPoint(before)))
        yield
        self._scopes.pop()

    def bind(self, value: ir.Value, row: LaneKey, made: ir.Value) -> None:
        """Declares the result of a reduction for a row."""
        self._scopes[0].values[value, row, None] = made

    def at(self, value: ir.Value, place: _Cell) -> ir.Value:
        """Returns an element of a computed tensor."""
        key = self._key(value, place)
        known = self._known(key)
        if known is not None:
            return known
        op = value.owner.operation
        if op.name == "linalg.fill":
            return self._scalar(op.operands[0], place)
        position = list(op.results).index(value)
        *_, yielded = op.regions[0].blocks[0].operations
        return self._scalar(yielded.operands[position], place)

    def inside(self, value: ir.Value, place: _Cell) -> ir.Value:
        """Returns a scalar of the body of one of the kernel's ops."""
        return self._scalar(value, place)

    def start(self, reduction: ir.Operation, place: _Cell) -> ir.Value:
        """Returns the initial value of a reduction."""
        return self._operand(reduction, len(reduction.operands) - 1, place)

    def store(self, access: RowAccess, value: ir.Value, place: _Cell) -> None:
        """Writes the lanes of a group: a vector or a scalar."""
        kind = value.type.element_type if isinstance(value.type, ir.VectorType) else value.type
        count = ir.VectorType(value.type).shape[0] if isinstance(value.type, ir.VectorType) else 1
        pointer = self._pointer(access, place)
        memory.store(value, pointer, min(ACCESS_BYTES, element_bytes(kind) * count))

    def depends(self, value: ir.Value) -> frozenset[str]:
        """Returns which of row and column a tensor of the kernel, or a scalar of a body, depends on."""
        if value not in self._depends:
            self._depends[value] = self._dependence(value)
        return self._depends[value]

    def _dependence(self, value: ir.Value) -> frozenset[str]:
        if isinstance(value.owner, ir.Block):
            owner = value.owner.owner
            return self._operand_dependence(owner.operation, ir.BlockArgument(value).arg_number)
        op = value.owner.operation
        if op.name == "linalg.index":
            dim = self._space.loops[_outer(op).results[0]][ir.IntegerAttr(op.attributes["dim"]).value]
            return frozenset([COLUMN if dim in self._space.columns else ROW])
        if op.name == "linalg.generic":
            *_, yielded = op.regions[0].blocks[0].operations
            if op.results[0] in self._space.combiners:
                return frozenset([ROW])
            return self.depends(yielded.operands[list(op.results).index(value)])
        if op.name == "linalg.fill":
            return self.depends(op.operands[0])
        return frozenset().union(*(self.depends(operand) for operand in op.operands))

    def _operand_dependence(self, op: ir.Operation, position: int) -> frozenset[str]:
        access = self._space.access(op, position)
        if access is None:
            return self.depends(op.operands[position])
        sides = {COLUMN if dim in self._space.columns else ROW for dim, stride in enumerate(access.strides) if stride}
        return frozenset(sides)

    def _key(self, value: ir.Value, place: _Cell) -> tuple[ir.Value, LaneKey | None, LaneKey | None]:
        sides = self.depends(value)
        return value, place[0] if ROW in sides else None, place[1] if COLUMN in sides else None

    def _known(self, key: object) -> ir.Value | None:
        return next((scope.values[key] for scope in self._scopes if key in scope.values), None)

    @contextmanager
    def _scope_of(self, is_column: bool) -> Iterator[_Scope]:
        """Selects the scope of a value; values independent of the column are made before the loop over columns."""
        if is_column or len(self._scopes) == 1:
            yield self._scopes[-1]
            return
        before = self._scopes[1].before
        assert before is not None
        with before:
            yield self._scopes[0]

    def _scalar(self, value: ir.Value, place: _Cell) -> ir.Value:
        key = self._key(value, place)
        known = self._known(key)
        if known is None:
            with self._scope_of(key[2] is not None) as scope:
                known = scope.values[key] = self._made(value, place)
        return known

    def _made(self, value: ir.Value, place: _Cell) -> ir.Value:
        if isinstance(value.owner, ir.Block):
            return self._operand(value.owner.owner.operation, ir.BlockArgument(value).arg_number, place)
        op = value.owner.operation
        if op.name == "linalg.index":
            dim = self._space.loops[_outer(op).results[0]][ir.IntegerAttr(op.attributes["dim"]).value]
            return self._dim_index(dim, place).index()
        operands = [self._scalar(operand, place) for operand in op.operands]
        attributes = {name: op.attributes[name] for name in op.attributes}
        made = ir.Operation.create(op.name, [result.type for result in op.results], operands, attributes)
        return made.results[list(op.results).index(value)]

    def _operand(self, op: ir.Operation, position: int, place: _Cell) -> ir.Value:
        """Returns the element of an operand that an op of the kernel reads at a place."""
        access = self._space.access(op, position)
        if access is None:
            return self._tensor(op, position, place)
        along, sides = self._axes.along_columns, _sides(access, self._space)
        if self._axes.lanes == 1 or not self._is_vector(access) or (COLUMN if along else ROW) not in sides:
            return memory.load(access.element, self._pointer(access, place), element_bytes(access.element))
        row, column = place
        first = (row, (column[0], 0)) if along else ((row[0], 0), column)
        key = access, first[0] if ROW in sides else None, first[1] if COLUMN in sides else None
        known = self._known(key)
        if known is None:
            kind = ir.VectorType.get([self._axes.lanes], access.element)
            alignment = element_bytes(access.element) * self._axes.lanes
            known = memory.load(kind, self._pointer(access, first), min(ACCESS_BYTES, alignment))
            with self._scope_of(key[2] is not None) as scope:
                scope.values[key] = known
        return vector.extract(known, [], [place[along][1]])

    def _is_vector(self, access: RowAccess) -> bool:
        """Returns whether the lanes of a group are neighbours in memory."""
        axis = (self._axes.columns if self._axes.along_columns else self._axes.rows)[-1]
        return access.strides[axis[-1]] == 1

    def _tensor(self, op: ir.Operation, position: int, place: _Cell) -> ir.Value:
        value = op.operands[position]
        if not isinstance(value.type, ir.RankedTensorType):
            return self._scalar(value, place)
        if value.owner.name == "arith.constant":
            return _splat(value)
        return self.at(value, place)

    def _pointer(self, access: RowAccess, place: _Cell) -> ir.Value:
        """Returns the address of an element; its constant part is encoded in the instruction."""
        offset, constant = Int(0), access.offset
        for side, key, axes in zip((ROW, COLUMN), place, (self._axes.rows, self._axes.columns), strict=True):
            for number, axis in enumerate(axes):
                stride = access.strides[axis[-1]]
                if not stride:
                    continue
                offset = offset + self._indices[side, key[0], number] * stride
                if number == len(axes) - 1:
                    constant += key[1] * stride
        return memory.element_pointer(self._pointers[access.base], access.element, offset, constant)

    def _dim_index(self, dim: int, place: _Cell) -> Int:
        """Returns the index of a place along one dimension."""
        is_column = dim in self._space.columns
        side, axes = (COLUMN, self._axes.columns) if is_column else (ROW, self._axes.rows)
        group, lane = place[is_column]
        for number, axis in enumerate(axes):
            if dim in axis:
                index = self._indices[side, group, number] + (lane if number == len(axes) - 1 else 0)
                inner = self._space.extent(axis[axis.index(dim) + 1 :])
                index = index // inner if inner > 1 else index
                return index % self._space.sizes[dim] if axis.index(dim) else index
        return Int(0)


def _sides(access: RowAccess, space: RowSpace) -> set[str]:
    return {COLUMN if dim in space.columns else ROW for dim, stride in enumerate(access.strides) if stride}


def _outer(op: ir.Operation) -> ir.Operation:
    parent = op.parent
    assert parent is not None
    return parent.operation


def _splat(value: ir.Value) -> ir.Value:
    dense = ir.DenseElementsAttr(value.owner.attributes["value"])
    kind = ir.RankedTensorType(value.type).element_type
    return arith.constant(kind, dense.get_splat_value())
