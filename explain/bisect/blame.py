"""Finds the pass that makes a native program wrong, by replacing the passes after it by their simplest substitutes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir

from ...driver import route
from ...lowering.llvm_to_object.codegen import CodegenError
from ...passes.infra.base import PassError
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.runner import PassFailure
from .comparison import Difference, Tolerance, compare, worst
from .native import NEEDED, SUBSTITUTES, lowering_passes, name_of, partly_simple
from .overlaps import find_overlap

CANNOT = (PassFailure, PassError, CodegenError)
"""Errors of a pipeline that cannot compile a module."""

_SPACING = 2
"""Distance between the verdicts that are checked against the answer; each compiles and runs the program once."""

_SAME = Tolerance(1e-2)
"""Wrong values that agree within this tolerance come from the same fault."""


@dataclass(frozen=True)
class Probe:
    """One run of a program.

    Attributes:
        difference: the difference between its results and those expected.
        values: its results.
    """

    difference: Difference
    values: Sequence[np.ndarray]

    @staticmethod
    def of(
        runs: Sequence[Sequence[np.ndarray]],
        want: Sequence[np.ndarray],
        tolerance: Tolerance,
        noise: Callable[[], Sequence[np.ndarray]],
    ) -> Probe:
        """Compares the results of runs that started with different patterns in unwritten memory.

        Args:
            runs: the results of each run.
            want: the expected results.
            tolerance: the error that counts as rounding.
            noise: computes the change of results under different rounding; called only if `tolerance` does not suffice.
        """
        found = worst([_difference(run, want, tolerance, None) for run in runs])
        if found.is_wrong and not found.reason:
            sizes = noise()
            found = worst([_difference(run, want, tolerance, sizes) for run in runs])
        first, *others = runs
        if any(not _equal(first, other) for other in others):
            count = sum(int((_bits(a) != _bits(b)).sum()) for a, b in zip(first, others[0], strict=True))
            total = sum(array.size for array in first)
            reason = f"reads memory that was never written: {count} of {total} values depend on its contents"
            found = Difference(np.inf, np.inf, reason=reason)
        return Probe(found, first)

    def shows(self, other: Probe) -> bool:
        """Returns whether this run has the same wrong values as another."""
        if not self.difference.is_wrong or bool(self.difference.reason) != bool(other.difference.reason):
            return False
        if self.difference.reason:
            return True  # the values are arbitrary
        return not _difference(self.values, other.values, _SAME, None).is_wrong


def _difference(
    got: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    tolerance: Tolerance,
    noise: Sequence[np.ndarray] | None,
) -> Difference:
    sizes = noise or [None] * len(want)
    return worst([compare(mine, theirs, tolerance, size) for mine, theirs, size in zip(got, want, sizes, strict=True)])


def _bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(f"V{array.dtype.itemsize}")


def _equal(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


@dataclass(frozen=True)
class Blamed:
    """The pass that makes a program wrong.

    Attributes:
        pass_name: its name; "" if it is not known.
        note: other passes that it may be, and further findings.
        pipeline: the passes up to it, followed by the simplest substitutes of the others.
    """

    pass_name: str
    note: str
    pipeline: Pipeline


class _Search:
    """Verdicts on prefixes of the passes: whether a prefix, followed by the simplest passes, shows the whole fault."""

    def __init__(self, target: str, probe: Callable[[Pipeline], Probe], step: Callable[[str], None]) -> None:
        self.elements = lowering_passes(target)
        self._probe, self._step = probe, step
        self._whole = probe(Pipeline(self.elements))
        self.shows: dict[int, bool] = {len(self.elements): True}
        self.pipelines: dict[int, tuple[Pipeline, str]] = {len(self.elements): (Pipeline(self.elements), "")}
        self.otherwise_wrong: list[int] = []

    def look(self, count: int) -> bool | None:
        """Returns whether the first `count` passes show the fault; None if the module cannot be compiled that way."""
        if count in self.shows:
            return self.shows[count]
        self._step(f"without what follows {name_of(self.elements[count - 1])}")
        for kept in ((), NEEDED):
            pipeline = partly_simple(self.elements, count, kept)
            try:
                found = self._probe(pipeline)
            except CANNOT:
                continue
            self.pipelines[count] = pipeline, ", ".join(kept)
            self.shows[count] = found.shows(self._whole)
            if found.difference.is_wrong and not self.shows[count]:
                self.otherwise_wrong.append(count)
            return self.shows[count]
        return None


def first_wrong(
    module: ir.Operation, target: str, probe: Callable[[Pipeline], Probe], step: Callable[[str], None]
) -> Blamed:
    """Finds the first pass that makes a program wrong if all passes after it are the simplest substitutes.

    For other targets than CPUs few passes have a substitute: if none of these is at fault, no pass is named.

    Args:
        module: the module of kernels that the pipelines start from.
        target: the target for which all passes together make a wrong program.
        probe: compiles with a pipeline, runs the program, and compares.
        step: called with a description of each attempt.
    """
    search = _Search(target, probe, step)
    elements = search.elements
    has_simple_forms = "memref" in route.names(target)
    if has_simple_forms:
        step("whether buffers overlap")
        overlap = find_overlap(module, elements)
        if overlap is not None:
            name, note = overlap
            stop = 1 + next(index for index, item in enumerate(elements) if name_of(item) == name)
            return Blamed(name, note, partly_simple(elements, stop) if search.look(stop) else Pipeline(elements))
    simple = [index for index, item in enumerate(elements) if name_of(item) in SUBSTITUTES and index > 0]
    # The first count has every pass in its simplest form: if it shows the fault, a pass without a substitute makes it.
    every = [simple[0], *(index + 1 for index in simple)]
    good, bad, counts = 0, len(elements), every
    while counts:
        # The first one is the most likely, and the most informative.
        middle = counts[0] if good == 0 else counts[len(counts) // 2]
        verdict = search.look(middle)
        good, bad = (good, middle) if verdict else (middle if verdict is False else good, bad)
        counts = [count for count in counts if good < count < bad and count != middle]
    pipeline, kept = search.pipelines[bad]
    between = [name_of(elements[index]) for index in simple if good <= index < bad]
    if not (good and between) and not has_simple_forms:
        return Blamed("", f"one of the passes for {target}, few of which have a simpler substitute", pipeline)
    notes = []
    if good and between:
        name = between[0]
        others = [*between[1:], *([kept] if kept and kept not in between else [])]
        notes += [f"or {', '.join(others)}: the program cannot be compiled without"] if others else []
    else:
        name = name_of(elements[0])
    notes += _doubts(search, every, bad)
    return Blamed(name, "; ".join(notes), pipeline)


def _doubts(search: _Search, counts: Sequence[int], bad: int) -> list[str]:
    """Returns notes on verdicts that contradict the answer."""
    notes = []
    for count in counts[::-_SPACING]:
        shows = search.look(count)
        if shows is not None and shows != (count >= bad):
            name, verb = name_of(search.elements[count - 1]), "shows" if shows else "does not show"
            notes.append(f"the verdicts are not monotone: the fault {verb} with the unchanged passes up to {name}")
            break
    if search.otherwise_wrong:
        names = dict.fromkeys(name_of(search.elements[count - 1]) for count in search.otherwise_wrong)
        notes.append(f"wrong in another way with simpler passes after {', '.join(names)}")
    return notes
