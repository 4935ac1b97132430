"""Infers expressions over symbolic sizes from their values at sample sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from ....dialects import dims
from ....dialects.dims import Dim, Symbolic
from ....sizes.algebra import Quotient, Remainder, atoms_of

Ranges = Mapping[str, tuple[int, int, int]]
"""The minimum, maximum and step of each size, by name."""


def at(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The value of a dimension at given sizes; None if it depends on others."""
    bound = dims.bind(dim, sizes)
    return bound if isinstance(bound, int) else None


def corner_sizes(ranges: Ranges) -> Iterator[dict[str, int]]:
    """All combinations of minimum and maximum sizes.

    An expression that is monotonic in each size has its minimum and maximum at two of them.
    """
    for corner in itertools.product(*((low, high) for low, high, _ in ranges.values())):
        yield dict(zip(ranges, corner, strict=True))


def sizes_below(ranges: Ranges) -> Iterator[dict[str, int]]:
    """Samples near the maximum along each size, the others at both ends: for expressions that wrap around."""
    for corner in corner_sizes(ranges):
        for name, (low, high, step) in ranges.items():
            for size in range(high, low - 1, -step)[:_PERIOD]:
                yield {**corner, name: size}


def wraps(dim: Symbolic) -> bool:
    """Returns whether an expression has a remainder, so that it is not monotonic."""
    return any(isinstance(atom, Remainder) for atom in atoms_of(dim))


