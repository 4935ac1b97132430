"""Vector width of a kernel's code, and the share of its ops that work on vectors and on single elements."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from mlir import ir

from ..passes.ir.parallel import trip_counts
from ..passes.ir.values import integer_of
from ..runtime.facts import CodeShape

# Assumed number of iterations of a loop whose bounds are not constant.
_ROUNDS = 16
# Less than any register: vectors of two and more dimensions have whole registers innermost, or grains of this size.
_GRAIN_BITS = 64
# Ops that move a value into a vector or an address instead of computing with it.
_FREE = {
    *("arith.constant", "arith.bitcast", "arith.index_cast", "arith.index_castui", "arith.extsi", "arith.extui"),
    *("vector.broadcast", "vector.extract", "vector.reduction", "memref.load", "memref.prefetch"),
}
_GATHERS = {"vector.gather", "vector.scatter"}
# Ops of the math dialect that are one machine instruction or a few; the others are calls of the math library.
_INSTRUCTIONS = {
    *("absf", "absi", "ceil", "copysign", "ctlz", "ctpop", "cttz", "floor", "fma", "isfinite", "isinf", "isnan"),
    *("isnormal", "round", "roundeven", "rsqrt", "sqrt", "trunc", "fpowi", "ipowi"),
}


@dataclass
class _Work:
    """Op counts of a kernel; an op in a loop counts once per iteration.

    Attributes:
        vectors: ops on vectors, by vector width in bits.
        scalar: ops on single elements.
        gathers: vectors that are read or written element by element.
        calls: calls of the math library, by function.
    """

    vectors: Counter[int] = field(default_factory=Counter)
    scalar: int = 0
    gathers: int = 0
    calls: Counter[str] = field(default_factory=Counter)


def code_shape(kernel: ir.Operation, vector_bits: int) -> CodeShape:
    """Returns the vector width of the code of a kernel that is bufferised, but not yet lowered to LLVM.

    Args:
        kernel: function of the kernel.
        vector_bits: width of the target's vectors.
    """
    work = _Work()
    _count(kernel, 1, vector_bits, work)
    total = work.vectors.total() + work.scalar
    return CodeShape(
        work.vectors.most_common(1)[0][0] if work.vectors else 0,
        round(work.scalar / total, 3) if total else 0.0,
        work.gathers,
        dict(sorted(work.calls.items())),
    )


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
    # The width is that of the op's result or, for a store, of the stored value.
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
    """Returns a vector's width in bits (0 for bools) and the number of such vectors; None for a single element."""
    if not isinstance(kind, ir.VectorType):
        return None
    *others, lanes = kind.shape or [1]
    if lanes == 1:
        return None
    element = kind.element_type
    bits = element.width if isinstance(element, ir.IntegerType | ir.FloatType) else 64
    while others and lanes * bits < _GRAIN_BITS:  # a tile of a matrix unit, whose innermost dimension is a grain
        lanes *= others.pop()
    return (lanes * bits if bits >= 8 else 0), math.prod(others)


def _rounds_of(op: ir.Operation) -> int:
    if op.name == "scf.forall":
        return math.prod(trip_counts(op))
    if op.name != "scf.for":
        return 1
    bounds = [integer_of(op.operands[position]) for position in range(3)]
    if None in bounds:
        return _ROUNDS
    lower, upper, step = (bound or 0 for bound in bounds)
    return max(0, -(-(upper - lower) // max(1, step)))
