"""Positions of a kernel's writes in its destination, as sums of loop indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from ...passes.infra.base import PassError
from ...passes.ir.named_ops import is_inside
from ...passes.ir.values import integer_of
from ..builders.linear_forms import LinearForm, linear_form
from ..builders.strides import reassociation

WRITES = {"memref.store": 1, "vector.store": 1, "vector.transfer_write": 1, "memref.copy": 1}
"""Ops that write, and the number of the operand that they write to."""

_DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass(frozen=True)
class Position:
    """Index of the first element along some neighbouring dimensions of a tensor, which count as one.

    Attributes:
        dims: the dimensions.
        index: a constant, and values with their factors.
    """

    dims: tuple[int, ...]
    index: LinearForm


def root_of(value: ir.Value) -> ir.Value:
    """Returns the memory that a memref is a view of."""
    while not isinstance(value.owner, ir.Block) and value.owner.name in _STEPS:
        value = value.owner.operands[0]
    return value


def positions(value: ir.Value, indices: Sequence[LinearForm], root: ir.Value) -> list[Position] | None:
    """Returns the position in `root` of the element of a view at some indices; None if it is not a sum."""
    while value != root:
        if isinstance(value.owner, ir.Block) or value.owner.name not in _STEPS:
            return None
        op = value.owner.operation
        source = op.operands[0]
        if op.name == "memref.collapse_shape" and source == root:
            return [Position(tuple(run), index) for run, index in zip(reassociation(op), indices, strict=True)]
        found = _STEPS[op.name](op, indices)
        if found is None:
            return None
        value, indices = source, found
    return [Position((axis,), index) for axis, index in enumerate(indices)]


def linear_of(value: ir.Value) -> LinearForm:
    """Returns an index as a sum, as far as it is one."""
    if isinstance(value.owner, ir.Block):
        return 0, ((value, 1),)
    op = value.owner.operation
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value, ()
    if op.name == "arith.addi":
        return _sum([(linear_of(item), 1) for item in op.operands])
    if op.name == "arith.muli" and (factor := integer_of(op.operands[1])) is not None:
        return _sum([(linear_of(op.operands[0]), factor)])
    if op.name == "affine.apply":
        places = {place: linear_of(item) for place, item in enumerate(op.operands)}
        try:
            return _sum([(linear_form(ir.AffineMapAttr(op.attributes["map"]).value.results[0], places), 1)])
        except (PassError, KeyError):
            return 0, ((value, 1),)
    return 0, ((value, 1),)


def loop_of(linear: LinearForm) -> tuple[ir.Operation, int] | None:
    """Returns the single loop that an index depends on, and its factor."""
    if len(linear[1]) != 1:
        return None
    ((value, factor),) = linear[1]
    if not isinstance(value.owner, ir.Block) and value.owner.name in ("affine.min", "arith.minsi"):
        index = value.owner.operands[0]
        value = index if _is_clamped(value, index) else value
    if not isinstance(value.owner, ir.Block) or value.owner.owner.name != "scf.for":
        return None
    return value.owner.owner.operation, factor


def split(
    linear: LinearForm, loop: ir.Operation, index: ir.Value, natural: Sequence[ir.Value] = ()
) -> tuple[int | None, LinearForm]:
    """Returns the factor of a loop's index in a sum (None if unknown), and the sum's terms from outside of the loop.

    Values in `natural` are known to be non-negative, as memory is addressed by them.
    """
    base, own, outside = linear[0], 0, []
    for value, factor in linear[1]:
        if value == index or _is_clamped(value, index):
            own += factor
        elif not _is_inside(value, loop):
            outside.append((value, factor))
        elif factor < 0 or not (value in natural or _is_natural(value)):
            return None, (0, ())
    return (own if own >= 0 else None), (base, tuple(outside))


def _is_clamped(value: ir.Value, index: ir.Value) -> bool:
    """Returns whether a value is an index that is moved back where a tile would overhang, onto elements done before."""
    if isinstance(value.owner, ir.Block):
        return False
    if value.owner.name == "arith.minsi":
        return value.owner.operands[0] == index and integer_of(value.owner.operands[1]) is not None
    if value.owner.name != "affine.min" or list(value.owner.operands) != [index]:
        return False
    exprs = ir.AffineMapAttr(value.owner.attributes["map"]).value.results
    return any(isinstance(item.maybe_downcast(), ir.AffineDimExpr) for item in exprs)


def _is_natural(value: ir.Value) -> bool:
    """Returns whether a value inside of a loop is non-negative: an index, or computed from such values."""
    if isinstance(value.owner, ir.Block):
        return True
    if value.owner.name in ("arith.minsi", "arith.muli", "arith.addi"):
        return all(_is_natural(item) for item in value.owner.operands)
    if (number := integer_of(value)) is not None:
        return number >= 0
    return value.owner.name == "affine.min" and all(isinstance(item.owner, ir.Block) for item in value.owner.operands)


def _is_inside(value: ir.Value, loop: ir.Operation) -> bool:
    owner = value.owner.owner if isinstance(value.owner, ir.Block) else value.owner
    return owner.operation == loop or is_inside(owner.operation, loop)


def is_local(root: ir.Value, loop: ir.Operation) -> bool:
    """Returns whether memory is used in a loop only, and each iteration writes what it reads."""
    pending, seen = [root], 0
    if isinstance(root.owner, ir.Block):
        return False
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.owner.operation
            inside = _is_inside(user.results[0], loop) if len(user.results) else is_inside(user, loop)
            if len(user.results) and isinstance(user.results[0].type, ir.MemRefType):
                pending.append(user.results[0])
            elif not inside:
                return False
            seen += 1
    return seen > 0


def _sum(parts: Sequence[tuple[LinearForm, int]]) -> LinearForm:
    base, terms = 0, {}
    for (start, values), factor in parts:
        base += start * factor
        for value, count in values:
            terms[value] = terms.get(value, 0) + count * factor
    return base, tuple((value, count) for value, count in terms.items() if count)


def _subview(op: ir.Operation, indices: Sequence[LinearForm]) -> list[LinearForm] | None:
    offsets, sizes, strides = (
        list(ir.DenseI64ArrayAttr(op.attributes[f"static_{name}"])) for name in ("offsets", "sizes", "strides")
    )
    dynamic = iter(list(op.operands)[1:])
    starts = [linear_of(next(dynamic)) if offset == _DYNAMIC else (offset, ()) for offset in offsets]
    if _DYNAMIC in strides:
        return None
    rest = list(indices)
    shape = list(ir.MemRefType(op.results[0].type).shape)
    found: list[LinearForm] = []
    for start, size, stride in zip(starts, sizes, strides, strict=True):
        is_kept = len(shape) == len(sizes) or (bool(shape) and shape[0] == size)
        if not is_kept:
            found.append(start)
            continue
        if len(shape) != len(sizes):
            shape.pop(0)
        found.append(_sum([(start, 1), (rest.pop(0), stride)]))
    return found if not rest else None


def _expand(op: ir.Operation, indices: Sequence[LinearForm]) -> list[LinearForm] | None:
    shape = list(ir.MemRefType(op.results[0].type).shape)
    found = []
    for run in reassociation(op):
        found.append(_sum([(indices[axis], math.prod(shape[axis + 1 : run[-1] + 1])) for axis in run]))
    return found


def _collapse(op: ir.Operation, indices: Sequence[LinearForm]) -> list[LinearForm] | None:
    shape = list(ir.MemRefType(op.operands[0].type).shape)
    found: list[LinearForm] = [(0, ())] * len(shape)
    for run, index in zip(reassociation(op), indices, strict=True):
        outer, *inner = [axis for axis in run if shape[axis] != 1] or run[-1:]
        for axis in reversed(inner):
            divided = _divide(index, shape[axis])
            if divided is None:
                return None
            index, found[axis] = divided[0], (divided[1], ())
        found[outer] = index
    return found


def _divide(linear: LinearForm, size: int) -> tuple[LinearForm, int] | None:
    """Returns the quotient and the constant remainder of a division; None if a term has a remainder of its own."""
    base, terms = linear
    if any(factor % size for _, factor in terms):
        return None
    return (base // size, tuple((value, factor // size) for value, factor in terms)), base % size


def _same(op: ir.Operation, indices: Sequence[LinearForm]) -> list[LinearForm] | None:
    return list(indices)


_STEPS = {
    "memref.subview": _subview,
    "memref.expand_shape": _expand,
    "memref.collapse_shape": _collapse,
    "memref.cast": _same,
}
