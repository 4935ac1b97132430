"""Comparisons of expressions over sizes: minima, maxima, and whether one is less than another for all sizes."""

from __future__ import annotations

from collections.abc import Iterable

from .algebra import Dimension, Extremum, Symbolic, bounds, is_atom, of_atom


def least(items: Iterable[Dimension]) -> Dimension:
    """Returns the least of some expressions."""
    return extremum(list(items), True)


def greatest(items: Iterable[Dimension]) -> Dimension:
    """Returns the greatest of some expressions."""
    return extremum(list(items), False)


def extremum(items: list[Dimension], is_least: bool) -> Dimension:
    """Returns the least or the greatest of some expressions."""
    flat: list[Dimension] = []
    for item in items:
        inner = _only_extremum(item)
        flat += inner.items if inner is not None and inner.is_least == is_least else [item]
    numbers = [item for item in flat if isinstance(item, int)]
    others = list(dict.fromkeys(item for item in flat if not isinstance(item, int)))
    kept: list[Dimension] = [*others, *([min(numbers) if is_least else max(numbers)] if numbers else [])]
    kept = [
        item
        for place, item in enumerate(kept)
        if not any(
            _is_beyond(item, other, is_least) and (place > number or not _is_beyond(other, item, is_least))
            for number, other in enumerate(kept)
            if number != place
        )
    ]
    if len(kept) == 1:
        return kept[0]
    return of_atom(Extremum(is_least, tuple(sorted(kept, key=str))))


def _only_extremum(dim: Dimension) -> Extremum | None:
    if isinstance(dim, Symbolic) and is_atom(dim):
        atom = dim.terms[0][0][0]
        return atom if isinstance(atom, Extremum) else None
    return None


def _is_beyond(item: Dimension, other: Dimension, is_least: bool) -> bool:
    """Returns whether another item is at most (or at least) an item at all sizes, which is then not needed."""
    low, high = bounds(item - other if isinstance(item, Symbolic) else item + other * -1, {})
    return low is not None and low >= 0 if is_least else high is not None and high <= 0


def is_surely_less(left: Dimension, right: Dimension) -> bool:
    """Returns whether an expression is less than another for all sizes, as far as their bounds tell."""
    high = bounds(left + right * -1, {})[1]
    return high is not None and high < 0
