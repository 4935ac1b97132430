"""Substitution of the sizes in an expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .algebra import Atom, Dimension, Extremum, Quotient, Remainder, Size, floor_div, of_atom, remainder, terms_of
from .extrema import extremum


def bound(dim: Dimension, values: Mapping[str, Dimension]) -> Dimension:
    """Returns an expression with some sizes, by name, replaced by numbers or other expressions.

    The result is simplified by the assumed limits of the other sizes; see `assumptions.py`.
    """
    if isinstance(dim, int):
        return dim
    total: Dimension = 0
    for product, factor in dim.terms:
        value: Dimension = factor
        for atom in product:
            value = value * _bound_atom(atom, values)
        total = total + value
    return total


def names_of(dim: Dimension) -> frozenset[str]:
    """Returns the names of the sizes in an expression."""
    return frozenset(atom.name for atom in atoms_of(dim) if isinstance(atom, Size))


def atoms_of(dim: Dimension) -> Iterable[Atom]:
    """Yields the atoms of an expression, and those inside of them."""
    for product, _ in terms_of(dim):
        for atom in product:
            yield atom
            for part in _parts(atom):
                yield from atoms_of(part)


def _parts(atom: Atom) -> tuple[Dimension, ...]:
    match atom:
        case Quotient(numerator, divisor) | Remainder(numerator, divisor):
            return numerator, divisor
        case Extremum(_, items):
            return items
    return ()


def _bound_atom(atom: Atom, values: Mapping[str, Dimension]) -> Dimension:
    match atom:
        case Size(name):
            return values.get(name, of_atom(atom))
        case Quotient(numerator, divisor):
            return floor_div(bound(numerator, values), bound(divisor, values))
        case Remainder(numerator, divisor):
            return remainder(bound(numerator, values), bound(divisor, values))
        case Extremum(is_least, items):
            return extremum([bound(item, values) for item in items], is_least)
