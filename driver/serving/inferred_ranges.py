"""Programs for ranges that are inferred from the sizes of calls: taken from the cache, or compiled."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from ...runtime.program import Program, TensorInfo
from ...runtime.progress.progress import CompileReporter
from ...runtime.report import slow
from ...runtime.report.report import slow_kernels
from ...sizes.buckets import Buckets, parse_dims
from ...sizes.dims_option import Dims, Resolved, resolve_dims
from ...sizes.expressions import Expression
from ...sizes.inferred import inferred_dims, raised
from ...support.errors import StepwellError
from ...targets.registry import backend_of
from ..caching.cache_key import CacheKey, CacheMissError
from ..caching.program_cache import ProgramCache
from ..subgraphs.subgraph_source import SubgraphSource

_Compile = Callable[
    [CacheKey, CompileReporter, Sequence[TensorInfo], Buckets, Mapping[str, Expression]], Sequence[Program]
]
_Report = Callable[[str, str], AbstractContextManager[CompileReporter]]

_ARENA_SHARE = 0.5
"""Maximum fraction of the machine's memory for the arena of a range; if it needs more, a narrower range is tried."""

_PARTS = 64
"""Number of steps between the lower bound of a range and the smallest sizes of calls.

If a model fails at the bound, the least step at which it works is searched. Each try takes one import, a small part of
the time of a compile.
"""


@dataclass(frozen=True)
class InferredRanges:
    """The programs of one model for inferred ranges.

    Attributes:
        cached: the model's programs in the cache.
        compile: compiles the programs of buckets, given the cache key of one of them.
        report: reports a compile, given the sizes and the reason.
    """

    cached: ProgramCache
    compile: _Compile
    report: _Report

    def known(self, sizes: Mapping[str, int]) -> Program | None:
        """Returns the best program in the cache that contains some sizes and was compiled for an inferred range."""
        for key, bounds in sorted(self.cached.inferred(), key=lambda item: item[1].volume):
            if not bounds.covers(sizes):
                continue
            with self.report(key.sizes, "an earlier process had calls with such sizes") as reporter:
                program = self.cached.known(key)
                if program is not None:
                    return replace(program, bounds=bounds, why=reporter.event.why)
                reporter.miss()
        return None

    def over(self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str) -> Program | str:
        """Compiles one program for a range that contains all sizes seen.

        A range that starts at sizes that are too small for the model, such as an image smaller than the windows of a
        convolution, is tried once more without these.

        Returns:
            The program, or the reason why there is none for the widest range that was tried.
        """
        reasons = []
        for dims in inferred_dims(seen, inputs, isinstance(self.cached.source, SubgraphSource)):
            made = self._for_dims(inputs, dims, why)
            if isinstance(made, Program):
                return made
            reasons.append(made)
            narrower = self._without_small(inputs, dims, seen)
            made = self._for_dims(inputs, narrower, why) if narrower else made
            if isinstance(made, Program):
                return made
        return reasons[0]

    def _without_small(
        self, inputs: Sequence[TensorInfo], dims: Dims, seen: Sequence[Mapping[str, int]]
    ) -> Dims | None:
        """Returns ranges without the sizes that are too small for the model; None if other sizes are at fault."""
        least = {name: min(sizes[name] for sizes in seen) for name in seen[0]}
        steps = [step for step, _ in itertools.groupby(raised(dims, least, part, _PARTS) for part in range(_PARTS + 1))]
        if len(steps) == 1 or not self._is_valid(inputs, steps[-1], is_last=True) or self._is_valid(inputs, dims):
            return None
        return steps[bisect.bisect_left(steps[:-1], True, 1, key=lambda dims: self._is_valid(inputs, dims))]

    def _is_valid(self, inputs: Sequence[TensorInfo], dims: Dims, is_last: bool = False) -> bool:
        """Returns whether the model can be bound to ranges; stores a refusal if no smaller range follows."""
        from ..compile.ranges import RangedModel, bound_model

        resolved, key, buckets = self._resolved(inputs, dims)
        if is_last and self.cached.refusal(key):
            return False
        model = RangedModel(self.cached.source, resolved.inputs, resolved.derived)
        try:
            with bound_model(model, buckets[0], self.cached.setup.target):
                return True
        except StepwellError as error:
            if is_last:
                self.cached.refuse(key, str(error))
            return False

    def _resolved(self, inputs: Sequence[TensorInfo], dims: Dims) -> tuple[Resolved[TensorInfo], CacheKey, Buckets]:
        """Returns the ranges with their derived dimensions, the cache key of their program, and its only bucket."""
        resolved = resolve_dims(dims, inputs)
        _, buckets = parse_dims(resolved.dims, resolved.inputs, resolved.derived)
        (key,) = self.cached.keys_of_buckets(buckets, {**resolved.derived, **_equal(dims)})
        return resolved, key, buckets

    def _for_dims(self, inputs: Sequence[TensorInfo], dims: Dims, why: str) -> Program | str:
        resolved, key, buckets = self._resolved(inputs, dims)
        refusal = self.cached.refusal(key)
        if refusal:
            return refusal
        try:
            with self.report(key.sizes, why) as reporter:
                given = resolved.inputs, buckets, resolved.derived
                found, is_new = self.cached.get_or_make(
                    [key], lambda: self._checked(self.compile(key, reporter, *given)), reporter
                )
        except CacheMissError:
            raise
        except StepwellError as error:
            # The range was not requested. If the sizes are at fault, the compile for these alone fails too.
            self.cached.refuse(key, str(error))
            return str(error)
        (program,) = found
        assert isinstance(program, Program) and program.bounds is not None
        bounds = replace(program.bounds, derived={**program.bounds.derived, **_equal(dims)}, is_inferred=True)
        self.cached.remember_inferred(key, bounds)
        if is_new:
            slow.warn_of(self.cached.source.name, slow_kernels(program))
        return replace(program, bounds=bounds, why=why, compile_seconds=reporter.event.seconds if is_new else 0.0)

    def _checked(self, programs: Sequence[Program]) -> Sequence[Program]:
        room = backend_of(self.cached.setup.target).memory_bytes()
        for program in programs:
            if room is not None and program.arena_bytes > _ARENA_SHARE * room:
                raise _NoRoomError(f"its scratch memory takes {program.arena_bytes / 2**30:.1f} GiB")
        return programs


def _equal(dims: Dims) -> dict[str, str]:
    """Returns the dimensions that are as large as another one, with the name of that one."""
    return {name: given for name, given in dims.items() if isinstance(given, str)}


class _NoRoomError(StepwellError):
    """Raised if the scratch memory of a program for a range takes too much of the machine's memory."""
