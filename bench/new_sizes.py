"""Measures first calls at new sizes: of a model whose sizes vary, without and with programs for ranges."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..sizes.bounds import with_derived
from ..sizes.dims_option import resolve_dims
from ..tools import arguments
from .ranges import shape_of
from .worker import timed_calls

_CALLS_AT_MOST = 200


@dataclass(frozen=True)
class FirstCall:
    """The calls at one set of sizes, which no earlier call of the same executable had.

    Attributes:
        sizes: sizes by the names of the dimensions.
        alone_seconds: the first call, if each size is compiled separately.
        alone_later_seconds: the median of later calls at these sizes.
        ranged_seconds: the first call, with ranges that follow from the sizes of calls.
        ranged_later_seconds: the median of later calls at these sizes.
        programs: number of programs after the call, with ranges.
    """

    sizes: Mapping[str, int]
    alone_seconds: float
    alone_later_seconds: float
    ranged_seconds: float
    ranged_later_seconds: float
    programs: int


@dataclass(frozen=True)
class NewSizes:
    """The figures of a model, in the order of the calls."""

    calls: Sequence[FirstCall]


def measure(
    path: Path,
    sizes: Sequence[Mapping[str, int]],
    threads: int,
    seconds: float,
    given: Mapping[str, np.ndarray] | None = None,
) -> NewSizes:
    """Compiles a model both ways in this process without the cache, and calls it at sizes that are new to it.

    Args:
        path: the ONNX file.
        sizes: the sizes of the calls: one size of each symbolic dimension.
        threads: threads of a call.
        seconds: duration of the later calls at each set of sizes.
        given: contents of some inputs; others are random.
    """
    compiled = [compile(path, threads=threads, options=Options(cache=False, ranges=on)) for on in (False, True)]
    for executable in compiled:
        executable.watch.advice = None
    calls = []
    for at in sizes:
        known = with_derived(at, resolve_dims(at, compiled[0].inputs).derived)
        shapes = {info.name: shape_of(info, known) for info in compiled[0].inputs}
        inputs = arguments.made_up_inputs(compiled[0].inputs, shapes, np.random.default_rng(0)) | dict(given or {})
        alone, ranged = (_timed(functools.partial(executable, **inputs), seconds) for executable in compiled)
        calls.append(FirstCall(dict(at), *alone, *ranged, len(compiled[1].programs)))
    return NewSizes(calls)


def _timed(call: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Returns the time of the first call, and the median of later ones."""
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    return first, statistics.median(timed_calls(call, seconds, _CALLS_AT_MOST))
