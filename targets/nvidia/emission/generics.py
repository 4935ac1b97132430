"""Code for single elements of linalg op results: copied bodies, with loops for reductions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import scf

from ....passes.infra.base import PassError
from ....passes.ir.rewriting import walk
from .indices import Index, add, evaluate, value_of

if TYPE_CHECKING:
    from .evaluator import Evaluator, Lanes

_UNROLLED = 4
"""Maximum number of iterations of a loop that is unrolled; the indices of an unrolled loop are constants."""


def fill(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Returns the scalar that the tensor is filled with."""
    return [values.scalar(op.operands[0])] * width


def generic(values: Evaluator, op: ir.Operation, tensor: ir.Value, indices: list[Index], width: int) -> Lanes:
    """Evaluates the body at the given indices, for a reduction in a loop over the reduced dimensions."""
    number = list(op.results).index(tensor)
    made = all_results(values, op, number, indices, width)
    outputs = maps_of(op)[inputs_of(op) :]
    for result, lanes, map_ in zip(op.results, made, outputs, strict=True):
        if map_ == outputs[number]:
            values.note(result, indices, lanes)
    return made[number]


def all_results(
    values: Evaluator, op: ir.Operation, result: int, indices: Sequence[Index], width: int
) -> Sequence[Lanes]:
    """Returns the elements of all results at the loop indices that write the given element of one result."""
    maps, count = maps_of(op), inputs_of(op)
    dims: list[Index | None] = [None] * maps[0].n_dims
    for expression, index in zip(maps[count + result].results, indices, strict=True):
        if isinstance(expression, ir.AffineDimExpr):
            dims[ir.AffineDimExpr(expression).position] = index
        elif not isinstance(expression, ir.AffineConstantExpr):
            raise PassError(f"'{op.name}' op: expected a result map of dimensions and constants", op.location)
    last = maps[count + result].results[-1:] if indices else []
    lane = ir.AffineDimExpr(last[0]).position if last and isinstance(last[0], ir.AffineDimExpr) else None
    body = _Body(values, op, lane, width)
    reduced = [axis for axis, index in enumerate(dims) if index is None]
    if not reduced:
        return body.at([index for index in dims if index is not None], {})
    return _reduce(values, body, dims, reduced)


def _reduce(values: Evaluator, body: _Body, dims: list[Index | None], reduced: list[int]) -> list[Lanes]:
    """Returns the accumulators after all iterations; they start from the elements of the op's outputs."""
    first = [index if index is not None else 0 for index in dims]
    count = inputs_of(body.op)
    start = {position: body.operand(position, first) for position in range(count, len(body.op.operands))}
    extents = loop_extents(body.op)
    return _nest(values, body, dims, [(axis, extents[axis]) for axis in reduced], [*start.values()])


def _nest(
    values: Evaluator, body: _Body, dims: list[Index | None], loops: Sequence[tuple[int, int]], sums: list[Lanes]
) -> list[Lanes]:
    if not loops:
        count = inputs_of(body.op)
        known = {count + number: lanes for number, lanes in enumerate(sums)}
        return body.at([index for index in dims if index is not None], known)
    (axis, extent), *inner = loops
    if extent <= _UNROLLED and math.prod(size for _, size in loops) <= _UNROLLED**2:
        for place in range(extent):
            sums = _nest(values, body, [*dims[:axis], place, *dims[axis + 1 :]], inner, sums)
        return sums
    flat = [lane for lanes in sums for lane in lanes]
    loop = scf.ForOp(value_of(0), value_of(extent), value_of(1), flat)
    with values.scope(), ir.InsertionPoint(loop.body):
        inside = _split(list(loop.inner_iter_args), body.width)
        at = [*dims[:axis], loop.induction_variable, *dims[axis + 1 :]]
        made = _nest(values, body, at, inner, inside)
        scf.YieldOp([lane for lanes in made for lane in lanes])
    return _split(list(loop.results_), body.width)


def _split(flat: Sequence[ir.Value], width: int) -> list[Lanes]:
    return [list(flat[start : start + width]) for start in range(0, len(flat), width)]


class _Body:
    """The body of a linalg.generic, copied once per lane."""

    def __init__(self, values: Evaluator, op: ir.Operation, lane: int | None, width: int) -> None:
        self.op, self.width = op, width
        self._values, self._lane = values, lane
        self._maps = maps_of(op)
        self._block = op.regions[0].blocks[0]
        self._takes_place = any(inner.name == "linalg.index" for inner in walk(op))
        self._read = {position for position, item in enumerate(self._block.arguments) if len(list(item.uses))}

    def at(self, dims: Sequence[Index], known: Mapping[int, Lanes]) -> list[Lanes]:
        """Returns what each result yields at the given loop indices; `known` holds operands already computed."""
        operands = {
            position: known[position] if position in known else self.operand(position, dims) for position in self._read
        }
        made: list[Lanes] = [[] for _ in self.op.results]
        for lane in range(self.width):
            place = self._moved(dims, lane) if self._takes_place else ()
            scalars = {self._block.arguments[position]: lanes[lane] for position, lanes in operands.items()}
            for lanes, value in zip(made, copy_body(self._values, self._block, scalars, place), strict=True):
                lanes.append(value)
        return made

    def operand(self, position: int, dims: Sequence[Index]) -> Lanes:
        """Returns the elements of an operand at the given loop indices."""
        tensor, expressions = self.op.operands[position], list(self._maps[position].results)
        if not isinstance(tensor.type, ir.RankedTensorType):
            return [self._values.scalar(tensor)] * self.width
        moves = [self._lane is not None and depends_on(item, self._lane) for item in expressions]
        if self.width == 1 or not any(moves):
            return [self._values.element(tensor, [evaluate(item, dims) for item in expressions])] * self.width
        is_row = moves[-1] and not any(moves[:-1]) and isinstance(expressions[-1], ir.AffineDimExpr)
        shape = ir.RankedTensorType(tensor.type).shape
        if is_row and (shape[-1] % self.width == 0 or len(shape) == 1):
            return self._values.lanes(tensor, [evaluate(item, dims) for item in expressions], self.width)
        found: Lanes = []
        for lane in range(self.width):
            place = self._moved(dims, lane)
            found.append(self._values.element(tensor, [evaluate(item, place) for item in expressions]))
        return found

    def _moved(self, dims: Sequence[Index], lane: int) -> list[Index]:
        return [add(index, lane) if axis == self._lane else index for axis, index in enumerate(dims)]


