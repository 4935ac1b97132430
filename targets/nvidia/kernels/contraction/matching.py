"""Matching of a launch's contraction: its single sum of products, the dimensions, and the ops that follow.

%sum = linalg.generic {m, n, k: lhs[m, k] * rhs[k, n]} outs(%zero)     the contraction
%y = linalg.generic {m, n: relu(%sum[m, n] + bias[n])}                 its epilogue
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from .....dialects import discardable
from .....passes.ir.functions import body_of
from ...emission.generics import loop_extents, reduced_dims

_RESHAPES = ("tensor.expand_shape", "tensor.collapse_shape")
_EXTENDS = ("arith.extf", "arith.extsi", "arith.extui")


@dataclass(frozen=True)
class Contraction:
    """A generic that sums up products of two tensors.

    Attributes:
        op: the generic.
        batch: loop dimensions of the result that both operands have, or neither.
        rows: loop dimensions that the left-hand side shares with the result.
        columns: loop dimensions that the right-hand side shares with the result.
        depth: loop dimensions that are summed over.
        sides: operand positions of left-hand and right-hand side, chosen so that the result's innermost dimension is a
            column.
    """

    op: ir.Operation
    batch: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    depth: tuple[int, ...]
    sides: tuple[int, int] = (0, 1)

    @property
    def result(self) -> ir.Value:
        """The sums."""
        return self.op.results[0]

    @property
    def extents(self) -> list[int]:
        """The extent of every loop dimension."""
        return list(loop_extents(self.op))

    def sizes(self, dims: Sequence[int]) -> list[int]:
        """Returns the extents of some loop dimensions."""
        extents = self.extents
        return [extents[dim] for dim in dims]

    @property
    def extensions(self) -> list[str]:
        """Name of the op that extends each side before the multiplication, or the empty string."""
        arguments = list(self.op.regions[0].blocks[0].arguments)
        names = [next(use.owner.name for use in arguments[side].uses) for side in self.sides]
        return [name if name in _EXTENDS else "" for name in names]

    def results_at(self) -> list[int]:
        """Returns the loop dimension of every dimension of the result."""
        return [ir.AffineDimExpr(expression).position for expression in maps_of(self.op)[2].results]


def contraction_of(function: ir.Operation) -> Contraction | None:
    """Returns the contraction of a launch; None if it has none, several, or one with a non-zero initial value."""
    tagged = [op.operation for op in body_of(function).operations if discardable.CONTRACTION.is_on(op.operation)]
    if len(tagged) != 1 or not _is_plain(tagged[0]):
        return None
    op = tagged[0]
    uses = [dims_used(affine) for affine in maps_of(op)]
    if any(used is None for used in uses):
        return None
    lhs, rhs, out = (used or set() for used in uses)
    reduced = set(reduced_dims(op))
    if out & reduced or not reduced <= lhs & rhs:
        return None
    if not all(isinstance(expression, ir.AffineDimExpr) for expression in maps_of(op)[2].results):
        return None
    order = range(len(loop_extents(op)))
    batch = [dim for dim in order if dim in out and (dim in lhs) == (dim in rhs)]
    rows = [dim for dim in order if dim in out and dim in lhs and dim not in rhs]
    columns = [dim for dim in order if dim in out and dim in rhs and dim not in lhs]
    depth = [dim for dim in order if dim in reduced]
    found = Contraction(op, tuple(batch), tuple(rows), tuple(columns), tuple(depth))
    if found.results_at()[-1:] and found.results_at()[-1] in rows:
        return replace(found, rows=found.columns, columns=found.rows, sides=(1, 0))
    return found


def has_other_sums(function: ir.Operation, contraction: Contraction) -> bool:
    """Returns whether an op other than the contraction is a reduction, which many threads would have to repeat."""
    others = [op.operation for op in body_of(function).operations if op.operation != contraction.op]
    return any(op.name == "linalg.generic" and reduced_dims(op) for op in others)


def maps_of(op: ir.Operation) -> list[ir.AffineMap]:
    """Returns the indexing maps of a generic."""
    return [ir.AffineMapAttr(item).value for item in ir.ArrayAttr(op.attributes["indexing_maps"])]


def dims_used(affine: ir.AffineMap) -> set[int] | None:
    """Returns the dimensions that a map uses, or None if it is not linear in them."""
    found: set[int] = set()
    for expression in affine.results:
        weights = weights_of(expression)
        if weights is None:
            return None
        found |= {dim for dim, weight in weights.items() if dim >= 0 and weight}
    return found


def weights_of(expression: ir.AffineExpr) -> dict[int, int] | None:
    """Returns the coefficient of each dimension and the constant (key -1) of a linear expression; None for others."""
    if isinstance(expression, ir.AffineConstantExpr):
        return {-1: ir.AffineConstantExpr(expression).value}
    if isinstance(expression, ir.AffineDimExpr):
        return {ir.AffineDimExpr(expression).position: 1}
    if not isinstance(expression, ir.AffineAddExpr | ir.AffineMulExpr):
        return None
    binary = ir.AffineBinaryExpr(expression)
    left, right = weights_of(binary.lhs), weights_of(binary.rhs)
    if left is None or right is None:
        return None
    if isinstance(expression, ir.AffineMulExpr):
        factor = right.get(-1, 0)
        return {dim: weight * factor for dim, weight in left.items()} if set(right) == {-1} else None
    return {dim: left.get(dim, 0) + right.get(dim, 0) for dim in left.keys() | right.keys()}


def path_to_result(contraction: Contraction, root: ir.Value) -> list[tuple[ir.Operation, int]] | None:
    """Returns the ops between the sums and the launch's result, each with the index of the operand that holds the sums.

    Returns None if an element of the result depends on sums other than the one at its place, as those are not available
    there.
    """
    path: list[tuple[ir.Operation, int]] = []
    dependent = {contraction.result}
    made = [op.operation for op in contraction.op.block.operations] if contraction.op.block else []
    is_straight = True
    for op in made:
        places = [place for place, operand in enumerate(op.operands) if operand in dependent]
        if not places or op.name == "func.return":
            continue
        if op.name not in (*_RESHAPES, "linalg.generic") or not _keeps_order(op, places, require_identity=False):
            return None
        is_straight = is_straight and _keeps_order(op, places, require_identity=True)
        dependent.update(op.results)
    uses = [sum(1 for _ in value.uses) for value in dependent if value != root]
    if not is_straight and any(count > 1 for count in uses):
        return None
    value = root
    while value != contraction.result:
        if value not in dependent or isinstance(value.owner, ir.Block):
            return None
        op = value.owner.operation
        place = next(place for place, operand in enumerate(op.operands) if operand in dependent)
        path.append((op, place))
        value = op.operands[place]
    return path[::-1]


def _keeps_order(op: ir.Operation, places: Sequence[int], require_identity: bool) -> bool:
    if op.name in _RESHAPES:
        return True
    maps = maps_of(op)
    if reduced_dims(op):
        return False
    used = [maps[place] for place in (*places, len(maps) - 1)]
    if require_identity:
        return all(affine == ir.AffineMap.get_identity(affine.n_dims) for affine in used)
    return all(affine.is_permutation for affine in used)


def _is_plain(op: ir.Operation) -> bool:
    """Returns whether a generic adds products of two tensors to zeros."""
    if op.name != "linalg.generic" or len(op.operands) != 3 or discardable.GRAIN.is_on(op):
        return False
    start = op.operands[2]
    if isinstance(start.owner, ir.Block) or start.owner.name != "linalg.fill":
        return False
    return _is_zero(start.owner.operands[0]) and list(_body(op)) in (["mul", "add", "yield"],)


def _body(op: ir.Operation) -> Iterator[str]:
    for inner in op.regions[0].blocks[0].operations:
        name = inner.operation.name
        if name not in _EXTENDS:
            yield {"arith.mulf": "mul", "arith.muli": "mul", "arith.addf": "add", "arith.addi": "add"}.get(
                name, name.removeprefix("linalg.")
            )


def _is_zero(value: ir.Value) -> bool:
    if isinstance(value.owner, ir.Block) or value.owner.name != "arith.constant":
        return False
    attribute = value.owner.attributes["value"]
    return isinstance(attribute, ir.IntegerAttr | ir.FloatAttr) and attribute.value == 0
