"""What a user says of sizes that vary, in texts and in `dims`; and which dimensions follow from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .buckets import names_of, parts_of, require_known
from .errors import InputError
from .expressions import Expression, evaluate, names_in, parse_expression, substitute
from .program import TensorInfo
from .short_repr import short_repr

_ENDS = ((0, "low"), (-1, "high"))
_MOST_DIGITS = 19

Dims = dict[str, int | tuple[int, ...] | list[int] | str]
"""What a user says of sizes that vary, by the names of dimensions; a text is another dimension, or a sum of such."""


def read_dims(texts: Iterable[str]) -> Dims:
    """What a user writes of sizes that vary: `n=3`, `n=1:64`, `n=32:960:32`, `n=16/64/256`, `m=n+1`; or several.

    Raises:
        InputError: it is none of these.
    """
    found: Dims = {}
    for item in (part for text in texts for part in text.split(",")):
        name, equals, sizes = item.rpartition("=")
        if not equals or not name:
            raise InputError(f"{item}: write it as name=1:64")
        bounds, buckets = sizes.split(":"), sizes.split("/")
        if sizes[:1].isalpha() or sizes[:1] == "_":
            found[name] = sizes
        elif len(buckets) > 1:
            found[name] = list(read_sizes(buckets, item))
        elif len(bounds) > 1:
            found[name] = read_sizes(bounds, item)
        else:
            (found[name],) = read_sizes(bounds, item)
    return found


def read_sizes(parts: Sequence[str], where: str) -> tuple[int, ...]:
    """The numbers that some texts are, of elements along dimensions; `where` is what errors begin with.

    Raises:
        InputError: one is none.
    """
    odd = [part for part in parts if not part.isdecimal() or len(part) > _MOST_DIGITS]
    if odd:
        raise InputError(f"{where}: '{odd[0]}' is not the size of a dimension")
    return tuple(int(part) for part in parts)


@short_repr
@dataclass(frozen=True)
class Resolved:
    """What a user says of sizes, once it is known which dimensions follow from others.

    Attributes:
        dims: what is said of those that do not.
        inputs: what the model takes; a dimension that is always as large as another one has its name.
        derived: the dimensions that follow, as expressions over the others.
    """

    dims: Mapping[str, Any]
    inputs: tuple[TensorInfo, ...]
    derived: Mapping[str, Expression]


def resolve_dims(dims: Mapping[str, Any], inputs: Sequence[TensorInfo]) -> Resolved:
    """Tells which dimensions follow from others: as a user says (`{"m": "n", "t": "m + 1"}`), or by their names.

    Exporters call the length of a mask "past_length + length" where there are dimensions of these names.

    Raises:
        InputError: what they follow from is no dimension, follows from them in turn, or does not fit what is said.
    """
    names = names_of(inputs)
    require_known(dims, names)
    said = {name: name for name in names if dims and is_expression(name, names)}
    said |= {name: given for name, given in dims.items() if isinstance(given, str)}
    found = {name: _followed(name, said, names, ()) for name in said}
    same: dict[Any, str] = {name: other for name, other in found.items() if isinstance(other, str)}
    rest = {name: given for name, given in dims.items() if name not in said}
    for name, given in dims.items():
        if name in said and not isinstance(given, str):
            _require_room(name, found[name], given, rest)
    renamed = tuple(replace(info, shape=tuple(same.get(dim, dim) for dim in info.shape)) for info in inputs)
    return Resolved(rest, renamed, {name: item for name, item in found.items() if name not in same})


def is_expression(name: str, names: Sequence[str]) -> bool:
    """Whether a name is an expression over other names."""
    try:
        found = parse_expression(name)
    except ValueError:
        return False
    return isinstance(found, list) and set() < set(names_in(found)) <= set(names)


def _followed(name: str, said: Mapping[str, str], names: Sequence[str], seen: tuple[str, ...]) -> Expression:
    """What a dimension is, over those that follow from no others."""
    if name in seen:
        raise InputError(f"dimension '{name}' follows from itself; say what sizes it has")
    text = said[name]
    try:
        found = text if text in names and text != name else parse_expression(text)
    except ValueError as error:
        raise InputError(f"dimension '{name}': {error}") from error
    require_known(names_in(found), names)
    inner = {other: _followed(other, said, names, (*seen, name)) for other in names_in(found) if other in said}
    return substitute(found, inner)


def _require_room(name: str, follows: Expression, given: Any, dims: Mapping[str, Any]) -> None:
    """Checks that a range that is given all the same holds all sizes that follow.

    Raises:
        InputError: it does not.
    """
    room, parts = parts_of(name, given), {other: parts_of(other, sizes) for other, sizes in dims.items()}
    if not set(names_in(follows)) <= parts.keys():
        return  # which is an error of its own
    ends = [{other: getattr(several[place], end) for other, several in parts.items()} for place, end in _ENDS]
    low, high = (evaluate(follows, sizes) for sizes in ends)
    if low < room[0].low or high > room[-1].high:
        raise InputError(
            f"dimension '{name}' follows from others, and goes from {low} to {high}, which {given!r} does not hold: "
            "leave it out"
        )
