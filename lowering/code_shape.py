"""How wide a kernel's code is: what part of its work is done on vectors, and what is left for single elements."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from mlir import ir

from ..passes.parallel import trip_counts

# How many rounds a loop is taken to have whose bounds only a run can tell.
_ROUNDS = 16
# What moves a number into a vector or an address, rather than computing with it.
_FREE = {
    *("arith.constant", "arith.bitcast", "arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui"),
    *("vector.broadcast", "vector.extract", "vector.reduction", "memref.load", "memref.prefetch"),
}
_GATHERS = {"vector.gather", "vector.scatter"}
# Those of the math dialect for which processors have instructions, or which are a few of them.
_INSTRUCTIONS = {
    *("absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "fma", "isfinite", "isinf", "isnan"),
    *("isnormal", "round", "roundeven", "rsqrt", "sqrt", "trunc", "fpowi", "ipowi"),
}


@dataclass
class _Work:
    """What was counted of a kernel, each op as often as its loops repeat it.

    Attributes:
        vectors: ops on vectors, by the width of these in bits.
        scalar: ops on single elements.
        gathers: vectors that are read or written element by element.
        calls: calls of the math library, by function.
    """

    vectors: Counter[int] = field(default_factory=Counter)
    scalar: int = 0
    gathers: int = 0
    calls: Counter[str] = field(default_factory=Counter)


def code_shape(kernel: ir.Operation, vector_bits: int) -> dict[str, Any]:
    """What a report says of the code of a kernel that is bufferised, but not yet LLVM's.

    Args:
        kernel: its function.
        vector_bits: the width of the target's vectors.

    Returns:
        `vector_bits`, the width that most of the work on vectors has, 0 where there is none; `scalar_share`, the part
        of all ops done on single elements; `gathers` and `calls`, where there are any.
    """
    work = _Work()
    _count(kernel, 1, vector_bits, work)
    total = work.vectors.total() + work.scalar
    found: dict[str, Any] = {
        "vector_bits": work.vectors.most_common(1)[0][0] if work.vectors else 0,
        "scalar_share": round(work.scalar / total, 3) if total else 0.0,
    }
    if work.gathers:
        found["gathers"] = work.gathers
    if work.calls:
        found["calls"] = dict(sorted(work.calls.items()))
    return found


def _count(parent: ir.Operation, rounds: int, native: int, work: _Work) -> None:
    for region in parent.regions:
        for block in region:
            for view in block:
                op = view.operation
                if len(op.regions):
                    _count(op, rounds * _rounds_of(op), native, work)
                else:
                    _count_op(op, rounds, native, work)


def _count_op(op: ir.Operation, rounds: int, native: int, work: _Work) -> None:
    dialect, _, name = op.name.partition(".")
    if dialect not in ("arith", "math", "vector") and op.name != "memref.store":
        return
    # What an op of these dialects makes, or else what it stores, says how wide it is.
    kind = op.results[0].type if len(op.results) else op.operands[0].type
    if dialect == "math" and name not in _INSTRUCTIONS:
        work.calls[name] += rounds * (math.prod(kind.shape) if isinstance(kind, ir.VectorType) else 1)
    if op.name in _GATHERS:
        work.gathers += rounds
    width = _width(kind)
    if width is None:
        if not isinstance(kind, ir.IndexType) and op.name not in _FREE:
            work.scalar += rounds
        return
    bits, count = width
    if op.name not in _FREE and bits:
        work.vectors[min(bits, native)] += rounds * count * -(-bits // native)


def _width(kind: ir.Type) -> tuple[int, int] | None:
    """The bits of a vector, 0 for one of bools, and how many there are; None where it holds a single element."""
    if not isinstance(kind, ir.VectorType):
        return None
    *others, lanes = kind.shape or [1]
    if lanes == 1:
        return None
    element = kind.element_type
    bits = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    return (lanes * bits if bits >= 8 else 0), math.prod(others)


def _rounds_of(op: ir.Operation) -> int:
    if op.name == "scf.forall":
        return math.prod(trip_counts(op))
    if op.name != "scf.for":
        return 1
    bounds = [_constant(op.operands[position]) for position in range(3)]
    if None in bounds:
        return _ROUNDS
    lower, upper, step = (bound or 0 for bound in bounds)
    return max(0, -(-(upper - lower) // max(1, step)))


def _constant(value: ir.Value) -> int | None:
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    return ir.IntegerAttr(owner.attributes["value"]).value
