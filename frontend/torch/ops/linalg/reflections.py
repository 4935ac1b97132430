"""QR factorisations by Householder's reflections."""

from __future__ import annotations

from mlir import ir

from .....dialects.stepwell.reduction import ReduceMaxOp, ReduceSumOp
from ....build import emit, reshaped
from ....formulas import Formula, sqrt
from ....index_arithmetic import extent
from ...node import AtenNode
from ...registry import imports
from .matrices import (
    as_columns,
    batched,
    column,
    columns,
    filled,
    first,
    flipped,
    identity,
    is_empty,
    least,
    looped,
    product,
    row,
    rows,
    unbatched,
    zeros,
)


def factored(matrix: Formula) -> tuple[Formula, Formula]:
    """R, with the reflections below its diagonal, and their factors [b, k, 1] (LAPACK's geqrf).

    Reflection k is 1 - factor * v @ transpose(v), for a column v with 1 in row k and zeros above.
    """
    place, across = rows(matrix), columns(matrix)
    count = least(matrix)
    factors = zeros(matrix, count)
    steps = rows(factors)

    def step(k: Formula, rest: Formula, factors: Formula) -> list[Formula]:
        whole = column(rest, k)
        below = whole.where(place > k, 0)
        head = row(whole, k)
        size = abs(head).at_least(_peak(below))
        scale = size.where(size > 0, 1)
        norm = scale * sqrt(_dot(below / scale, below / scale) + (head / scale) * (head / scale))
        is_done = _peak(below).equals(0)
        edge = norm.where(head < 0, -norm)
        edge = head.where(is_done, edge)
        factor = ((edge - head) / edge.where(~is_done, 1)).where(~is_done, 0)
        reflection = (below / (head - edge).where(~is_done, 1)).where(place > k, _one_at(place, k, below))
        moved = rest - reflection * (factor * product(flipped(reflection), rest))
        stored = edge.where(place.equals(k), reflection)
        kept = stored.where(across.equals(k) & (place >= k), rest)
        return [moved.where((across > k) & (place >= k), kept), factor.where(steps.equals(k), factors)]

    made, factors = looped(count, [matrix, factors], step)
    return made, factors


def _peak(value: Formula) -> Formula:
    """The greatest magnitude of each column."""
    return Formula(emit(ReduceMaxOp, abs(value).value, axes=(1,), keepdims=True))


def _dot(left: Formula, right: Formula) -> Formula:
    return Formula(emit(ReduceSumOp, (left * right).value, axes=(1,), keepdims=True))


def _one_at(place: Formula, k: Formula, like: Formula) -> Formula:
    return (like * 0 + 1).where(place.equals(k), 0)


def reflected(packed: Formula, factors: Formula, matrix: Formula, is_flipped: bool = False) -> Formula:
    """Q @ matrix, or transpose(Q) @ matrix: Q is the product of the reflections that `factored` returns."""
    place = rows(packed)
    count = Formula(extent(factors.value, 1))

    def step(done: Formula, made: Formula) -> list[Formula]:
        k = done if is_flipped else count - 1 - done
        below = column(packed, k)
        reflection = below.where(place > k, _one_at(place, k, below))
        return [made - reflection * (row(factors, k) * product(flipped(reflection), made))]

    return looped(count.value, [matrix], step)[0]


def orthogonal(packed: Formula, factors: Formula, shape_of_result: Formula) -> Formula:
    """The first columns of Q, as many as another matrix has."""
    return reflected(packed, factors, identity(shape_of_result))


@imports("aten.geqrf.default")
def geqrf(node: AtenNode, input: ir.Value) -> tuple[ir.Value | None, ...]:
    """R, with reflections below its diagonal, and their factors."""
    return filled(node, 0, 0) if is_empty(input) else unbatched(node, factored(batched(input)))


@imports("aten.linalg_householder_product.default")
def householder_product(node: AtenNode, input: ir.Value, tau: ir.Value) -> ir.Value | None:
    """The first columns of a product of reflections."""
    if is_empty(input):
        return filled(node, 0)[0]
    packed = batched(input)
    if is_empty(tau):
        return unbatched(node, [identity(packed)])[0]
    return unbatched(node, [orthogonal(packed, batched(as_columns(tau)), packed)])[0]


@imports("aten.ormqr.default")
def ormqr(
    node: AtenNode, input: ir.Value, input2: ir.Value, input3: ir.Value, left: bool, transpose: bool
) -> ir.Value | None:
    """A product with all of Q."""
    if is_empty(input, input2, input3):
        return reshaped(input3, node.shape())
    packed, factors, other = batched(input), batched(as_columns(input2)), batched(input3)
    if left:
        return unbatched(node, [reflected(packed, factors, other, transpose)])[0]
    return unbatched(node, [flipped(reflected(packed, factors, flipped(other), not transpose))])[0]


@imports("aten.linalg_qr.default")
def qr(node: AtenNode, A: ir.Value, mode: str) -> tuple[ir.Value | None, ...]:
    """Q and R with Q @ R = A."""
    if is_empty(A):
        made = filled(node, 0, 0)
        whole = made[0] if is_empty(made[0]) else reshaped(identity(batched(made[0])).value, node.shape(0))
        return whole, made[1]
    matrix = batched(A)
    packed, factors = factored(matrix)
    upper = packed.where(rows(packed) <= columns(packed), 0)
    if mode == "r":
        return filled(node, 0)[0], unbatched(node, [None, first(upper, 1, least(matrix))])[1]
    if mode == "complete":
        return unbatched(node, [square_orthogonal(packed, factors), upper])
    narrow = first(packed, 2, least(matrix))
    return unbatched(node, [orthogonal(narrow, factors, narrow), first(upper, 1, least(matrix))])


def square_orthogonal(packed: Formula, factors: Formula) -> Formula:
    """All of Q."""
    one = column(packed, Formula(extent(packed.value, 2)) - 1)
    return orthogonal(packed, factors, one + flipped(one))
