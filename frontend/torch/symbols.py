"""Symbolic sizes: expressions of torch's shape environment as ops on scalars."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import sympy
import torch
from mlir import ir
from torch.utils._sympy.functions import FloorDiv

from ...dialects.core import Op, spec_of
from ...dialects.stepwell import elementwise as ew
from ...dialects.stepwell.movement import ExpandDimsOp
from ..build import cast, chained, constant, dtype, emit, integers, joined, part, reshaped, shape_of
from ..errors import UnsupportedError

AtenSize = int | ir.Value
"""A size: a number, or a scalar of i64."""

_COMPARISONS: dict[type, type[Op]] = {
    sympy.Eq: ew.EqualOp,
    sympy.Lt: ew.LessOp,
    sympy.Le: ew.LessEqualOp,
    sympy.Gt: ew.GreaterOp,
    sympy.Ge: ew.GreaterEqualOp,
}
_FUNCTIONS: dict[str, type[Op]] = {
    "sqrt": ew.SqrtOp,
    "exp": ew.ExpOp,
    "log": ew.LogOp,
    "sin": ew.SinOp,
    "cos": ew.CosOp,
}


def expression_of(value: Any) -> Any:
    """Returns the sympy expression of a symbolic number, or a number unchanged."""
    return value.node.expr if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else value


class Symbols:
    """The values of the symbols of a graph, and of expressions over them.

    Attributes:
        values: the size that each symbol stands for.
    """

    def __init__(self, values: Mapping[Any, AtenSize]) -> None:
        """Starts with the sizes that symbols, and expressions whose symbols are not known, stand for."""
        self.values = {known: size for known, size in values.items() if isinstance(known, sympy.Symbol)}
        self._numbers = {known: sympy.Integer(size) for known, size in values.items() if isinstance(size, int)}
        self._known: dict[Any, ir.Value] = {
            known: size for known, size in values.items() if known not in self.values and isinstance(size, ir.Value)
        }

    def number(self, value: Any) -> Any:
        """Returns a number of torch, maybe symbolic, as a number of Python if it is known, else as a scalar.

        Raises:
            UnsupportedError: it has a symbol that no size of an input determines, or an unknown function.
        """
        expression = expression_of(value)
        if not isinstance(expression, sympy.Basic):
            return expression
        expression: Any = expression.xreplace(self._numbers)
        if expression.is_Boolean and expression in (sympy.true, sympy.false):
            return bool(expression)
        if expression.is_number:
            return int(expression) if expression.is_integer else float(expression)
        if expression not in self._known:
            self._known[expression] = self._value(expression)
        return self._known[expression]

    def bind(self, known: Any, value: Any) -> None:
        """Takes the value of a symbol that is new: a number, or a size of a tensor.

        Args:
            known: what torch knows about a result or an input.
            value: the result or input.
        """
        if isinstance(known, torch.Tensor):
            if isinstance(value, ir.Value):
                for axis, size in enumerate(known.shape):
                    if self._is_new(expression_of(size)):
                        self.values[expression_of(size)] = extent_of(value, axis)
        elif self._is_new(expression_of(known)) and isinstance(value, int | ir.Value):
            self.values[expression_of(known)] = value
            if isinstance(value, int):
                self._numbers[expression_of(known)] = sympy.Integer(value)

    def _is_new(self, expression: Any) -> bool:
        return isinstance(expression, sympy.Symbol) and expression not in self.values

    def copy(self) -> Symbols:
        """Returns a copy, to which more can be added."""
        made = Symbols(self.values)
        made._known = dict(self._known)
        return made

    def sizes(self, values: Sequence[Any]) -> list[AtenSize]:
        """Returns the sizes of a shape."""
        return [self.number(value) for value in values]

    def _scalar(self, expression: Any) -> ir.Value:
        found = self.number(expression)
        if isinstance(found, ir.Value):
            return found
        return constant(np.array(found, np.int64 if isinstance(found, int) else np.float64))

    def _value(self, expression: Any) -> ir.Value:
        if expression.is_Symbol:
            if expression not in self.values:
                raise UnsupportedError(
                    f"has a size that depends on computed values ({expression}), which is not supported"
                )
            return scalar_size(self.values[expression])
        kind = type(expression)
        if kind in _COMPARISONS:
            return emit(_COMPARISONS[kind], *_alike([self._scalar(item) for item in expression.args]))
        build = _BUILDERS.get(kind.__name__)
        if build is None:
            raise UnsupportedError(f"has a size {expression}, in which {kind.__name__} is not supported")
        return build(self, expression)

    def _floats(self, expression: Any) -> list[ir.Value]:
        return [cast(self._scalar(item), np.float64) for item in expression.args]


def symbols_of(graph: torch.fx.Graph, arguments: Mapping[str, ir.Value]) -> dict[sympy.Basic, AtenSize]:
    """Returns the value of each symbol that follows from a graph's inputs.

    Sizes that are a symbol determine it first; then symbols are computed from sizes that are linear in one symbol. Of a
    size such as `(s - 3) // 2 + 1`, which several `s` have, the value of the quotient follows, and of `s - s // 3` the
    value as a whole. Inputs that are numbers determine only symbols that do not follow from shapes, which are known
    when code for them is compiled.
    """
    found: dict[sympy.Basic, AtenSize] = {}
    sizes: list[tuple[Any, ir.Value, int]] = []
    numbers: list[tuple[sympy.Symbol, ir.Value]] = []
    for node in graph.nodes:
        if node.op != "placeholder" or node.name not in arguments:
            continue
        value, argument = node.meta.get("val"), arguments[node.name]
        if isinstance(value, torch.Tensor):
            sizes += [(expression_of(size), argument, axis) for axis, size in enumerate(value.shape)]
        elif isinstance(expression := expression_of(value), sympy.Symbol):
            numbers.append((expression, argument))
    for expression, argument, axis in sizes:
        if isinstance(expression, sympy.Symbol) and expression not in found:
            found[expression] = extent_of(argument, axis)
    _solve(found, sizes)
    if any(symbol not in found for symbol, _ in numbers):
        found = dict(numbers) | found
        _solve(found, sizes)
    for expression, argument, axis in sizes:
        if not set(getattr(expression, "free_symbols", ())) <= set(found) and expression not in found:
            found[expression] = extent_of(argument, axis)
    return found


def _solve(found: dict[sympy.Basic, AtenSize], sizes: Sequence[tuple[Any, ir.Value, int]]) -> None:
    """Adds the symbols and functions that follow from sizes with one unknown symbol, each an axis of an input."""
    for expression, argument, axis in sizes:
        missing = set(getattr(expression, "free_symbols", ())) - set(found)
        if len(missing) == 1 and not isinstance(expression, sympy.Symbol):
            (symbol,) = missing
            found |= _solved(symbol, expression, extent_of(argument, axis), found)


def _solved(
    symbol: sympy.Symbol, expression: Any, size: AtenSize, known: Mapping[sympy.Basic, AtenSize]
) -> dict[sympy.Basic, AtenSize]:
    """The value of a symbol, or of the largest function of it, with which an expression equals a size."""
    functions = sorted(expression.atoms(sympy.Function), key=sympy.count_ops, reverse=True)
    for wanted in (symbol, *(function for function in functions if function.has(symbol))):
        unknown = sympy.Dummy("unknown", integer=True)
        replaced = expression.xreplace({wanted: unknown})
        if wanted in known or (wanted is not symbol and replaced.has(symbol)):
            continue
        size_symbol = sympy.Symbol("size", integer=True, positive=True)
        try:
            answers = sympy.solve(sympy.Eq(replaced, size_symbol), unknown)
        except NotImplementedError:  # such as a quotient that is rounded
            continue
        if len(answers) == 1 and answers[0].is_rational_function(size_symbol):
            numerator, denominator = sympy.fraction(sympy.together(answers[0]))
            return {wanted: Symbols({**known, size_symbol: size}).number(FloorDiv(numerator, denominator))}
    return {}


def extent_of(value: ir.Value, axis: int) -> AtenSize:
    """Returns a size of a value."""
    dim = spec_of(value).shape[axis]
    return dim if isinstance(dim, int) else reshaped(part(shape_of(value), axis, axis + 1), integers([]))


def extents(sizes: Sequence[AtenSize]) -> ir.Value:
    """Returns sizes as a list of i64: a literal if all of them are numbers."""
    if all(isinstance(size, int) for size in sizes):
        return integers([int(size) for size in sizes if isinstance(size, int)])
    parts: list[ir.Value] = []
    numbers: list[int] = []
    for size in sizes:
        if isinstance(size, ir.Value):
            parts += [integers(numbers)] if numbers else []
            parts.append(emit(ExpandDimsOp, size, axes=(0,)))
            numbers = []
        else:
            numbers.append(size)
    return joined([*parts, integers(numbers)] if numbers else parts)


def scalar_size(size: AtenSize) -> ir.Value:
    """Returns a size as a scalar of i64."""
    return size if isinstance(size, ir.Value) else constant(np.array(size, np.int64))


def _alike(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Converts numbers to f64 if one of them is."""
    is_float = any(dtype(value).kind == "f" for value in values)
    return [cast(value, np.float64) if is_float else value for value in values]


