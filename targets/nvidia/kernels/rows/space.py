"""Dimensions shared by the ops of a row kernel: rows, and the elements of a row.

All reductions of the kernel run over the same dimensions. Other values belong to an element of a row, to a row, or to a
column of all rows (such as weights of a norm). Every loop of every op is one of the kernel's dimensions:

    %m = generic {d0: row, d1: column, reduces d1} : max(%x[d0, d1])
    %e = generic {d0: row, d1: column} : exp(%x[d0, d1] - %m[d0])
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir

from ...emission.indices import MOST_ELEMENTS
from ...emission.launch import Memory
from ...emission.views import memory_of
from ..elements import root_before
from .assignment import Assignment, NoRows
from .combiners import Combiner, combiner
from .generics import is_read, iterators, loop_sizes, maps

_LOOKUPS = ("tensor.extract",)

_Dims = tuple[int | None, ...]
"""For each dimension of a tensor, the kernel's dimension; None for a dimension with one element."""


@dataclass(frozen=True)
class RowAccess:
    """An argument that is read or written along the kernel's dimensions, with the stride of each in elements."""

    base: ir.Value
    offset: int
    strides: tuple[int, ...]
    alignment: int

    @property
    def element(self) -> ir.Type:
        """The element type in memory."""
        return ir.ShapedType(self.base.type).element_type


@dataclass(frozen=True)
class Written:
    """A result of the kernel: its value and its destination."""

    value: ir.Value
    access: RowAccess


@dataclass(frozen=True)
class RowSpace:
    """The dimensions of a row kernel, and their use by its ops.

    Attributes:
        sizes: extent of every dimension, in the order of the largest reduction's loops; the last is 1.
        columns: the reduced dimensions.
        loops: dimension of each loop of every op, keyed by the op's first result.
        reductions: the reductions in steps; those of one step depend on earlier steps only.
        combiners: combining function of each reduction.
        written: the result that the kernel writes.
        known: layout of the tensors that are in memory.
    """

    sizes: tuple[int, ...]
    columns: frozenset[int]
    loops: dict[ir.Value, tuple[int, ...]]
    reductions: tuple[tuple[ir.Operation, ...], ...]
    combiners: dict[ir.Value, Combiner]
    written: Written
    known: Mapping[ir.Value, Memory]

    @property
    def rows(self) -> tuple[int, ...]:
        """The dimensions that are not reduced."""
        return tuple(dim for dim in range(len(self.sizes)) if dim not in self.columns)

    def extent(self, dims: Sequence[int]) -> int:
        """Returns the product of the extents of dimensions."""
        return math.prod(self.sizes[dim] for dim in dims)

    def dims_of(self, op: ir.Operation, position: int) -> _Dims | None:
        """Returns the dimensions that index an operand of an op; None if an index is not a single dimension."""
        return _dims_of_map(maps(op)[position], self.loops[op.results[0]])

    def access(self, op: ir.Operation, position: int) -> RowAccess | None:
        """Returns the access to an operand in memory along the kernel's dimensions, else None."""
        dims, view = self.dims_of(op, position), memory_of(op.operands[position], self.known)
        return None if dims is None or view is None else _access(view, dims, len(self.sizes))

    def accesses(self) -> Iterator[RowAccess]:
        """Yields all accesses to memory."""
        for value in self.loops:
            op = value.owner.operation
            for position in range(len(op.operands)):
                access = self.access(op, position) if is_read(op, position) else None
                if access is not None:
                    yield access
        yield self.written.access


def row_space(function: ir.Operation, known: Mapping[ir.Value, Memory]) -> RowSpace:
    """Returns the dimensions that all ops of a function of linalg on tensors share.

    Args:
        function: inputs first, the destination last.
        known: layout of its arguments in memory.

    Raises:
        NoRows: the ops share no dimensions.
    """
    block = function.regions[0].blocks[0]
    generics = [op.operation for op in block.operations if op.operation.name == "linalg.generic"]
    reductions = [op for op in generics if "reduction" in iterators(op)]
    if not reductions:
        raise NoRows("nothing is reduced")
    if any(_span(view) > MOST_ELEMENTS for view in known.values()):
        raise NoRows("it has more elements than 32-bit indices can address")
    first = max(reductions, key=lambda op: math.prod(loop_sizes(op)))
    # The additional dimension of size 1 represents loops with one iteration.
    sizes = (*loop_sizes(first), 1)
    columns = frozenset(dim for dim, kind in enumerate(iterators(first)) if kind == "reduction")
    combiners: dict[ir.Value, Combiner] = {op.results[0]: _combiner(op) for op in reductions}
    loops = Assignment(sizes, generics, first, known).run()
    for op in generics:
        _check(op, known)
        reduced = {loops[op.results[0]][axis] for axis, kind in enumerate(iterators(op)) if kind == "reduction"}
        if reduced and reduced != columns:
            raise NoRows("its reductions are over different dimensions")
    written = _result(function, loops, sizes, known)
    return RowSpace(sizes, columns, loops, _steps(reductions), combiners, written, known)


