"""Ranges of dynamic dimensions and their division into buckets."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..support.errors import InputError
from .ranges import HasShape, Range, union_of

_RATIO = 4
"""Minimum ratio between the upper bounds of consecutive buckets; larger if it would give too many programs."""

_MAX_PROGRAMS = 6
"""Maximum number of programs that ranges are cut into, unless the user lists more buckets."""

_MAX_LISTED = 256
"""Maximum number of programs for buckets that the user lists: compiling more would take hours."""

_MIN_UPPER_BOUND = 16
"""Smallest upper bound for which a bucket is worth a program."""

Buckets = list[dict[str, Range]]


def parse_dims(
    dims: Mapping[str, Any], inputs: Sequence[HasShape], derived: Iterable[str] = (), is_divided: bool = False
) -> tuple[dict[str, Range], Buckets]:
    """Returns the ranges of all sizes, and the buckets to compile programs for.

    Args:
        dims: by name a number, (low, high), (low, high, step), or a list: the upper bounds of buckets, or such tuples.
        inputs: inputs of the model; every dynamic dimension must be named in `dims` or `derived`.
        derived: dimensions that follow from others.
        is_divided: whether wide ranges are divided into several buckets.

    Raises:
        InputError: a name or a range is wrong, or one is missing.
    """
    names = [name for name in names_of(inputs) if name not in derived]
    require_known(dims, names)
    missing = [name for name in names if name not in dims]
    if missing:
        raise InputError(f"dimension '{missing[0]}' varies, but `dims` gives no size for it; it names {_listing(dims)}")
    parts = {name: parts_of(name, dims[name]) for name in names}
    if is_divided:
        parts = _cut(parts, [name for name in names if isinstance(dims[name], tuple)], inputs)
    ranges = {name: union_of(list(several)) for name, several in parts.items()}
    if not any(values.low < values.high for values in ranges.values()):
        return ranges, []
    count = math.prod(map(len, parts.values()))
    if count > _MAX_LISTED:
        raise InputError(f"`dims` asks for {count} programs, one per bucket of sizes; the maximum is {_MAX_LISTED}")
    return ranges, [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*parts.values())]


def named_sizes(dims: Mapping[str, Any]) -> list[dict[str, int]]:
    """Returns all combinations of the sizes that `dims` lists one by one; empty if `dims` contains a range."""
    each = [[given] if not isinstance(given, list | tuple) else given for given in dims.values()]
    if any(isinstance(item, tuple) for given in each for item in (given, *given)):
        return []
    return [dict(zip(dims, map(int, sizes), strict=True)) for sizes in itertools.product(*each)]


def _cut(parts: dict[str, list[Range]], whole: Sequence[str], inputs: Sequence[HasShape]) -> dict[str, list[Range]]:
    """Divides ranges that are given as a whole into buckets, for machines on which kernels compute all of a bucket.

    A dimension that only ever leads (a batch) needs fewer: size 1 has its own program, all other sizes share one.
    """
    vary = {name for name, several in parts.items() if several[0].low < several[-1].high}
    leading = vary - {dim for info in inputs for dim in info.shape[1:]}
    given = math.prod(len(several) for several in parts.values())
    for most in range(_MAX_PROGRAMS, 0, -1):
        cut = dict(parts)
        for name in whole:
            (values,) = parts[name]
            cut[name] = _one_and_more(values) if name in leading else _ladder(values, most)
        if math.prod(len(several) for several in cut.values()) <= max(given, _MAX_PROGRAMS):
            return cut
    return parts


def _one_and_more(values: Range) -> list[Range]:
    """Splits a range into size 1 and all larger sizes."""
    if values.low > 1 or values.high < _MIN_UPPER_BOUND:
        return [values]
    return [Range(1, 1), Range(1 + values.step, values.high, values.step)]


def _ladder(values: Range, most: int) -> list[Range]:
    """Cuts a range into at most `most` parts, with about the same ratio between all upper bounds."""
    ratio = max(_RATIO, (values.high / max(values.low, 1)) ** (1 / most))
    highs = [values.high]
    while len(highs) < most and (high := int(highs[-1] / ratio)) >= max(_MIN_UPPER_BOUND, values.low):
        highs.append(high - (high - values.low) % values.step)
    lows = [values.low, *(high + values.step for high in highs[:0:-1])]
    return [Range(low, high, values.step) for low, high in zip(lows, highs[::-1], strict=True)]


def parts_of(name: str, given: Any) -> list[Range]:
    """Returns the buckets given for a dimension, in ascending order; one bucket if a range is given as a whole.

    Raises:
        InputError: `given` is not a size, a range or a list of them.
    """
    if isinstance(given, list):
        if not given:
            raise InputError(f"dimension '{name}': a list of buckets must not be empty")
        return _chain([_range(name, item) if isinstance(item, tuple) else _size(name, item) for item in given])
    return [_range(name, given)] if isinstance(given, tuple) else [Range(_size(name, given), _size(name, given))]


def _chain(items: Sequence[Range | int]) -> list[Range]:
    """Turns upper bounds into ranges, each of which begins after the one before."""
    found: list[Range] = []
    for item in sorted(items, key=lambda item: item.high if isinstance(item, Range) else item):
        low = found[-1].high + 1 if found else 1
        found.append(item if isinstance(item, Range) else Range(min(low, item), item))
    return found


def _range(name: str, given: Sequence[Any]) -> Range:
    if len(given) not in (2, 3):
        raise InputError(f"dimension '{name}': a range is (low, high) or (low, high, step), not {given!r}")
    low, high, step = [*(_size(name, item) for item in given), 1][:3]
    if low > high:
        raise InputError(f"dimension '{name}': the range {given!r} starts above its end")
    return Range(low, high - (high - low) % step, step)


def _size(name: str, given: Any) -> int:
    try:
        size = given.__index__()
    except AttributeError:
        raise InputError(f"dimension '{name}': {given!r} is not a size, a range or a list of buckets") from None
    if size < 0:
        raise InputError(f"dimension '{name}': a size must not be negative, but is {size}")
    return size


def names_of(inputs: Sequence[HasShape]) -> list[str]:
    """Returns the dynamic dimensions, in order."""
    return list(dict.fromkeys(dim for info in inputs for dim in info.shape if isinstance(dim, str)))


def require_known(dims: Iterable[str], names: Sequence[str]) -> None:
    """Checks that all names are names of dimensions.

    Raises:
        InputError: a name is not the name of a dimension.
    """
    unknown = [name for name in dims if name not in names]
    if unknown:
        raise InputError(f"no dimension is called '{unknown[0]}'; the dynamic dimensions are {_listing(names)}")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
