"""Sizes that each kernel of a program for ranges depends on, and the versions of kernels that calls run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ...sizes.bounds import Bounds
from ...sizes.expressions import evaluate_all, names_in, text_of
from ...sizes.layouts import is_of_layout
from ...sizes.ranges import Range, spread_sizes
from ..facts import CallFacts, CompileFacts
from ..program import Program
from ..remarks import VERSIONS

_MOST_SIZES = 1 << 16
"""Maximum number of sizes of a range that are all evaluated for the choice of versions; larger ranges are sampled."""

_MOST_RUNS = 6
"""Maximum number of intervals of sizes that are listed for a version."""


def sizes_of_kernels(program: Program) -> dict[str, dict[str, Any]]:
    """Returns a record for each kernel of a program for ranges of sizes, by name; {} for a program of fixed sizes."""
    bounds, known = program.bounds, program.compile_facts
    if bounds is None:
        return {}
    chosen = {call.versions: call for call in known.calls if call.versions}
    found = {info.name: _record(info.name, known, bounds) for info in program.kernels}
    for call in known.calls:
        if call.kernel in found and not call.versions:
            found[call.kernel]["why"] = found[call.kernel]["why"] or _why(call, known)
    for call in chosen.values():
        served = [*_served(call, bounds)]
        why = _why(call, known)
        for name in filter(found.__contains__, call.versions):
            found[name] |= {"versions": served, "why": why}
    return found


def _record(name: str, known: CompileFacts, bounds: Bounds) -> dict[str, Any]:
    details = known.details_of(name)
    items = [bounds.table[entry] for entry in details.entries if entry < len(bounds.table)]
    numbers = [item for item in items if not is_of_layout(item)]
    used = {name for item in numbers for name in names_in(item)}
    return {
        "names": [name for name in bounds.ranges if name in used],
        "numbers": list(dict.fromkeys(map(text_of, numbers))),
        "whole": list(details.unbounded),
        "versions": [],
        "why": "",
    }


def _why(call: CallFacts, known: CompileFacts) -> str:
    return next((item.message for item in known.remarks if item.rule == VERSIONS and item.nodes == call.nodes), "")


def _served(call: CallFacts, bounds: Bounds) -> Iterator[dict[str, Any]]:
    """Yields for each version of a kernel the sizes of the calls that run it, and their share of all sizes."""
    expression = bounds.table[call.choice]
    used = set(names_in(expression))
    ranges = {name: values for name, values in bounds.ranges.items() if name in used}
    sizes = _all_sizes(ranges)
    numbers = np.broadcast_to(evaluate_all(expression, sizes), next(iter(sizes.values())).shape)
    for number, name in enumerate(call.versions):
        mask = numbers == number
        texts = [f"{size} {_runs(sizes[size][mask], sizes[size])}" for size in ranges]
        yield {"kernel": name, "sizes": ", ".join(texts), "share": round(float(mask.mean()), 4)}


def _all_sizes(ranges: Mapping[str, Range]) -> dict[str, np.ndarray]:
    """Returns all sizes of a range, or sizes across several ranges."""
    if len(ranges) == 1:
        ((name, values),) = ranges.items()
        found = np.arange(values.low, values.high + 1, values.step)
        if len(found) <= _MOST_SIZES:
            return {name: found}
    return spread_sizes(ranges)


def _runs(chosen: np.ndarray, everything: np.ndarray) -> str:
    """Returns the values of a size as intervals: "1 to 6, 9"."""
    values = np.unique(everything)
    places = np.searchsorted(values, np.unique(chosen))
    if not len(places):
        return "never"
    starts = [0, *map(int, np.flatnonzero(np.diff(places) > 1) + 1), len(places)]
    runs = [(values[places[start]], values[places[end - 1]]) for start, end in pairwise(starts)]
    texts = [str(low) if low == high else f"{low} to {high}" for low, high in runs]
    return ", ".join(texts) if len(texts) <= _MOST_RUNS else f"{', '.join(texts[: _MOST_RUNS - 1])}, ... {texts[-1]}"