def copy_body(
    values: Evaluator, block: ir.Block, scalars: Mapping[ir.BlockArgument, ir.Value], dims: Sequence[Index]
) -> list[ir.Value]:
    """Emits a body for the given arguments and loop indices, and returns the yielded values."""
    known: dict[ir.Value, ir.Value] = {**scalars}
    for op in block.operations:
        if op.operation.name == "linalg.yield":
            return [_known(values, known, value) for value in op.operation.operands]
        with op.location:
            made = _copied(values, op.operation, known, dims)
        known.update(zip(op.operation.results, made, strict=True))
    raise PassError("the body of a linalg op has no terminator: expected linalg.yield", block.owner.location)


def _copied(
    values: Evaluator, op: ir.Operation, known: dict[ir.Value, ir.Value], dims: Sequence[Index]
) -> list[ir.Value]:
    if op.name == "linalg.index":
        return [value_of(dims[ir.IntegerAttr(op.attributes["dim"]).value])]
    if op.name == "tensor.extract":
        return [values.element(op.operands[0], [_known(values, known, index) for index in list(op.operands)[1:]])]
    operands = [_known(values, known, value) for value in op.operands]
    if not len(op.regions):
        copied = op.clone().operation
        for position, operand in enumerate(operands):
            copied.operands[position] = operand
        return list(copied.results)
    return _copied_with_regions(values, op, operands, known, dims)


def _copied_with_regions(
    values: Evaluator,
    op: ir.Operation,
    operands: list[ir.Value],
    known: dict[ir.Value, ir.Value],
    dims: Sequence[Index],
) -> list[ir.Value]:
    """Copies control flow in a body op by op, since its regions may read tensors."""
    attributes = {name: op.attributes[name] for name in op.attributes}
    types = [result.type for result in op.results]
    made = ir.Operation.create(op.name, types, operands, attributes, regions=len(op.regions))
    for old, new in zip(op.regions, made.regions, strict=True):
        for block in old.blocks:
            kinds = [argument.type for argument in block.arguments]
            inside = new.blocks.append(*kinds, arg_locs=[op.location] * len(kinds))
            known.update(zip(block.arguments, inside.arguments, strict=True))
            with values.scope(), ir.InsertionPoint(inside):
                for inner in block.operations:
                    copies = _copied(values, inner.operation, known, dims)
                    known.update(zip(inner.operation.results, copies, strict=True))
    return list(made.results)


def _known(values: Evaluator, known: Mapping[ir.Value, ir.Value], value: ir.Value) -> ir.Value:
    return known[value] if value in known else values.scalar(value)


def depends_on(expression: ir.AffineExpr, dim: int) -> bool:
    """Returns whether a dimension occurs in an affine expression."""
    if isinstance(expression, ir.AffineDimExpr):
        return ir.AffineDimExpr(expression).position == dim
    if isinstance(expression, ir.AffineConstantExpr):
        return False
    binary = ir.AffineBinaryExpr(expression)
    return depends_on(binary.lhs, dim) or depends_on(binary.rhs, dim)


def maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    """Returns the indexing maps of a linalg.generic."""
    return [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(op.attributes["indexing_maps"])]


def inputs_of(op: ir.Operation) -> int:
    """Returns the number of a linalg op's operands that are inputs."""
    return ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]


def loop_extents(op: ir.Operation) -> list[int]:
    """Returns the extent of each loop of a linalg.generic, inferred from its operands' shapes."""
    maps = maps_of(op)
    extents: list[int] = [-1] * maps[0].n_dims
    for tensor, indexing in zip(op.operands, maps, strict=True):
        for axis, expression in enumerate(indexing.results):
            if isinstance(expression, ir.AffineDimExpr):
                extents[ir.AffineDimExpr(expression).position] = ir.RankedTensorType(tensor.type).shape[axis]
    if -1 in extents:
        raise PassError(f"'{op.name}' op has a loop whose extent cannot be inferred from its operands", op.location)
    return extents


def reduced_dims(op: ir.Operation) -> list[int]:
    """Returns the loops of a linalg.generic that are reductions."""
    kinds = ir.ArrayAttr(op.attributes["iterator_types"])
    return [axis for axis, kind in enumerate(kinds) if "reduction" in str(kind)]
