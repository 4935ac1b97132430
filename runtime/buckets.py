"""Ranges of sizes that vary, and into which buckets they are cut."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .errors import InputError
from .program import TensorInfo
from .sizes import Range, union_of

_RATIO = 4
"""From one bucket to the next the upper bound grows by this, or by more where that makes too many programs."""

_WIDTHS = 1.75
"""The same for the width of images whose height varies, too: rows lie as far apart as the greatest width says, which
costs more than blocks that suit another size."""

_MOST = 6
"""More programs than this are not made unless asked for."""

_MOST_AT_ALL = 256
"""More are not made even then: that would take hours."""

_LEAST = 16
"""Buckets of smaller sizes only are not worth a program."""

Buckets = list[dict[str, Range]]


def parse_dims(
    dims: Mapping[str, Any], inputs: Sequence[TensorInfo], derived: Iterable[str] = ()
) -> tuple[dict[str, Range], Buckets]:
    """The ranges of all sizes, and the buckets that programs are made for.

    Args:
        dims: by name a number, (low, high), (low, high, step), or a list: the upper bounds of buckets, or such tuples.
        inputs: what the model takes; every dimension that varies has to be named.
        derived: but for those that follow from others.

    Raises:
        InputError: a name or a range is wrong, or one is missing.
    """
    names = [name for name in names_of(inputs) if name not in derived]
    require_known(dims, names)
    missing = [name for name in names if name not in dims]
    if missing:
        raise InputError(f"dimension '{missing[0]}' varies, and `dims` do not say how; they name {_listing(dims)}")
    whole = [name for name in names if isinstance(dims[name], tuple)]
    parts = _cut({name: parts_of(name, dims[name]) for name in names}, whole, inputs)
    ranges = {name: union_of(list(several)) for name, several in parts.items()}
    if not any(values.low < values.high for values in ranges.values()):
        return ranges, []
    count = math.prod(map(len, parts.values()))
    if count > _MOST_AT_ALL:
        raise InputError(f"`dims` name {count} programs, one for each bucket of sizes; {_MOST_AT_ALL} are the most")
    return ranges, [dict(zip(names, chosen, strict=True)) for chosen in itertools.product(*parts.values())]


def named_sizes(dims: Mapping[str, Any]) -> list[dict[str, int]]:
    """The sizes that `dims` name one by one, in all combinations; none where a range is among them."""
    each = [[given] if not isinstance(given, list | tuple) else given for given in dims.values()]
    if any(isinstance(item, tuple) for given in each for item in (given, *given)):
        return []
    return [dict(zip(dims, map(int, sizes), strict=True)) for sizes in itertools.product(*each)]


def _cut(parts: dict[str, list[Range]], whole: Sequence[str], inputs: Sequence[TensorInfo]) -> dict[str, list[Range]]:
    """Cuts ranges that are given as a whole into buckets, as a program's tiles and blocks suit its greatest sizes.

    Those that only ever lead (a batch) need less of that: one of them has a program of its own, the others share one.
    Heights need none, as how many rows there are moves no row. Two sizes are too few to tell what depends on them.
    """
    vary = {name for name, several in parts.items() if several[0].low < several[-1].high}
    inner = [[dim for dim in info.shape[1:] if dim in vary] for info in inputs]
    widths = {dims[-1] for dims in inner if len(dims) > 1}
    heights = {dim for dims in inner for dim in dims[:-1]} - {dims[-1] for dims in inner if dims}
    leading = vary - {dim for dims in inner for dim in dims}
    given = math.prod(len(several) for several in parts.values())
    for most in range(_MOST, 0, -1):
        cut = dict(parts)
        for name in whole:
            (values,) = parts[name]
            if values.high - values.low == values.step:
                cut[name] = [Range(values.low, values.low), Range(values.high, values.high)]
            elif name in leading:
                cut[name] = _one_and_more(values)
            elif name not in heights:
                cut[name] = _ladder(values, most, _WIDTHS if name in widths else _RATIO)
        if math.prod(len(several) for several in cut.values()) <= max(given, _MOST):
            return cut
    return parts


def _one_and_more(values: Range) -> list[Range]:
    """1 by itself, and all others of a range."""
    if values.low > 1 or values.high < _LEAST:
        return [values]
    return [Range(1, 1), Range(1 + values.step, values.high, values.step)]


def _ladder(values: Range, most: int, least: float) -> list[Range]:
    """The parts of a range, at most so many: the greatest size of each is `least` times that of the one before or more.

    All are about as many times that of the one before.
    """
    ratio = max(least, (values.high / max(values.low, 1)) ** (1 / most))
    highs = [values.high]
    while len(highs) < most and (high := int(highs[-1] / ratio)) >= max(_LEAST, values.low):
        highs.append(high - (high - values.low) % values.step)
    lows = [values.low, *(high + values.step for high in highs[:0:-1])]
    return [Range(low, high, values.step) for low, high in zip(lows, highs[::-1], strict=True)]


def parts_of(name: str, given: Any) -> list[Range]:
    """The buckets that are said of a dimension, the least sizes first; one where a range is given as a whole.

    Raises:
        InputError: it is no size, range or list of them.
    """
    if isinstance(given, list):
        if not given:
            raise InputError(f"dimension '{name}': a list of buckets must not be empty")
        return _chain([_range(name, item) if isinstance(item, tuple) else _size(name, item) for item in given])
    return [_range(name, given)] if isinstance(given, tuple) else [Range(_size(name, given), _size(name, given))]


def _chain(items: Sequence[Range | int]) -> list[Range]:
    """Upper bounds as ranges that begin behind the one before."""
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
        raise InputError(f"dimension '{name}': the range {given!r} goes from a greater size to a lesser one")
    return Range(low, high - (high - low) % step, step)


def _size(name: str, given: Any) -> int:
    try:
        size = given.__index__()
    except AttributeError:
        raise InputError(f"dimension '{name}': {given!r} is no size, range or list of buckets") from None
    if size < 0:
        raise InputError(f"dimension '{name}': a size must not be negative, but is {size}")
    return size


def names_of(inputs: Sequence[TensorInfo]) -> list[str]:
    """The dimensions that vary, in order."""
    return list(dict.fromkeys(dim for info in inputs for dim in info.shape if isinstance(dim, str)))


def require_known(dims: Iterable[str], names: Sequence[str]) -> None:
    """Checks that there are dimensions of some names.

    Raises:
        InputError: there is none of a name.
    """
    unknown = [name for name in dims if name not in names]
    if unknown:
        raise InputError(f"no dimension is called '{unknown[0]}'; those that vary are {_listing(names)}")


def _listing(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"