def _span(view: Memory) -> int:
    return sum((size - 1) * stride for size, stride in zip(view.shape, view.strides, strict=True)) + view.offset + 1


def _check(op: ir.Operation, known: Mapping[ir.Value, Memory]) -> None:
    """Rejects an op with a body or an operand whose elements cannot be computed individually."""
    if any(
        len(inner.operation.regions) or inner.operation.name in _LOOKUPS for inner in op.regions[0].blocks[0].operations
    ):
        raise NoRows("a body has regions or reads tensors")
    for position, (operand, map_) in enumerate(zip(op.operands, maps(op), strict=True)):
        if not is_read(op, position) or not isinstance(operand.type, ir.RankedTensorType):
            continue
        if _dims_of_map(map_, range(map_.n_dims)) is None:
            raise NoRows("it has an index that is not a single loop or zero")
        if memory_of(operand, known) is None and not _is_computed(operand):
            raise NoRows("it reads a tensor that is neither in memory nor computed element by element")


def _is_computed(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block):
        return False
    if value.owner.name == "arith.constant":
        return ir.DenseElementsAttr(value.owner.attributes["value"]).is_splat
    return value.owner.name in ("linalg.generic", "linalg.fill")


def _combiner(reduction: ir.Operation) -> Combiner:
    made = combiner(reduction)
    if made is None:
        raise NoRows("a reduction's terms cannot be combined in another order")
    return made


def _dims_of_map(map_: ir.AffineMap, loops: Sequence[int]) -> _Dims | None:
    dims: list[int | None] = []
    for expr in map_.results:
        match expr.maybe_downcast():
            case ir.AffineDimExpr(position=position):
                dims.append(loops[position])
            case ir.AffineConstantExpr(value=0):
                dims.append(None)
            case _:
                return None
    return tuple(dims)


def _access(view: Memory, dims: _Dims, count: int) -> RowAccess:
    strides = [0] * count
    for dim, size, stride in zip(dims, view.shape, view.strides, strict=True):
        if dim is not None and size > 1:
            strides[dim] += stride
    return RowAccess(view.base, view.offset, tuple(strides), view.alignment)


def _result(
    function: ir.Operation,
    loops: dict[ir.Value, tuple[int, ...]],
    sizes: Sequence[int],
    known: Mapping[ir.Value, Memory],
) -> Written:
    block = function.regions[0].blocks[0]
    *_, returned = block.operations
    destination = known[block.arguments[len(block.arguments) - 1]]
    made, memory = root_before(function, returned.operands[0], destination)
    if isinstance(made.owner, ir.Block) or made.owner.name != "linalg.generic":
        raise NoRows("the result is not made by an op on rows")
    op = made.owner.operation
    position = len(op.operands) - len(op.results) + list(op.results).index(made)
    dims = _dims_of_map(maps(op)[position], loops[op.results[0]])
    if dims is None:
        raise NoRows("the result is not written element by element")
    return Written(made, _access(memory, dims, len(sizes)))


def _steps(reductions: Sequence[ir.Operation]) -> tuple[tuple[ir.Operation, ...], ...]:
    """Groups reductions by the number of other reductions that each one depends on in sequence."""
    known = {op.results[0]: op for op in reductions}
    depths: dict[ir.Value, int] = {}

    def depth(value: ir.Value) -> int:
        if isinstance(value.owner, ir.Block):
            return 0
        if value not in depths:
            deepest = max(map(depth, value.owner.operation.operands), default=0)
            depths[value] = deepest + (value in known)
        return depths[value]

    by_depth: dict[int, list[ir.Operation]] = {}
    for value, op in known.items():
        by_depth.setdefault(depth(value), []).append(op)
    return tuple(tuple(by_depth[level]) for level in sorted(by_depth))
