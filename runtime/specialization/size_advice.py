"""Advice to compile once for ranges of sizes, given when calls compile for one size after another."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...sizes.dims_option import is_expression
from ...sizes.ranges import power_above, sizes_of
from ...support.errors import SlowWarning
from ...support.warning import warn
from ...support.wording import listed
from ..program import Shape, TensorInfo

FEW = 3
"""Number of distinct sizes of one dimension that calls compile for before the warning."""

_GRID = 32
"""If all sizes are multiples of this, as those of images often are, the suggested range has it as its step."""

Suggested = Mapping[str, int | tuple[int, ...] | str]
"""Values for `Options.dims`, by the names of dimensions."""

Advice = Callable[[Suggested], str]
"""Returns text on how to request one compile that serves the suggested sizes."""


class SizeWatch:
    """Counts the sizes that calls of one executable compile for, and warns once.

    Attributes:
        advice: the end of the warning; None for no warning.
    """

    def __init__(self, model: str, inputs: Sequence[TensorInfo]) -> None:
        """Starts with no sizes.

        Args:
            model: the model's name.
            inputs: the model's inputs, in order.
        """
        self.advice: Advice | None = as_option
        self._model = model
        self._inputs = tuple(inputs)
        self._seen: list[dict[str, int]] = []

    def explain(self, reason: str) -> None:
        """Makes the warning say why no program serves a range of sizes, instead of giving advice."""
        if self.advice is not None:
            self.advice = lambda sizes: f"One program for a range of sizes is not possible: {reason}"

    def met(self, shapes: Sequence[Shape]) -> None:
        """Records shapes that a call compiled code for.

        Warns:
            SlowWarning: a dimension has now had `FEW` distinct sizes; issued only once.
        """
        advice = self.advice
        if advice is None:
            return
        given = zip(self._inputs, shapes, strict=True)
        tensors = [(info, shape) for info, shape in given if len(info.shape) == len(shape)]  # others have any rank
        self._seen.append(sizes_of([info for info, _ in tensors], [shape for _, shape in tensors]))
        distinct = _distinct(self._seen)
        found = {
            name: sizes
            for name, sizes in distinct.items()
            if len(sizes) >= FEW and not is_expression(name, list(distinct))
        }
        if not found:
            return
        self.advice = None
        sizes = "; ".join(f"'{name}' was {listed(sizes)}" for name, sizes in found.items())
        warn(
            f"{self._model}: each new size of an input is compiled during the call in which it first occurs: dimension "
            f"{sizes}. {advice(suggested(self._seen))}",
            SlowWarning,
        )


def suggested(seen: Sequence[Mapping[str, int]]) -> dict[str, int | tuple[int, ...] | str]:
    """Returns values for `dims` that serve all sizes seen, and similar ones.

    A dimension that never varied is a number. One that varied exactly as an earlier one did is the name of that one. A
    dimension whose name is an expression over others, such as `past + length`, follows from them and is omitted.
    """
    distinct, found = _distinct(seen), {}
    columns: dict[tuple[int, ...], str] = {}
    for name, sizes in distinct.items():
        column = tuple(sizes_at[name] for sizes_at in seen)
        if is_expression(name, list(distinct)):
            continue
        if len(sizes) == 1:
            found[name] = sizes[0]
        elif len(sizes) >= FEW and column in columns:
            found[name] = columns[column]
        else:
            columns[column], found[name] = name, range_around(sizes)
    return found


def range_around(sizes: Sequence[int]) -> tuple[int, ...]:
    """Returns the range from 1, or 0 if it is among the sizes, to the next power of two of the largest.

    If all sizes are multiples of 32, the range contains only those: image models often fail at others.
    """
    high = power_above(max(sizes))
    if min(sizes) > 0 and all(size % _GRID == 0 for size in sizes):
        return (_GRID, high, _GRID)
    return (min(1, *sizes), high)


def as_text(dims: Suggested) -> str:
    """Returns values for `dims` in the syntax of `--dims`."""
    return ",".join(f"{name}={':'.join(map(str, _parts(given)))}" for name, given in dims.items())


def as_option(dims: Suggested) -> str:
    """Returns the advice to users of `stepwell.compile` or a tool."""
    text = f"To compile once for a range, use stepwell.Options(dims={dict(dims)!r})"
    if any("," in name for name in dims):
        return text  # the command line separates dimensions with commas
    return f"{text}, or on a command line --dims {shlex.quote(as_text(dims))}"


def _distinct(seen: Sequence[Mapping[str, int]]) -> dict[str, list[int]]:
    """Returns the distinct sizes of each dimension, sorted."""
    return {name: sorted({sizes[name] for sizes in seen}) for name in (seen[0] if seen else ())}


def _parts(given: int | tuple[int, ...] | str) -> Sequence[Any]:
    return given if isinstance(given, tuple) else (given,)
