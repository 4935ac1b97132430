"""The ranges of sizes that vary from call to call."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from ..support.errors import InputError


class HasShape(Protocol):
    """A dataclass that describes a tensor."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """The extent of each dimension: a number, or the name of a size."""
        ...


@dataclass(frozen=True)
class Range:
    """The values that a size may have: from `low` to `high` in steps of `step`."""

    low: int
    high: int
    step: int = 1

    def __contains__(self, size: int) -> bool:
        return self.low <= size <= self.high and (size - self.low) % self.step == 0

    def __str__(self) -> str:
        if self.low == self.high:
            return str(self.low)
        return f"{self.low} to {self.high}" + (f" in steps of {self.step}" if self.step > 1 else "")


def sizes_of(inputs: Sequence[HasShape], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    """Returns the value of each size, given shapes that match the declared ones."""
    return {
        name: size
        for info, shape in zip(inputs, shapes, strict=True)
        for name, size in zip(info.shape, shape, strict=True)
        if isinstance(name, str)
    }


def check_ranges(ranges: Mapping[str, Range], sizes: Mapping[str, int]) -> None:
    """Checks sizes against the ranges that a model was compiled for.

    Raises:
        InputError: a size is out of its range.
    """
    for name, values in ranges.items():
        if sizes[name] not in values:
            low, high = wide = widened(values, sizes[name])
            raise InputError(
                f"dimension '{name}' is {sizes[name]}, but the model was compiled for {values}; compile it with "
                f"a range that contains it: {name!r}: {wide} in `dims`, or --dims {shlex.quote(f'{name}={low}:{high}')}"
            )


def widened(values: Range, size: int) -> tuple[int, int]:
    """Returns the bounds of a range that contains a size and the values of another range."""
    return min(values.low, size), values.high if size <= values.high else power_above(size)


def power_above(size: int) -> int:
    """Returns the smallest power of two that is not less than a size, but at least 2."""
    return 1 << max(size - 1, 1).bit_length()


def union_of(ranges: Sequence[Range]) -> Range:
    """Returns the smallest range that contains the given ones."""
    first = ranges[0]
    gaps = [number for item in ranges for number in (item.step if item.low < item.high else 0, item.low - first.low)]
    return Range(min(item.low for item in ranges), max(item.high for item in ranges), math.gcd(*gaps) or 1)


INTERVALS = 4
"""Number of intervals between the representative sizes of a range, for which tiles are chosen."""


def typical_sizes(ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """Returns representative sizes from the lower to the upper bounds, for which tiles are chosen."""
    found: list[dict[str, int]] = []
    for number in range(INTERVALS + 1):
        sizes = {}
        for name, values in ranges.items():
            count = (values.high - values.low) // values.step
            sizes[name] = values.low + count * number // INTERVALS * values.step
        if sizes not in found:
            found.append(sizes)
    return found


LEAST_SIZES, SPREAD_SIZES = 12, 28
"""Number of least sizes, and of all sizes, that `spread_sizes` takes of each dimension."""

MOST_COMBINATIONS = 1 << 16
"""Maximum number of combinations that `spread_sizes` returns: more than all of three dimensions, 28 * 28 * 28."""


def spread_sizes(ranges: Mapping[str, Range]) -> dict[str, np.ndarray]:
    """Returns sizes across ranges, by name: the least ones, and increasingly sparse ones beyond, combined.

    Their combinations multiply with each dimension; of too many, it takes the least, the greatest and random ones.
    """
    along = []
    for values in ranges.values():
        count = (values.high - values.low) // values.step
        steps = {*range(min(count, LEAST_SIZES) + 1), count}
        if count > LEAST_SIZES:
            steps |= {round(item) for item in np.geomspace(LEAST_SIZES, count, SPREAD_SIZES - LEAST_SIZES)}
        along.append(np.array([values.low + number * values.step for number in sorted(steps)]))
    if math.prod(map(len, along)) > MOST_COMBINATIONS:
        draw = np.random.default_rng(0)  # the same in each compile
        drawn = [sizes[draw.integers(len(sizes), size=MOST_COMBINATIONS - 2)] for sizes in along]
        ends = [(sizes[0], sizes[-1]) for sizes in along]
        return {name: np.concatenate(parts) for name, parts in zip(ranges, zip(ends, drawn, strict=True), strict=True)}
    grid = np.meshgrid(*along, indexing="ij")
    return {name: sizes.reshape(-1) for name, sizes in zip(ranges, grid, strict=True)}
