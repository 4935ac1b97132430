"""Expressions over sizes that are not known at compile time, in a normal form: equal expressions compare equal.

An expression is a sum of products of whole numbers, named sizes, rounded quotients, remainders, minima and maxima:

    n + 3 * m - 2          (n + 1) // 2          n * m          min(n, 512)          n % 8

An expression without any size is an `int`. Operators simplify exactly, by rules that hold for whole numbers of either
sign: `(4 * n + 6) // 2` is `2 * n + 3`, and `n // 2 // 2` is `n // 4`. `bounds` gives the interval of an expression for
sizes in ranges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ..support.errors import StepwellError
from . import intervals
from .assumptions import assumed
from .intervals import Interval


class UndecidedError(StepwellError, ValueError):
    """A question about sizes has different answers for different sizes."""


@dataclass(frozen=True, slots=True)
class Size:
    """A named size."""

    name: str


@dataclass(frozen=True, slots=True)
class Quotient:
    """`numerator // divisor`, rounded down; the divisor may not be 0."""

    numerator: Dimension
    divisor: Dimension


@dataclass(frozen=True, slots=True)
class Remainder:
    """`numerator mod divisor`, with the sign of the divisor."""

    numerator: Dimension
    divisor: Dimension


@dataclass(frozen=True, slots=True)
class Extremum:
    """The least or the greatest of several expressions, which are in order of their texts."""

    is_least: bool
    items: tuple[Dimension, ...]


Atom: TypeAlias = Size | Quotient | Remainder | Extremum
Product: TypeAlias = tuple[Atom, ...]
"""The atoms of a product, in the order of their texts; empty for the number 1."""


@dataclass(frozen=True, slots=True)
class Symbolic:
    """An expression over sizes.

    Attributes:
        terms: products with their factors, none of which is 0, in the order of the products' texts.
    """

    terms: tuple[tuple[Product, int], ...]

    def __add__(self, other: Dimension) -> Dimension:
        return _sum([*self.terms, *terms_of(other)])

    __radd__ = __add__

    def __neg__(self) -> Dimension:
        return self * -1

    def __sub__(self, other: Dimension) -> Dimension:
        return self + other * -1

    def __rsub__(self, other: Dimension) -> Dimension:
        return self * -1 + other

    def __mul__(self, other: Dimension) -> Dimension:
        pairs = ((left, right) for left in self.terms for right in terms_of(other))
        return _sum([(_ordered((*a, *b)), x * y) for (a, x), (b, y) in pairs])

    __rmul__ = __mul__

    def __floordiv__(self, other: Dimension) -> Dimension:
        return floor_div(self, other)

    def __rfloordiv__(self, other: Dimension) -> Dimension:
        return floor_div(other, self)

    def __mod__(self, other: Dimension) -> Dimension:
        return remainder(self, other)

    def __rmod__(self, other: Dimension) -> Dimension:
        return remainder(other, self)

    def __lt__(self, other: Dimension) -> bool:
        return _is_negative(self - other, f"{self} < {other}")

    def __gt__(self, other: Dimension) -> bool:
        return _is_negative(other - self, f"{self} > {other}")

    def __le__(self, other: Dimension) -> bool:
        return not _is_negative(other - self, f"{self} <= {other}")

    def __ge__(self, other: Dimension) -> bool:
        return not _is_negative(self - other, f"{self} >= {other}")

    def __index__(self) -> int:
        raise UndecidedError(f"{self} is not a number")

    __int__ = __float__ = __index__

    def __str__(self) -> str:
        text, terms = _text_of_sum(self), list(_as_written(self))
        is_division = len(terms) == 1 and terms[0][1] == 1 and isinstance(terms[0][0][0], Quotient | Remainder)
        return text[1:-1] if is_division and len(terms[0][0]) == 1 else text

    __repr__ = __str__


Dimension: TypeAlias = int | Symbolic


def size(name: str) -> Symbolic:
    """Returns the size of a name; the same name always denotes the same size."""
    return of_atom(Size(name))


def floor_div(numerator: Dimension, divisor: Dimension) -> Dimension:
    """Returns `numerator // divisor`, rounded down.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if isinstance(numerator, int) and isinstance(divisor, int):
        return numerator // divisor
    if divisor == 0:
        raise ZeroDivisionError("a size is divided by 0")
    if isinstance(divisor, int) and divisor < 0:
        return floor_div(numerator * -1, -divisor)
    whole, rest = _divided(numerator, divisor)
    if rest == 0 or (isinstance(rest, int) and isinstance(divisor, int)):
        return whole + (rest // divisor if isinstance(divisor, int) else 0)
    if isinstance(divisor, int):  # (g * n + k) // (g * d) = (n + k // g) // d
        common = _common_factor(rest, divisor)
        if common > 1:
            return whole + floor_div(_reduced(rest, common), divisor // common)
        inner = _inner_quotient(rest)
        if inner is not None:  # (n // c + m) // d = (n + c * m) // (c * d)
            quotient, others, by = inner
            return whole + floor_div(quotient.numerator + others * by, by * divisor)
    return whole + of_atom(Quotient(rest, divisor))


def ceil_div(numerator: Dimension, divisor: Dimension) -> Dimension:
    """Returns `numerator / divisor`, rounded up.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if isinstance(divisor, int):
        return floor_div(numerator + (divisor - 1 if divisor > 0 else divisor + 1), divisor)
    return floor_div(numerator * -1, divisor) * -1


def remainder(numerator: Dimension, divisor: Dimension) -> Dimension:
    """Returns the remainder of a division rounded down, which has the sign of the divisor.

    Raises:
        ZeroDivisionError: the divisor is 0.
    """
    if isinstance(numerator, int) and isinstance(divisor, int):
        return numerator % divisor
    if divisor == 0:
        raise ZeroDivisionError("the remainder of a division by 0")
    rest = _divided(numerator, divisor)[1]
    if isinstance(rest, int) and isinstance(divisor, int):
        return rest % divisor
    if isinstance(divisor, int) and divisor > 0:
        # Factors count modulo the divisor, so that equal remainders are equal expressions.
        rest = _sum([(product, factor % divisor) for product, factor in terms_of(rest)])
        if isinstance(rest, int):
            return rest % divisor
        common = _common_factor(rest, divisor)
        if common > 1:  # (g * n + k) mod (g * d) = (n + k // g) mod d * g + k mod g
            offset = dict(rest.terms).get((), 0) % common
            return remainder(_reduced(rest, common), divisor // common) * common + offset
    return 0 if rest == 0 else of_atom(Remainder(rest, divisor))


def bounds(dim: Dimension, ranges: Mapping[str, Interval]) -> Interval:
    """Returns an interval that contains all values of an expression.

    Args:
        dim: the expression.
        ranges: least and greatest value of sizes by name; others have the limits of `assumptions.py`.
    """
    found: Interval = (0, 0)
    for product, factor in terms_of(dim):
        interval: Interval = (factor, factor)
        for atom in dict.fromkeys(product):
            power = intervals.power(_bounds_of_atom(atom, ranges), product.count(atom))
            interval = intervals.times(interval, power)
        found = intervals.plus(found, interval)
    for product, factor in terms_of(dim):
        match product:
            case (Quotient(numerator, int(divisor)) as quotient,) if divisor > 0 and len(terms_of(dim)) > 1:
                # The other terms may depend on it: divisor * quotient is the numerator less 0 to divisor - 1.
                others = (dim - of_atom(quotient) * factor) * divisor
                less = intervals.times((0, divisor - 1), (-factor, -factor))
                multiple = intervals.plus(bounds(others + numerator * factor, ranges), less)
                found = intervals.both(found, intervals.divided(multiple, divisor))
            case (Remainder(numerator, int(divisor)) as rest,):  # n - n % 4 is 4 * (n // 4)
                others = dim - of_atom(rest) * factor
                whole = others + numerator * factor
                if len(terms_of(whole)) < len(terms_of(others)):
                    same = whole - floor_div(numerator, divisor) * divisor * factor
                    found = intervals.both(found, bounds(same, ranges))
    return found


def _is_negative(dim: Dimension, question: str) -> bool:
    """Returns whether an expression is negative, which must not depend on the sizes.

    Raises:
        UndecidedError: it is negative for some sizes only, as far as its bounds tell.
    """
    low, high = bounds(dim, {})
    if high is not None and high < 0:
        return True
    if low is not None and low >= 0:
        return False
    raise UndecidedError(f"whether {question} depends on the sizes")


def _sum(terms: Iterable[tuple[Product, int]]) -> Dimension:
    found: dict[Product, int] = {}
    for product, factor in terms:
        found[product] = found.get(product, 0) + factor
    kept = {product: factor for product, factor in found.items() if factor}
    if not set(kept) - {()}:
        return kept.get((), 0)
    return Symbolic(tuple(sorted(kept.items(), key=lambda term: _key_of(term[0]))))


def terms_of(dim: Dimension) -> tuple[tuple[Product, int], ...]:
    """Returns the products that an expression is the sum of, each with its factor."""
    if isinstance(dim, Symbolic):
        return dim.terms
    return (((), int(dim)),) if dim else ()


def of_atom(atom: Atom) -> Symbolic:
    """Returns an atom as an expression."""
    return Symbolic((((atom,), 1),))


def _ordered(product: Product) -> Product:
    return tuple(sorted(product, key=_text_of_atom))


def _key_of(product: Product) -> tuple[bool, int, list[str]]:
    """The order of terms: products of more sizes first, the number last."""
    return not product, -len(product), [_text_of_atom(atom) for atom in product]


def _divided(numerator: Dimension, divisor: Dimension) -> tuple[Dimension, Dimension]:
    """Returns a whole quotient and the rest, such that numerator = quotient * divisor + rest."""
    if len(terms_of(divisor)) > 1:
        factor = _multiple(numerator, divisor)
        return (0, numerator) if factor is None else (factor, 0)
    ((product, scale),) = terms_of(divisor)
    whole: list[tuple[Product, int]] = []
    rest: list[tuple[Product, int]] = []
    for atoms, factor in terms_of(numerator):
        left = _without(atoms, product)
        if left is None:
            rest.append((atoms, factor))
            continue
        # For a divisor with sizes, only exact multiples are taken out; for a number, the rest is less than the divisor.
        times, over = divmod(factor, scale)
        if over and product:
            rest.append((atoms, factor))
            continue
        if times:
            whole.append((left, times))
        if over:
            rest.append((atoms, over))
    return _sum(whole), _sum(rest)


def _common_factor(dim: Dimension, divisor: int) -> int:
    """Returns the greatest number that divides a divisor and the factors of all sizes in an expression."""
    return math.gcd(divisor, *(factor for product, factor in terms_of(dim) if product))


def _reduced(dim: Dimension, common: int) -> Dimension:
    """Returns an expression divided by a common factor, the number in it rounded down."""
    return _sum([(product, factor // common) for product, factor in terms_of(dim)])


def _multiple(numerator: Dimension, divisor: Dimension) -> int | None:
    """Returns the number whose product with a divisor of several terms is the numerator; None if there is none."""
    first, scale = terms_of(divisor)[0]
    factor = dict(terms_of(numerator)).get(first, 0) // scale
    return factor if factor and divisor * factor == numerator else None


def _without(product: Product, part: Product) -> Product | None:
    """Returns a product divided by another one; None if the other one is not a factor of it."""
    left = list(product)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def _inner_quotient(dim: Dimension) -> tuple[Quotient, Dimension, int] | None:
    """Returns the only quotient by a number in a sum, the other terms, and the number; None unless there is one."""
    atoms = [product[0] for product, factor in terms_of(dim) if factor == 1 and len(product) == 1]
    found = [(atom, atom.divisor) for atom in atoms if isinstance(atom, Quotient) and isinstance(atom.divisor, int)]
    if len(found) != 1:
        return None
    quotient, divisor = found[0]
    return quotient, dim - of_atom(quotient), divisor


def _bounds_of_atom(atom: Atom, ranges: Mapping[str, Interval]) -> Interval:
    match atom:
        case Size(name):
            return ranges[name] if name in ranges else assumed(name)
        case Extremum(is_least, items):
            ends = [bounds(item, ranges) for item in items]
            return intervals.chosen(is_least, [low for low, _ in ends], [high for _, high in ends])
        case Quotient(numerator, divisor):
            return intervals.quotient(bounds(numerator, ranges), bounds(divisor, ranges))
        case Remainder(numerator, divisor):
            return intervals.remainder(bounds(numerator, ranges), bounds(divisor, ranges))


def _text_of_sum(dim: Symbolic) -> str:
    text = ""
    for product, factor in _as_written(dim):
        part = _text_of_product(product, abs(factor))
        if text:
            text += f" {'-' if factor < 0 else '+'} {part}"
        else:
            text = part if factor > 0 else _text_of_product(product, factor)
    return text


def _as_written(dim: Symbolic) -> Iterable[tuple[Product, int]]:
    """Returns the terms with a number beside a quotient moved into it: (n + 1) // 2 - 1 --> (n - 1) // 2."""
    inner, offset = _inner_quotient(dim), dict(dim.terms).get((), 0)
    if inner is None or not offset:
        return dim.terms
    quotient, _, divisor = inner
    whole = Quotient(quotient.numerator + offset * divisor, divisor)
    return [((whole,) if product == (quotient,) else product, factor) for product, factor in dim.terms if product]


def _text_of_product(product: Product, factor: int) -> str:
    parts = [_text_of_atom(atom) for atom in product]
    return " * ".join([*([str(factor)] if factor != 1 or not parts else []), *parts])


def _text_of_atom(atom: Atom) -> str:
    match atom:
        case Size(name):
            return name
        case Quotient(numerator, divisor):
            return f"({_operand(numerator)} // {_operand(divisor)})"
        case Remainder(numerator, divisor):
            return f"({_operand(numerator)} % {_operand(divisor)})"
        case Extremum(is_least, items):
            return f"{'min' if is_least else 'max'}({', '.join(map(str, items))})"


def _operand(dim: Dimension) -> str:
    if isinstance(dim, int):
        return str(dim)
    return _text_of_sum(dim) if is_atom(dim) else f"({dim})"


def is_atom(dim: Symbolic) -> bool:
    """Returns whether an expression is a single atom."""
    return len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1