class Fitter:
    """Finds the expressions over sizes that have given values at the sample sizes.

    A rounded quotient is certain once samples on either side of a step exist. If they do not, their sizes are recorded
    as missing.

    Attributes:
        missing: sizes to sample before the expressions found are certain.
    """

    def __init__(self, samples: Sequence[Mapping[str, int]], ranges: Ranges) -> None:
        """Starts with the sizes themselves as known expressions."""
        self.missing: list[dict[str, int]] = []
        self._samples = [dict(sample) for sample in samples]
        self._ranges = ranges
        self._known: dict[tuple[int, ...], Dim] = {}
        self._certain: set[Dim] = set()
        for name in samples[0]:
            self.learn(dims.symbol(name))

    def values(self, dim: Dim) -> tuple[int | None, ...]:
        """The value of `dim` at each of the sample sizes."""
        return tuple(at(dim, sizes) for sizes in self._samples)

    def learn(self, dim: Dim) -> None:
        """Records an expression in use, as a candidate to build other expressions from."""
        values = self.values(dim)
        if None not in values and len(set(values)) > 1:
            self._known.setdefault(tuple(value for value in values if value is not None), dim)

    def fit(self, values: Sequence[int | None]) -> Dim | None:
        """The expression with these values (None matches any); None if no simple form fits."""
        given = [(sample, value) for sample, value in zip(self._samples, values, strict=True) if value is not None]
        if len(given) < len(values):
            return self._fit_some(given)
        found = self._search(tuple(value for _, value in given))
        if isinstance(found, Symbolic) and found not in self._certain:
            self._certain.add(found)
            self._request_step(found)
        return found

    def _fit_some(self, given: Sequence[tuple[Mapping[str, int], int]]) -> Dim | None:
        if not given:
            return None
        part = Fitter([sample for sample, _ in given], self._ranges)
        for dim in self._known.values():
            part.learn(dim)
        found = part.fit([value for _, value in given])
        self.missing += [sizes for sizes in part.missing if sizes not in (*self._samples, *self.missing)]
        return found

    def _search(self, wanted: tuple[int, ...]) -> Dim | None:
        if len(set(wanted)) == 1:
            return wanted[0]
        if wanted in self._known:
            return self._known[wanted]
        for known, dim in self._known.items():
            candidates = [_linear(known, wanted, dim), _remainder(known, wanted, dim)]
            candidates += [_quotient(known, wanted, dim, count) for count in _FACTORS]
            for found in candidates:
                if found is not None and self.values(found) == wanted:
                    return found
        shared = math.gcd(*wanted)
        if shared > 1:
            part = self._search(tuple(value // shared for value in wanted))
            return None if part is None else part * shared
        return self._product(wanted)

    def _product(self, wanted: tuple[int, ...]) -> Dim | None:
        entries = list(self._known.items())
        for position, (first, left) in enumerate(entries):
            for second, right in entries[position:]:
                values = tuple(a * b for a, b in zip(first, second, strict=True))
                found = _linear(values, wanted, left * right)
                if found is not None and self.values(found) == wanted:
                    return found
        return None

    def _request_step(self, dim: Symbolic) -> None:
        """Records as missing the sizes on either side of a step of `dim`, for each size that it rounds."""
        if not _rounds(dim):
            return
        for name, (low, _, step) in self._ranges.items():
            if any(self._is_step(dim, sample, other, name) for sample in self._samples for other in self._samples):
                continue
            for sizes in self._samples:
                down = range(sizes[name], low, -step)
                sides = next(
                    (
                        (size, size - step)
                        for size in down[:_MAX_SEARCH]
                        if at(dim, {**sizes, name: size}) != at(dim, {**sizes, name: size - step})
                    ),
                    None,
                )
                if sides is not None:
                    self.missing += [
                        item for size in sides if (item := {**sizes, name: size}) not in (*self._samples, *self.missing)
                    ]
                    break

    def look_at_the_least(self, dim: Dim) -> None:
        """Records some of the smallest sizes as missing if an expression rounds: a cropped slice may look alike."""
        if not isinstance(dim, Symbolic) or not _rounds(dim):
            return
        here = self._samples[0]
        for name, (low, high, step) in self._ranges.items():
            sizes = [
                {**here, name: size} for size in range(low + step, min(high, low + _CROP_SAMPLES * step) + 1, step)
            ]
            if sizes and at(dim, sizes[0]) != at(dim, here):
                seen = {sample[name] for sample in (*self._samples, *self.missing)}
                self.missing += [item for item in sizes if item[name] not in seen]

    def _is_step(self, dim: Symbolic, first: Mapping[str, int], second: Mapping[str, int], name: str) -> bool:
        step = self._ranges[name][2]
        if {**first, name: 0} != {**second, name: 0} or first[name] - second[name] != step:
            return False
        return at(dim, first) != at(dim, second)


_CROP_SAMPLES = 3
"""Number of sizes above the minimum to sample, which shows whether a slice is cropped."""

_PERIOD = 128
"""Number of steps within which a remainder is assumed to take all its values."""

_MAX_SEARCH = 4096
"""Maximum number of sizes to search for a step of an expression."""


def _rounds(dim: Symbolic) -> bool:
    """Returns whether an expression contains a rounded quotient or a remainder."""
    return any(isinstance(atom, Quotient | Remainder) for atom in atoms_of(dim))


def _linear(known: Sequence[int], wanted: Sequence[int], dim: Dim) -> Dim | None:
    """`dim * factor + offset` through the two samples that are farthest apart."""
    (first, least), (last, most) = min(zip(known, wanted, strict=True)), max(zip(known, wanted, strict=True))
    if first == last or most == least or (most - least) % (last - first):
        return None
    factor = (most - least) // (last - first)
    return dim * factor + (least - first * factor)


def _quotient(known: Sequence[int], wanted: Sequence[int], dim: Dim, count: int) -> Dim | None:
    """`(dim * count + offset) // divisor` with the smallest divisor that fits, and the offset closest to 0."""
    known = [value * count for value in known]
    (first, least), (last, most) = min(zip(known, wanted, strict=True)), max(zip(known, wanted, strict=True))
    if most <= least:
        return None
    # Rounding changes either end by less than one.
    fewest = max(2, -(-(last - first) // (most - least + 1)))
    most_likely = (last - first) // max(1, most - least - 1)
    for divisor in range(fewest, min(most_likely, fewest + _DIVISORS) + 1):
        lowest = max(b * divisor - a for a, b in zip(known, wanted, strict=True))
        highest = min(b * divisor - a + divisor - 1 for a, b in zip(known, wanted, strict=True))
        if lowest <= highest:
            return (dim * count + min(max(0, lowest), highest)) // divisor
    return None


def _remainder(known: Sequence[int], wanted: Sequence[int], dim: Dim) -> Dim | None:
    """The remainder of a size, or its distance to the next multiple, for the smallest divisor that fits."""
    if min(wanted) < 0:
        return None
    for divisor in range(max(wanted) + 1, max(wanted) + _DIVISORS):
        if all((b - a) % divisor == (wanted[0] - known[0]) % divisor for a, b in zip(known, wanted, strict=True)):
            return (dim + (wanted[0] - known[0]) % divisor) % divisor
        if all((b + a) % divisor == (wanted[0] + known[0]) % divisor for a, b in zip(known, wanted, strict=True)):
            return (dim * -1 + (wanted[0] + known[0]) % divisor) % divisor
    return None


_DIVISORS = 64

_FACTORS = (1, 2, 3, 5, 7)
"""Factors to multiply a size by before division."""
