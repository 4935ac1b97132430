"""Compares a model compiled once for ranges of sizes with the same model compiled for each size."""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..driver.api import compile
from ..driver.options import Options
from ..runtime.program import Shape, TensorInfo
from ..sizes.bounds import with_derived
from ..tools import arguments
from .measure import difference
from .turns import CALLS_AT_MOST
from .worker import timed_calls

_Dims = Mapping[str, Any]


@dataclass(frozen=True)
class SizesFigure:
    """The times at one set of sizes in the ranges.

    Attributes:
        sizes: sizes by the names of the dimensions.
        ranged_seconds: median time of a call of the program for the ranges.
        alone_seconds: median time of a call of the program for only these sizes.
        alone_compile_seconds: duration of the compile for only these sizes, without the cache, and of a call.
        difference: largest difference of an output, relative to its largest value.
    """

    sizes: Mapping[str, int]
    ranged_seconds: float
    alone_seconds: float
    alone_compile_seconds: float
    difference: float | None

    @property
    def ratio(self) -> float:
        """The time in the ranges relative to that of the program for only these sizes."""
        return self.ranged_seconds / self.alone_seconds


@dataclass(frozen=True)
class Ranges:
    """The figures of a model.

    Attributes:
        compile_seconds: duration of the compile for the ranges, without the cache.
        programs: number of its programs; 0 if the model is compiled for each size separately.
        figures: the times, one for each set of sizes.
    """

    compile_seconds: float
    programs: int
    figures: Sequence[SizesFigure]

    @property
    def ratios(self) -> list[float]:
        """The ratio at each of the sizes."""
        return [figure.ratio for figure in self.figures]

    @property
    def compile_ratio(self) -> float:
        """The duration of the compile for the ranges relative to the longest one for only some sizes."""
        return self.compile_seconds / max(figure.alone_compile_seconds for figure in self.figures)


def measure(
    path: Path,
    dims: _Dims,
    sizes: Sequence[Mapping[str, int]],
    threads: int,
    rounds: int,
    seconds: float,
    given: Mapping[str, np.ndarray] | None = None,
) -> Ranges:
    """Compiles a model both ways in this process, and calls the two programs in turns.

    Args:
        path: the ONNX file.
        dims: the ranges, as in `Options.dims`.
        sizes: the sizes to measure: one size of each symbolic dimension.
        threads: threads of a call.
        rounds: number of turns of each program at each set of sizes.
        seconds: duration of a turn.
        given: contents of some inputs; others are random.
    """
    start = time.perf_counter()
    ranged = compile(path, threads=threads, options=Options(cache=False, dims=dims))
    compile_seconds = time.perf_counter() - start
    alone = compile(path, threads=threads, options=Options(cache=False, ranges=False))
    bounds = ranged.programs[0].bounds if ranged.programs else None
    derived = {} if bounds is None else bounds.derived
    figures = []
    for at in sizes:
        shapes = {info.name: shape_of(info, with_derived(at, derived)) for info in ranged.inputs}
        inputs = arguments.made_up_inputs(ranged.inputs, shapes, np.random.default_rng(0)) | dict(given or {})
        calls = [functools.partial(executable, **inputs) for executable in (ranged, alone)]
        here, start = _listed(calls[0]()), time.perf_counter()
        there = _listed(calls[1]())
        alone_compile_seconds = time.perf_counter() - start
        away = difference(here, there)
        times: list[list[float]] = [[], []]
        for _ in range(rounds):
            for call, found in zip(calls, times, strict=True):
                found += timed_calls(call, seconds, CALLS_AT_MOST)
        ranged_seconds, alone_seconds = map(statistics.median, times)
        figures.append(SizesFigure(dict(at), ranged_seconds, alone_seconds, alone_compile_seconds, away))
    return Ranges(compile_seconds, len(ranged.programs), figures)


def shape_of(info: TensorInfo, sizes: Mapping[str, int]) -> Shape:
    """Returns the shape of an input at given sizes of the symbolic dimensions."""
    return tuple(sizes[dim] if isinstance(dim, str) else int(dim) for dim in info.shape)


def _listed(outputs: Any) -> list[np.ndarray]:
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def chosen_sizes(dims: _Dims) -> list[dict[str, int]]:
    """Returns the bounds of all ranges, and sizes in between in steps of a factor of about three; or a list's buckets.

    The dimensions grow together.
    """
    ladders = {name: _ladder(given) for name, given in dims.items() if not isinstance(given, str)}
    most = max(map(len, ladders.values()))
    return [
        {name: ladder[min(len(ladder) - 1, step * len(ladder) // most)] for name, ladder in ladders.items()}
        for step in range(most)
    ]


def _ladder(given: Any) -> list[int]:
    if not isinstance(given, tuple):
        return sorted(given) if isinstance(given, list) else [given]
    low, high, step = (*given, 1)[:3]
    found = [low]
    while 3 * found[-1] < high:
        found.append(low + (3 * found[-1] - low + step - 1) // step * step)
    return list(dict.fromkeys([*(size for size in found if size < high), high]))
