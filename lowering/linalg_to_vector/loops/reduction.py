"""Accumulators of reductions: combines two of them, and reduces the lanes of one to a scalar."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import vector

from ...builders.access import is_vector
from .body import replay
from .generic import Generic


def horizontal(generic: Generic, accumulators: Sequence[ir.Value]) -> list[ir.Value]:
    """Reduces the lanes of each accumulator of one op to a scalar.

    Halves are combined until one lane is left, so the order of additions is fixed: results do not vary from run to run.
    """
    values = list(accumulators)
    while (width := ir.VectorType(values[0].type).shape[0]) > 1:
        half = width // 2
        low = [vector.shuffle(value, value, list(range(half))) for value in values]
        high = [vector.shuffle(value, value, list(range(half, width))) for value in values]
        values = combine(generic, low, high)
    return [vector.extract(value, [], [0]) for value in values]


def combine(generic: Generic, into: Sequence[ir.Value], other: Sequence[ir.Value]) -> list[ir.Value]:
    """Returns the accumulators `into` with the accumulators `other` reduced into them.

    The body computes `accumulator = f(element, accumulator)`. Its ops that depend on both are replayed with `other` in
    place of the elements.
    """
    arguments = list(generic.block.arguments)[generic.num_inputs :]
    *operations, last = [op.operation for op in generic.block.operations]
    on_accumulators = _dependent(operations, arguments)
    values = dict(zip(arguments, into, strict=True))
    for yielded, item in zip(last.operands, other, strict=True):
        element = next(value for value in _candidates(yielded.owner.operation) if value not in on_accumulators)
        values.setdefault(element, item)
    on_both = _dependent(operations, values)
    for op in operations:
        if op.results[0] in on_both and op.results[0] not in values:
            values.update(zip(op.results, replay(op, [values.get(value, value) for value in op.operands]), strict=True))
    return [values[value] for value in last.operands]


def _dependent(operations: Sequence[ir.Operation], roots: Iterable[ir.Value]) -> set[ir.Value]:
    """Returns `roots` and the values that are computed from them."""
    found = set(roots)
    for op in operations:
        if any(value in found for value in op.operands):
            found.update(op.results)
    return found


def _candidates(op: ir.Operation) -> list[ir.Value]:
    """Returns the operands that may be the element, of the op that makes an accumulator."""
    operands = list(op.operands)
    return operands[1:] if op.name == "arith.select" else operands


def low_lanes(value: ir.Value, width: int) -> ir.Value:
    """Returns the first `width` lanes."""
    if not is_vector(value) or ir.VectorType(value.type).shape[0] == width:
        return value
    return vector.shuffle(value, value, list(range(width)))


def with_low_lanes(value: ir.Value, low: ir.Value) -> ir.Value:
    """Returns `value` with its first lanes replaced by `low`."""
    if value.type == low.type:
        return low
    return vector.InsertStridedSliceOp(low, value, [0], [1]).result
