"""The user's `dims` option, as a mapping or as texts, and dimensions that follow from others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from ..support.errors import InputError
from ..support.short_repr import short_repr
from ..support.whole_numbers import is_whole
from .buckets import names_of, parse_dims, parts_of, require_known
from .expressions import Expression, evaluate, names_in, parse_expression, substitute
from .ranges import HasShape, Range

_ENDS = ((0, "low"), (-1, "high"))

_Tensor = TypeVar("_Tensor", bound=HasShape)

Dims = dict[str, int | tuple[int, ...] | list[int] | list[tuple[int, ...]] | str]
"""The sizes a user gives, by dimension name; a text is another dimension or an expression over dimensions."""


def read_dims(texts: Iterable[str]) -> Dims:
    """Parses sizes of dynamic dimensions: `n=3`, `n=1:64`, `n=32:960:32`, `n=16/64/256`, `m=n+1`; or several.

    Raises:
        InputError: a text has none of these forms.
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
    """Parses sizes of dimensions; `where` is the prefix of error messages.

    Raises:
        InputError: a text is not a size.
    """
    invalid = [part for part in parts if not is_whole(part)]
    if invalid:
        raise InputError(f"{where}: '{invalid[0]}' is not the size of a dimension")
    return tuple(int(part) for part in parts)


@short_repr
@dataclass(frozen=True)
class Resolved(Generic[_Tensor]):
    """The user's sizes, with derived dimensions resolved.

    Attributes:
        dims: the sizes given for dimensions that do not follow from others.
        inputs: the model's inputs; a dimension that always equals another one has its name.
        derived: the dimensions that follow from others, as expressions over them.
    """

    dims: Mapping[str, Any]
    inputs: tuple[_Tensor, ...]
    derived: Mapping[str, Expression]


def one_by_one(dims: Mapping[str, Any], inputs: Sequence[HasShape], is_divided: bool) -> list[dict[str, Any]]:
    """Returns a separate option for each bucket of sizes; the option itself if no size varies.

    Raises:
        InputError: see `resolve_dims` and `parse_dims`.
    """
    resolved = resolve_dims(dims, inputs)
    _, buckets = parse_dims(resolved.dims, resolved.inputs, resolved.derived, is_divided)
    derived = {name: given for name, given in dims.items() if isinstance(given, str)}
    return [{**{name: _alone(values) for name, values in bucket.items()}, **derived} for bucket in buckets] or [
        dict(dims)
    ]


def _alone(values: Range) -> int | list[tuple[int, int, int]]:
    return values.low if values.low == values.high else [(values.low, values.high, values.step)]


def resolve_dims(dims: Mapping[str, Any], inputs: Sequence[_Tensor]) -> Resolved[_Tensor]:
    """Finds dimensions that follow from others: declared by the user (`{"m": "n", "t": "m + 1"}`) or by their names.

    Exporters name a mask's length "past_length + length" if there are dimensions of these names.

    Raises:
        InputError: a dimension follows from an unknown one or from itself, or does not fit the given sizes.
    """
    names = names_of(inputs)
    require_known(dims, names)
    declared = {name: name for name in names if dims and is_expression(name, names)}
    declared |= {name: given for name, given in dims.items() if isinstance(given, str)}
    found = {name: _expanded(name, declared, names, ()) for name in declared}
    same: dict[Any, str] = {name: other for name, other in found.items() if isinstance(other, str)}
    rest = {name: given for name, given in dims.items() if name not in declared}
    for name, given in dims.items():
        if name in declared and not isinstance(given, str):
            _require_contains(name, found[name], given, rest)
    renamed = tuple(replace(info, shape=tuple(same.get(dim, dim) for dim in info.shape)) for info in inputs)
    return Resolved(rest, renamed, {name: item for name, item in found.items() if name not in same})


def is_expression(name: str, names: Sequence[str]) -> bool:
    """Returns whether a name is an expression over other names."""
    try:
        found = parse_expression(name)
    except ValueError:
        return False
    return isinstance(found, list) and set() < set(names_in(found)) <= set(names)


def _expanded(name: str, declared: Mapping[str, str], names: Sequence[str], seen: tuple[str, ...]) -> Expression:
    """Returns the expression of a dimension over those that do not follow from others."""
    if name in seen:
        raise InputError(f"dimension '{name}' follows from itself; give its sizes instead")
    text = declared[name]
    try:
        found = text if text in names and text != name else parse_expression(text)
    except ValueError as error:
        raise InputError(f"dimension '{name}': {error}") from error
    require_known(names_in(found), names)
    inner = {other: _expanded(other, declared, names, (*seen, name)) for other in names_in(found) if other in declared}
    return substitute(found, inner)


def _require_contains(name: str, follows: Expression, given: Any, dims: Mapping[str, Any]) -> None:
    """Checks that a range given for a derived dimension contains all sizes that follow.

    Raises:
        InputError: it does not.
    """
    given_parts, parts = parts_of(name, given), {other: parts_of(other, sizes) for other, sizes in dims.items()}
    if not set(names_in(follows)) <= parts.keys():
        return  # reported as an error of its own
    ends = [{other: getattr(several[place], end) for other, several in parts.items()} for place, end in _ENDS]
    low, high = (evaluate(follows, sizes) for sizes in ends)
    if low < given_parts[0].low or high > given_parts[-1].high:
        raise InputError(
            f"dimension '{name}' follows from others and goes from {low} to {high}, which {given!r} does not contain: "
            "leave it out"
        )
