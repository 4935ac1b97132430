"""Evaluates the body of a linalg.generic: on scalars if all lanes agree, else on vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, tensor, vector

from ....passes.ir.rewriting import walk
from ...builders.access import Point, broadcast, gather, is_vector, read_row, vector_type
from ...builders.indices import value_of


class Body:
    """One evaluation of a body at one point."""

    def __init__(self, block: ir.Block, point: Point) -> None:
        self._block, self._point = block, point
        self._values: dict[ir.Value, ir.Value] = {}

    def run(self, arguments: Mapping[ir.Value, ir.Value]) -> list[ir.Value]:
        """Returns the yielded values; `arguments` gives the block arguments that the body reads."""
        self._values.update(arguments)
        operations = list(self._block.operations)
        for op in operations[:-1]:
            self._evaluate(op.operation)
        return [self._lookup(value) for value in operations[-1].operands]

    def _lookup(self, value: ir.Value) -> ir.Value:
        found = self._values.get(value)
        if found is not None:
            return found
        if not isinstance(value.owner, ir.Block) and value.owner.name == "linalg.index":
            return self._index(value.owner.operation)
        return value

    def _evaluate(self, op: ir.Operation) -> None:
        if op.name == "linalg.index":
            return
        if op.name == "tensor.extract":
            self._values[op.results[0]] = self._extract(op)
            return
        if len(op.regions):
            self._values.update(zip(op.results, self._copy(op).results, strict=True))
            return
        self._values.update(zip(op.results, replay(op, [self._lookup(value) for value in op.operands]), strict=True))

    def _copy(self, op: ir.Operation) -> ir.Operation:
        """Copies a loop or branch of a scalar body unchanged."""
        inner = op.clone()
        for user in [inner, *walk(inner)]:
            for position, value in enumerate(user.operands):
                found = self._lookup(value)
                if found != value:
                    user.operands[position] = found
        return inner

    def _index(self, op: ir.Operation) -> ir.Value:
        """Returns the index of a loop; one per lane for the vectorised loop."""
        dim = ir.IntegerAttr(op.attributes["dim"]).value
        start = value_of(self._point.dims[dim])
        if dim != self._point.lane_dim:
            return start
        steps = vector.StepOp(vector_type(self._point.width, ir.IndexType.get())).result
        return arith.addi(broadcast(start, self._point.width), steps)

    def _is_lane_index(self, value: ir.Value) -> bool:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name != "linalg.index":
            return False
        return ir.IntegerAttr(owner.attributes["dim"]).value == self._point.lane_dim

    def _extract(self, op: ir.Operation) -> ir.Value:
        source, *where = list(op.operands)
        if where and self._is_lane_index(where[-1]):
            outer = [self._lookup(value) for value in where[:-1]]
            if not any(map(is_vector, outer)):
                return read_row(source, [*outer, self._point.dims[self._point.lane_dim or 0]], self._point)
        indices = [self._lookup(value) for value in where]
        if not any(map(is_vector, indices)):
            return tensor.extract(source, indices)
        return self._gather(source, indices)

    def _gather(self, source: ir.Value, indices: Sequence[ir.Value]) -> ir.Value:
        """Gathers elements whose indices differ from lane to lane, anywhere in the tensor."""
        if not any(map(is_vector, indices[:-1])):
            return gather(source, [*indices[:-1], 0], indices[-1], self._point)
        shape = ir.RankedTensorType(source.type).shape
        flat: ir.Value | None = None
        for index, size in zip(indices, shape, strict=True):
            scaled = None if flat is None else _binary(arith.MulIOp, flat, value_of(size), self._point.width)
            flat = index if scaled is None else _binary(arith.AddIOp, scaled, index, self._point.width)
        assert flat is not None
        return gather(flattened(source), [0], flat, self._point)


def _binary(op: type, lhs: ir.Value, rhs: ir.Value, width: int) -> ir.Value:
    if is_vector(lhs) or is_vector(rhs):
        lhs, rhs = broadcast(lhs, width), broadcast(rhs, width)
    return op(lhs, rhs).result


def flattened(source: ir.Value) -> ir.Value:
    """Returns `source` as a tensor of one dimension."""
    kind = ir.RankedTensorType(source.type)
    if kind.rank == 1:
        return source
    total = 1
    for size in kind.shape:
        total *= size
    flat = ir.RankedTensorType.get([total], kind.element_type)
    return tensor.CollapseShapeOp(flat, source, [list(range(kind.rank))]).result


def replay(op: ir.Operation, operands: Sequence[ir.Value]) -> list[ir.Value]:
    """Returns the results of a scalar op on `operands`, computed per lane if one of them is a vector."""
    widths = {ir.VectorType(value.type).shape[0] for value in operands if is_vector(value)}
    results = [value.type for value in op.results]
    if widths:
        (width,) = widths
        keeps_condition = op.name == "arith.select" and not is_vector(operands[0])
        operands = [
            value if keeps_condition and position == 0 else broadcast(value, width)
            for position, value in enumerate(operands)
        ]
        results = [vector_type(width, kind) for kind in results]
    attributes = {name: op.attributes[name] for name in op.attributes}
    return list(ir.Operation.create(op.name, results, list(operands), attributes, loc=op.location).results)
