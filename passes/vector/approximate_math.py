"""`stepwell-approximate-math`: polynomial approximations of elementary functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from mlir import ir
from mlir.dialects import arith, math

from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.named_ops import ops_named
from .approximations import (
    error_function,
    exponential,
    hyperbolic,
    inverse_trigonometry,
    logarithm,
    roots,
    trigonometry,
)
from .approximations.arithmetic import Arithmetic, constant_of

FUNCTIONS: dict[str, Callable[..., ir.Value]] = {
    "math.acos": inverse_trigonometry.acos,
    "math.acosh": hyperbolic.acosh,
    "math.asin": inverse_trigonometry.asin,
    "math.asinh": hyperbolic.asinh,
    "math.atan": inverse_trigonometry.atan,
    "math.atanh": hyperbolic.atanh,
    "math.cos": trigonometry.cos,
    "math.cosh": hyperbolic.cosh,
    "math.erf": error_function.erf,
    "math.exp": exponential.exp,
    "math.expm1": exponential.expm1,
    "math.log": logarithm.log,
    "math.log1p": logarithm.log1p,
    "math.powf": logarithm.pow,
    "math.sin": trigonometry.sin,
    "math.sinh": hyperbolic.sinh,
    "math.tan": trigonometry.tan,
    "math.tanh": exponential.tanh,
}
# Used with `fastmath<afn>`.
_SHORTER = {"math.exp": exponential.exp_of_normal, "math.erf": error_function.erf_as_ratio}
# The exponent of a power multiplies two rounding errors, so f32 is too imprecise inside. The others are rare and use
# logarithms of sums.
_IN_DOUBLE = {"math.powf", "math.acosh", "math.asinh", "math.atanh"}


@register
@dataclass(frozen=True)
class ApproximateMathPass(Pass):
    """Replace elementary functions by polynomials, on scalars and vectors alike.

    Covers exp, expm1, log, log1p, powf, erf, and the trigonometric and hyperbolic functions with their inverses.

    Results are within 4 units in the last place (docs/numerics.md has the bound of each); infinities, NaN and denormal
    numbers follow IEEE 754. f16 and bf16 are computed in f32. A power with a small constant exponent becomes products.
    With `fastmath<afn>` an exponential may be 0 instead of a denormal number, and infinite in the last binade; erf is
    within 6 units; the power -0.75 of an f32 assumes a positive normal number.

    ```mlir
    %1 = math.exp %0 : vector<32xf32>
    // -->
    %t = arith.mulf %0, %log2e : vector<32xf32>
    ...
    %1 = arith.mulf %p, %scale : vector<32xf32>
    ```

    Attributes:
        has_scalef: whether the target has AVX-512, whose scalef instruction multiplies by powers of two.
    """

    name = "stepwell-approximate-math"
    has_scalef: bool = False

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every such op inside `op`."""
        for inner in ops_named(op, *FUNCTIONS):
            with inner.location, ir.InsertionPoint(inner):
                value = self._approximate(inner)
            inner.results[0].replace_all_uses_with(value)
            inner.erase()

    def _approximate(self, op: ir.Operation) -> ir.Value:
        operands = list(op.operands)
        exponent = constant_of(operands[1]) if op.name == "math.powf" else None
        if exponent in _SIMPLE_POWERS:
            return _SIMPLE_POWERS[exponent](operands[0])
        kind = operands[0].type
        may_approximate = "afn" in str(op.attributes["fastmath"])
        if op.name == "math.powf" and may_approximate and exponent == -0.75 and _width(kind) == 32:
            return roots.three_quarters_below(Arithmetic(kind), operands[0])
        wide = _like(kind, ir.F64Type.get() if op.name in _IN_DOUBLE or _width(kind) == 64 else ir.F32Type.get())
        if wide != kind:
            operands = [arith.extf(wide, value) for value in operands]
        if op.name == "math.powf" and _width(kind) == 64:
            return logarithm.pow_of_double(Arithmetic(kind, self.has_scalef), *operands)
        function = _SHORTER.get(op.name, FUNCTIONS[op.name]) if may_approximate else FUNCTIONS[op.name]
        value = function(Arithmetic(wide, self.has_scalef), *operands)
        return value if wide == kind else arith.truncf(kind, value)


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element


def _width(kind: ir.Type) -> int:
    return ir.FloatType(kind.element_type if isinstance(kind, ir.VectorType) else kind).width


def _reciprocal(value: ir.Value) -> ir.Value:
    return arith.divf(Arithmetic(value.type).number(1), value)


def _root(value: ir.Value) -> ir.Value:
    """The square root as defined by pow: 0 for -0, and infinity for -inf."""
    on = Arithmetic(value.type)
    is_lowest = on.equal(value, on.number(-inf))
    return arith.select(is_lowest, on.number(inf), math.sqrt(arith.addf(value, on.number(0))))


def _square(value: ir.Value) -> ir.Value:
    return arith.mulf(value, value)


_SIMPLE_POWERS: dict[float | None, Callable[[ir.Value], ir.Value]] = {
    -2.0: lambda x: _reciprocal(_square(x)),
    -1.0: _reciprocal,
    -0.5: lambda x: _reciprocal(_root(x)),
    0.5: _root,
    1.0: lambda x: x,
    2.0: _square,
    3.0: lambda x: arith.mulf(_square(x), x),
    4.0: lambda x: _square(_square(x)),
}