def _chain(op: type[Op]) -> Callable[[Symbols, Any], ir.Value]:
    return lambda symbols, expression: chained(op, _alike([symbols._scalar(item) for item in expression.args]))


def _floor_div(symbols: Symbols, expression: Any) -> ir.Value:
    """a // b, rounded down; ops on integers round towards zero."""
    base, divisor = expression.args
    lhs, rhs = symbols._scalar(base), symbols._scalar(divisor)
    if not (base.is_nonnegative and divisor.is_positive):
        lhs = emit(ew.SubOp, lhs, emit(ew.ModOp, lhs, rhs))
    return emit(ew.DivOp, lhs, rhs)


def _power(symbols: Symbols, expression: Any) -> ir.Value:
    base, exponent = expression.args
    if exponent.is_Integer and exponent > 0 and base.is_integer:
        return chained(ew.MulOp, [symbols._scalar(base)] * int(exponent))
    return emit(ew.PowOp, *symbols._floats(expression))


def _quotient(symbols: Symbols, expression: Any) -> ir.Value:
    return emit(ew.DivOp, *symbols._floats(expression))


def _rounded(op: type[Op] | None) -> Callable[[Symbols, Any], ir.Value]:
    def build(symbols: Symbols, expression: Any) -> ir.Value:
        (value,) = symbols._floats(expression)
        return cast(value if op is None else emit(op, value), np.int64)

    return build


