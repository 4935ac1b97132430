"""Ops on complex numbers, which are pairs of real values."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir

from ....dialects.core import Op
from ....dialects.stepwell import elementwise as ew
from ....dialects.stepwell.movement import ExpandDimsOp
from ....dialects.stepwell.shape import FillOp
from ...build import (
    cast,
    dtype,
    emit,
    gathered,
    joined,
    rank,
    scalar,
    shape_of,
)
from ...errors import UnsupportedError
from ..node import AtenNode
from ..pairs import Complex
from ..registry import AtenHandler, handler_for, imports, imports_complex
from . import arithmetic, contraction, creation, elementwise, indexing, movement, padding, reduction, reordering

_FAMILIES = (arithmetic, contraction, creation, elementwise, indexing, movement, padding, reduction, reordering)
"""Families whose handlers are applied to each part; they are registered first."""

_BY_PARTS: dict[tuple[str, ...], tuple[str, ...]] = {
    (): (
        *("alias", "clone", "contiguous", "detach", "lift_fresh", "lift_fresh_copy", "view", "_unsafe_view", "reshape"),
        *("permute", "t", "transpose.int", "unsqueeze", "squeeze", "squeeze.dim", "squeeze.dims", "expand", "repeat"),
        *("slice.Tensor", "select.int", "split.Tensor", "split_with_sizes", "unbind.int", "flip", "roll", "diagonal"),
        *("index.Tensor", "_unsafe_index.Tensor", "index_select", "gather", "as_strided", "unfold", "neg", "tril"),
        *("triu", "sum", "sum.dim_IntList", "mean", "mean.dim", "cumsum", "zeros", "zeros_like", "new_zeros"),
        *("empty.memory_format", "empty_like", "new_empty", "empty_strided"),
    ),
    ("input", "other"): ("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "where.self"),
    ("tensors",): ("cat", "stack"),
    ("input", "values"): ("index_put", "_unsafe_index_put"),
    ("input", "src"): ("copy", "slice_scatter", "select_scatter", "scatter.src", "scatter_add"),
    ("input", "value"): ("masked_fill.Scalar", "masked_fill.Tensor", "scatter.value"),
    ("value",): ("constant_pad_nd", "fill.Scalar", "fill.Tensor"),
    ("fill_value",): ("full", "full_like", "new_full"),
}
"""Ops that act on each part alone, by the arguments of which real ones have an imaginary part of 0."""


def _by_parts(handler: AtenHandler, promoted: Sequence[str]) -> AtenHandler:
    @functools.wraps(handler)
    def both(node: AtenNode, **arguments: Any) -> Any:
        if isinstance(arguments.get("alpha"), complex):
            raise UnsupportedError("scales by a complex number, which is not supported")
        sides = []
        for index in (0, 1):
            given = {name: _side(value, index, name in promoted) for name, value in arguments.items()}
            sides.append(handler(node, **given))
        if isinstance(sides[0], tuple):
            return tuple(Complex(*pair) for pair in zip(*sides, strict=True))
        return Complex(*sides)

    return both


def _side(value: Any, index: int, is_promoted: bool) -> Any:
    """The real or the imaginary part of an argument."""
    if isinstance(value, Complex):
        return value.parts[index]
    if isinstance(value, complex):
        return (value.real, value.imag)[index]
    if isinstance(value, list):
        return [_side(item, index, is_promoted) for item in value]
    if index == 0 or not is_promoted or value is None:
        return value
    return _zeros(value) if isinstance(value, ir.Value) else 0


for _promoted, _names in _BY_PARTS.items():
    for _name in _names:
        _overload = f"aten.{_name}" if "." in _name else f"aten.{_name}.default"
        _handler = handler_for(_overload)
        if _handler is not None:  # torch decomposes the others
            imports_complex(_overload)(_by_parts(_handler, _promoted))


_where = handler_for("prims.where.default")
assert _where is not None
imports_complex("prims.where.default")(_by_parts(_where, ("a", "b")))


def _zeros(like: ir.Value) -> ir.Value:
    return emit(FillOp, shape_of(like), value=np.zeros((), dtype(like)))


def pair(value: Any, kind: np.dtype) -> Complex:
    """Returns an operand as complex numbers whose parts have an element type."""
    if isinstance(value, Complex):
        return Complex(*(cast(item, kind) for item in value.parts))
    if isinstance(value, ir.Value):
        real = cast(value, kind)
        return Complex(real, _zeros(real))
    number = complex(value)
    return Complex(*(arithmetic.as_value(item, kind) for item in (number.real, number.imag)))


def _added(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return emit(ew.AddOp, lhs, rhs)


def _subtracted(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return emit(ew.SubOp, lhs, rhs)


def _times(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
    return emit(ew.MulOp, lhs, rhs)


def _product(lhs: Complex, rhs: Complex) -> Complex:
    """(a + bi) (c + di) = ac - bd + (ad + bc) i"""
    (a, b), (c, d) = lhs.parts, rhs.parts
    return Complex(_subtracted(_times(a, c), _times(b, d)), _added(_times(a, d), _times(b, c)))


def _quotient(lhs: Complex, rhs: Complex) -> Complex:
    """Numerator and denominator are divided by the greater part of the denominator, so that no square overflows."""
    c, d = rhs.parts
    size = emit(ew.MaximumOp, emit(ew.AbsOp, c), emit(ew.AbsOp, d))
    c, d = (emit(ew.DivOp, item, size) for item in (c, d))
    made = _product(lhs, Complex(c, emit(ew.NegOp, d)))
    square = _times(_added(_times(c, c), _times(d, d)), size)
    return Complex(*(emit(ew.DivOp, item, square) for item in made.parts))


@imports_complex("aten.mul.Tensor", "aten.mul.Scalar")
def mul(node: AtenNode, input: Any, other: Any) -> Complex:
    """x * y"""
    return _product(pair(input, node.dtype()), pair(other, node.dtype()))


@imports_complex("aten.div.Tensor", "aten.div.Scalar")
def div(node: AtenNode, input: Any, other: Any) -> Complex:
    """x / y"""
    if not isinstance(other, Complex | complex):
        divisor = arithmetic.as_value(other, node.dtype())
        return Complex(*(emit(ew.DivOp, item, divisor) for item in pair(input, node.dtype()).parts))
    return _quotient(pair(input, node.dtype()), pair(other, node.dtype()))


@imports_complex("aten.reciprocal.default")
def reciprocal(node: AtenNode, input: Complex) -> Complex:
    """1 / x"""
    return _quotient(pair(1.0, node.dtype()), input)


@imports_complex("aten.pow.Tensor_Scalar")
def power(node: AtenNode, input: Complex, exponent: Any) -> Complex:
    """x ** n for small n."""
    if exponent not in (1, 2, 3):
        raise UnsupportedError(f"raises complex numbers to the power of {exponent}, which is not supported")
    made = input
    for _ in range(int(exponent) - 1):
        made = _product(made, input)
    return made


@imports_complex("aten.square.default")
def square(node: AtenNode, input: Complex) -> Complex:
    """x * x"""
    return _product(input, input)


@imports_complex("aten.abs.default")
def magnitude(node: AtenNode, input: Complex) -> ir.Value:
    """The distance from the origin."""
    return arithmetic.hypot(node, *input.parts)


@imports_complex("aten.angle.default")
def angle(node: AtenNode, input: Complex) -> ir.Value:
    """The angle to the real axis."""
    return arithmetic.atan2(node, input.imaginary, input.real)


@imports("aten.angle.default")
def angle_of_real(node: AtenNode, input: ir.Value) -> ir.Value:
    """Pi for negative numbers, else 0; NaN for NaN."""
    value = cast(input, node.dtype())
    is_negative = emit(ew.LessOp, value, scalar(0, value))
    made = emit(ew.SelectOp, is_negative, scalar(math.pi, value), scalar(0, value))
    return emit(ew.SelectOp, emit(ew.EqualOp, value, value), made, value)


@imports_complex("aten.sgn.default")
def sign(node: AtenNode, input: Complex) -> Complex:
    """x / |x|, or 0."""
    size = arithmetic.hypot(node, *input.parts)
    is_zero = emit(ew.EqualOp, size, scalar(0, size))
    divisor = emit(ew.SelectOp, is_zero, scalar(1, size), size)
    return Complex(*(emit(ew.DivOp, item, divisor) for item in input.parts))


@imports_complex("aten.exp.default")
def exp(node: AtenNode, input: Complex) -> Complex:
    """e ** x = e ** a (cos b + i sin b)"""
    return _from_polar(emit(ew.ExpOp, input.real), input.imaginary)


@imports_complex("aten.log.default")
def log(node: AtenNode, input: Complex) -> Complex:
    """log |x| + i angle(x)"""
    return Complex(emit(ew.LogOp, magnitude(node, input)), angle(node, input))


@imports_complex("aten.polar.default")
def polar(node: AtenNode, abs: ir.Value, angle: ir.Value) -> Complex:
    """The numbers at distances and angles."""
    return _from_polar(abs, angle)


def _from_polar(size: ir.Value, angle: ir.Value) -> Complex:
    return Complex(_times(size, emit(ew.CosOp, angle)), _times(size, emit(ew.SinOp, angle)))


def _functions(first: tuple[type[Op], type[Op]], second: tuple[type[Op], type[Op]], sign: int) -> AtenHandler:
    """f(a) g(b) + sign i h(a) k(b)"""

    def handler(node: AtenNode, input: Complex) -> Complex:
        a, b = input.parts
        other = _times(emit(second[0], a), emit(second[1], b))
        return Complex(_times(emit(first[0], a), emit(first[1], b)), other if sign > 0 else emit(ew.NegOp, other))

    return handler


imports_complex("aten.sin.default")(_functions((ew.SinOp, ew.CoshOp), (ew.CosOp, ew.SinhOp), 1))
imports_complex("aten.cos.default")(_functions((ew.CosOp, ew.CoshOp), (ew.SinOp, ew.SinhOp), -1))
imports_complex("aten.sinh.default")(_functions((ew.SinhOp, ew.CosOp), (ew.CoshOp, ew.SinOp), 1))
imports_complex("aten.cosh.default")(_functions((ew.CoshOp, ew.CosOp), (ew.SinhOp, ew.SinOp), 1))


@imports_complex("aten._conj.default", "aten._conj_physical.default", "aten.conj_physical.default")
def conjugate(node: AtenNode, input: Complex) -> Complex:
    """a - bi"""
    return Complex(input.real, emit(ew.NegOp, input.imaginary))


@imports_complex("aten.resolve_conj.default", "aten.resolve_neg.default")
def same(node: AtenNode, input: Complex) -> Complex:
    """The value itself: conjugates are computed at once."""
    return input


@imports_complex("aten.real.default", "prims.real.default")
def real(node: AtenNode, input: Complex) -> ir.Value:
    """The real part."""
    return input.real


@imports_complex("aten.imag.default", "prims.imag.default")
def imaginary(node: AtenNode, input: Complex) -> ir.Value:
    """The imaginary part."""
    return input.imaginary


@imports_complex("aten.complex.default")
def from_parts(node: AtenNode, real: ir.Value, imag: ir.Value) -> Complex:
    """Numbers from their parts, which broadcast."""
    sizes = node.sizes()
    return Complex(movement.broadcast(real, sizes), movement.broadcast(imag, sizes))


@imports_complex("aten.view_as_real.default")
def view_as_real(node: AtenNode, input: Complex) -> ir.Value:
    """Both parts along a new last dimension."""
    return together(input)


@imports_complex("aten.view_as_complex.default")
def view_as_complex(node: AtenNode, input: ir.Value) -> Complex:
    """Numbers from a last dimension of both parts."""
    return apart(input)


def together(value: Complex) -> ir.Value:
    """Returns both parts along a new dimension: [...] --> [..., 2]"""
    return joined([emit(ExpandDimsOp, item, axes=(rank(item),)) for item in value.parts], rank(value.real))


def apart(value: ir.Value) -> Complex:
    """Returns the numbers whose parts lie along the last dimension: [..., 2] --> [...]"""
    last = rank(value) - 1
    return Complex(*(gathered(value, arithmetic.as_value(place, np.dtype(np.int64)), last) for place in (0, 1)))


@imports_complex("aten._to_copy.default", "prims.convert_element_type.default")
def to_copy(node: AtenNode, input: Any) -> Any:
    """Conversion to another element type; that to a real one drops the imaginary part."""
    if node.results[0].is_complex():
        return pair(input, node.dtype())
    return cast(input.real, node.dtype())


@imports_complex("aten.eq.Tensor", "aten.eq.Scalar")
def equal(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """True if both parts are equal."""
    lhs, rhs = (pair(value, node.promoted("self", "other")) for value in (input, other))
    pairs = zip(lhs.parts, rhs.parts, strict=True)
    return emit(ew.AndOp, *(emit(ew.EqualOp, one, two) for one, two in pairs))


@imports_complex("aten.ne.Tensor", "aten.ne.Scalar")
def unequal(node: AtenNode, input: Any, other: Any) -> ir.Value:
    """True if a part differs."""
    return emit(ew.NotOp, equal(node, input, other))


@imports_complex("aten.isnan.default")
def is_nan(node: AtenNode, input: Complex) -> ir.Value:
    """True if a part is NaN."""
    return emit(ew.NotOp, emit(ew.AndOp, *(emit(ew.EqualOp, item, item) for item in input.parts)))


@imports_complex("aten.ones.default", "aten.ones_like.default", "aten.new_ones.default")
def ones(node: AtenNode) -> Complex:
    """Ones."""
    made = creation.ones(node)
    return Complex(made, _zeros(made))


@imports_complex("aten.scalar_tensor.default")
def scalar_tensor(node: AtenNode, s: Any) -> Complex:
    """A number as a tensor."""
    return pair(s, node.dtype())


def _bilinear(handler: AtenHandler, left: str, right: str) -> AtenHandler:
    """A product of matrices: that of each pair of parts."""

    @functools.wraps(handler)
    def product(node: AtenNode, **arguments: Any) -> Complex:
        (a, b), (c, d) = (pair(arguments[name], node.dtype()).parts for name in (left, right))

        def of(lhs: ir.Value, rhs: ir.Value) -> ir.Value:
            return handler(node, **{**arguments, left: lhs, right: rhs})

        return Complex(_subtracted(of(a, c), of(b, d)), _added(of(a, d), of(b, c)))

    return product


for _overload, _left, _right in (
    ("aten.mm.default", "input", "mat2"),
    ("aten.bmm.default", "input", "mat2"),
    ("aten.matmul.default", "input", "other"),
    ("aten.mv.default", "input", "vec"),
    ("aten.dot.default", "input", "tensor"),
):
    _handler = handler_for(_overload)
    if _handler is not None:  # torch decomposes the others
        imports_complex(_overload)(_bilinear(_handler, _left, _right))


@imports_complex("aten.linear.default")
def linear(node: AtenNode, input: Any, weight: Any, bias: Any) -> Complex:
    """x @ transpose(weight) + bias"""
    handler = handler_for("aten.linear.default")
    assert handler is not None
    made = _bilinear(handler, "input", "weight")(node, input=input, weight=weight, bias=None)
    return made if bias is None else Complex(*map(_added, made.parts, pair(bias, node.dtype()).parts))


@imports_complex("aten.addmm.default")
def addmm(node: AtenNode, input: Any, mat1: Complex, mat2: Complex) -> Complex:
    """a @ b + c"""
    (a, b), (c, d), addend = mat1.parts, mat2.parts, pair(input, node.dtype())
    made = (
        _subtracted(contraction.product(a, c), contraction.product(b, d)),
        _added(contraction.product(a, d), contraction.product(b, c)),
    )
    return Complex(*map(_added, made, addend.parts))