def _to_float(symbols: Symbols, expression: Any) -> ir.Value:
    return symbols._floats(expression)[0]


def _modulo(symbols: Symbols, expression: Any) -> ir.Value:
    return emit(ew.ModOp, *map(symbols._scalar, expression.args))


def _negated(symbols: Symbols, expression: Any) -> ir.Value:
    return emit(ew.NotOp, symbols._scalar(expression.args[0]))


def _unequal(symbols: Symbols, expression: Any) -> ir.Value:
    return emit(ew.NotOp, emit(ew.EqualOp, *_alike([symbols._scalar(item) for item in expression.args])))


def _function(op: type[Op]) -> Callable[[Symbols, Any], ir.Value]:
    return lambda symbols, expression: emit(op, symbols._floats(expression)[0])


def _modular_indexing(symbols: Symbols, expression: Any) -> ir.Value:
    """base // divisor % modulus, of numbers that are not negative"""
    base, divisor, modulus = map(symbols._scalar, expression.args)
    return emit(ew.ModOp, emit(ew.DivOp, base, divisor), modulus)


def _chosen(symbols: Symbols, expression: Any) -> ir.Value:
    condition, on_true, on_false = map(symbols._scalar, expression.args)
    return emit(ew.SelectOp, condition, *_alike([on_true, on_false]))


_BUILDERS: dict[str, Callable[[Symbols, Any], ir.Value]] = {
    "Add": _chain(ew.AddOp),
    "Mul": _chain(ew.MulOp),
    "Max": _chain(ew.MaximumOp),
    "Min": _chain(ew.MinimumOp),
    "And": _chain(ew.AndOp),
    "Or": _chain(ew.OrOp),
    "Pow": _power,
    "PowByNatural": _power,
    "FloatPow": _power,
    "FloorDiv": _floor_div,
    "CleanDiv": _floor_div,
    "IntTrueDiv": _quotient,
    "FloatTrueDiv": _quotient,
    "Mod": _modulo,
    "PythonMod": _modulo,
    "ModularIndexing": _modular_indexing,
    "CeilToInt": _rounded(ew.CeilOp),
    "FloorToInt": _rounded(ew.FloorOp),
    "RoundToInt": _rounded(ew.RoundOp),
    "TruncToInt": _rounded(None),
    "ToFloat": _to_float,
    "Not": _negated,
    "Unequality": _unequal,
    "Where": _chosen,
    **{f"OpaqueUnaryFn_{name}": _function(op) for name, op in _FUNCTIONS.items()},
}


def like(value: Any, other: ir.Value) -> ir.Value:
    """Returns a number or value as a value of the element type of `other`."""
    if isinstance(value, ir.Value):
        return cast(value, dtype(other))
    return constant(np.array(value).astype(dtype(other)))  # integers wrap around, as in torch
