"""Provides the code for given input shapes: from the cache, by compiling, or as a hybrid execution plan."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...runtime.hybrid.foresight import Foresight
from ...runtime.hybrid.loaded_plan import LoadedPlan
from ...runtime.hybrid.plan import ExecutionPlan, HostStep, Kinds, NativeStep
from ...runtime.hybrid.runners import SubgraphCode
from ...runtime.program import Program, Shape, TensorInfo
from ...runtime.progress import progress
from ...runtime.progress.progress import CompileReporter
from ...runtime.report import slow
from ...runtime.report.report import slow_kernels
from ...runtime.specialization.interfaces import (
    CALL,
    ByContents,
    Contents,
    Done,
    HybridModel,
    Known,
    RangedCode,
    SizePolicy,
)
from ...sizes.buckets import Buckets
from ...sizes.expressions import Expression
from ...support.collection import paused_collection
from ...support.errors import StepwellError
from ...support.heap import release_free_memory
from ...support.short_repr import short_repr
from ...support.warning import warn
from ...targets.registry import backend_of, is_cpu
from ..caching.cache_key import CacheKey
from ..caching.program_cache import ProgramCache
from ..setup import Setup
from ..sources.onnx import OnnxSource
from ..sources.source import ModelSource
from ..subgraphs.hybrid_plans import HybridPlanner
from ..subgraphs.subgraph_source import SubgraphSource
from ..workers.worker_pool import LARGE, WorkerPool, worker_pool
from .background import BACKGROUND, BackgroundCompile, CompilerCall
from .inferred_ranges import InferredRanges

if TYPE_CHECKING:
    import numpy as np

    from ...passes.infra.failure import CompileError
    from ..compile.compilation import Compilation


@short_repr
@dataclass(frozen=True)
class Specializer:
    """Compiles one model, or a subgraph of one, for one set of input shapes (and contents).

    Attributes:
        source: the model.
        names: the names of its inputs.
        setup: target, options and cache.
    """

    source: ModelSource | SubgraphSource
    names: tuple[str, ...]
    setup: Setup

    def __call__(
        self, shapes: tuple[Shape, ...], contents: Contents, why: str = CALL
    ) -> Program | ByContents | HybridModel:
        """Returns the program, the inputs whose contents must be known for one, or a hybrid plan.

        Raises:
            ModelError: the model is damaged, or has a node that can run nowhere.
            PassFailure, PassError, CodegenError: the compiler failed.
        """
        key, why = self.cached.key(shapes, contents), self._reason(contents, why)
        with self._reported(key.shapes, why) as reporter:
            made = self._load_or_compile(key, shapes, contents, reporter)
        if isinstance(made, Program):
            return replace(made, why=why, compile_seconds=0.0 if reporter.is_hit else reporter.event.seconds)
        return self._loaded(made) if isinstance(made, ExecutionPlan) else made

    @property
    def policy(self) -> SizePolicy:
        """See `RangeCompiler`."""
        setup, options = self.setup, self.setup.options
        # On a GPU, kernels compute all of a range, so programs for single sizes are much faster.
        can_range = is_cpu(setup.target) and not setup.is_whole
        adapts = options.adapt and can_range and isinstance(self.source, ModelSource)
        return SizePolicy(options.ranges and can_range, adapts, options.max_programs)

    def known_range(self, sizes: Mapping[str, int], alone: tuple[Shape, ...] | None = None) -> Program | None:
        """See `RangeCompiler`."""
        if alone is not None and self.cached.known(self.cached.key(alone, {})) is not None:
            return None
        return self._inferred.known(sizes)

    def range_over(self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str) -> Program | str:
        """See `RangeCompiler`."""
        return "all programs must be in the cache" if self.setup.must_hit else self._range(inputs, seen, why)

    def _range(self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str) -> Program | str:
        return self._inferred.over(inputs, seen, why)

    def range_ahead(
        self, inputs: Sequence[TensorInfo], seen: Sequence[Mapping[str, int]], why: str, done: Done
    ) -> None:
        """See `RangeCompiler`."""
        if self.setup.must_hit:
            done(self.range_over(inputs, seen, why))
        else:
            BACKGROUND.submit(
                BackgroundCompile(self, CompilerCall("_range", (tuple(inputs), tuple(seen), why)), why, done)
            )

    def shapes_ahead(self, shapes: tuple[Shape, ...], why: str, done: Done) -> None:
        """See `RangeCompiler`."""
        if not self.setup.must_hit:
            BACKGROUND.submit(BackgroundCompile(self, CompilerCall("__call__", (shapes, {}, why)), why, done))

    @property
    def _inferred(self) -> InferredRanges:
        return InferredRanges(self.cached, functools.partial(self._compile_buckets, may_fail=False), self._reported)

    @property
    def cached(self) -> ProgramCache:
        """The programs of the model in the cache."""
        return ProgramCache(self.source, self.names, self.setup)

    @property
    def _planner(self) -> HybridPlanner:
        return HybridPlanner(self.source, self.names, self.setup.options, self.setup.target)

    def _loaded(self, plan: ExecutionPlan) -> LoadedPlan:
        """Reports the nodes of a plan that run on the host, and makes it callable."""
        self._planner.report(plan)
        return LoadedPlan(plan, self.compile_subgraph, self.source.name, foresight=self.foresight)

    def _reported(self, what: str, why: str) -> AbstractContextManager[CompileReporter]:
        """Reports the start and the end of a compile; see `progress.reporting`."""
        setup = self.setup
        return progress.reporting(setup.options.progress, self.source.name, what, why, setup.target)

    def _reason(self, contents: Contents, reason: str) -> str:
        """Returns why the code of one set of input shapes is needed, with all that is known of it."""
        if contents:
            names = ", ".join(self.names[position] for position in contents)
            reason += f" and contents of {names}"
        prefixes = ["subgraph of a model"] if isinstance(self.source, SubgraphSource) else []
        prefixes += ["loaded artefact"] if self.setup.is_loaded else []
        return ", ".join([*prefixes, reason])

    def _load_or_compile(
        self, key: CacheKey, shapes: tuple[Shape, ...], contents: Contents, reporter: CompileReporter
    ) -> Program | ByContents | ExecutionPlan:
        def compiled() -> list[Program | ByContents | ExecutionPlan]:
            # Much of a first compile is imports; workers start during these.
            with paused_collection(), worker_pool(self._processes() if not key.plugins else 1) as workers:
                made = self._compilation(key, reporter)
                return [self._compile_or_plan(made, shapes, contents, workers if workers.workers else None)]

        (made,), is_new = self.cached.get_or_make([key], compiled, reporter)
        if is_new and isinstance(made, Program):
            slow.warn_of(self.source.name, slow_kernels(made))
        return made

    def for_buckets(
        self, inputs: Sequence[TensorInfo], buckets: Buckets, derived: Mapping[str, Expression]
    ) -> RangedCode:
        """Compiles one program for each bucket of sizes; returns the reason if that is not possible.

        `derived` gives the dimensions that are computed from those of the buckets. A warning states the reason too. A
        model in which sizes depend on data runs in steps, which are not compiled yet.

        Raises:
            CacheMissError: all programs must be in the cache, and one is not.
            PassError, PassFailure, CodegenError: the compiler failed, and `fallback` is "error".
        """
        keys = self.cached.keys_of_buckets(buckets, derived)
        what = "; ".join(key.sizes for key in keys)
        with self._reported(what, "for ranges of sizes") as reporter:
            try:
                found, is_new = self.cached.get_or_make(
                    keys, lambda: self._buckets_or_plan(keys[0], reporter, inputs, buckets, derived), reporter
                )
            except NoRangesError as error:
                return RangedCode(reason=self._warn_no_ranges(str(error)))
        if isinstance(found[0], ExecutionPlan):
            return RangedCode(steps=self._loaded(found[0]))
        seconds = reporter.event.seconds / len(found) if is_new else 0.0
        programs = [
            replace(program, why="for ranges of sizes", compile_seconds=seconds)
            for program in found
            if isinstance(program, Program)
        ]
        if is_new:
            release_free_memory()
            reasons = dict.fromkeys(reason for program in programs for reason in slow_kernels(program))
            slow.warn_of(self.source.name, reasons)
        return RangedCode(programs)

    def _buckets_or_plan(
        self,
        key: CacheKey,
        reporter: CompileReporter,
        inputs: Sequence[TensorInfo],
        buckets: Buckets,
        derived: Mapping[str, Expression],
    ) -> Sequence[Program | ExecutionPlan]:
        """Does the same as `_compile_buckets`, but returns a plan if sizes inside of the model depend on data."""
        from ...frontend.errors import SizedByData, UnsupportedError

        try:
            return self._compile_buckets(key, reporter, inputs, buckets, derived)
        except NoRangesError as error:
            cause = error.__cause__
            if not isinstance(cause, SizedByData) or len(buckets) > 1 or not self._planner.may_run_in_steps:
                raise
            try:
                return [self._planner.with_host_nodes(cause)]
            except UnsupportedError as refusal:
                raise NoRangesError(str(refusal)) from refusal

    def _compile_buckets(
        self,
        key: CacheKey,
        reporter: CompileReporter,
        inputs: Sequence[TensorInfo],
        buckets: Buckets,
        derived: Mapping[str, Expression],
        may_fail: bool = True,
    ) -> list[Program]:
        """Compiles one program for each bucket of sizes.

        Args:
            key: the cache key of one of the programs.
            reporter: receives the progress.
            inputs: the model's inputs.
            buckets: the ranges of each program.
            derived: the dimensions that are computed from those of the buckets.
            may_fail: whether a failure of the compiler is raised if `fallback` is "error".

        Raises:
            NoRangesError: that is not possible.
            PassError, PassFailure, CodegenError: the compiler failed, and `fallback` is "error".
        """
        from ...frontend.errors import UnsupportedError

        # isort: split
        from ...lowering.llvm_to_object.codegen import CodegenError
        from ...passes.infra.base import PassError
        from ...passes.infra.runner import PassFailure
        from ..compile.ranges import RangesError, compile_ranged

        try:
            return compile_ranged(self._compilation(key, reporter), self.source, inputs, buckets, derived)
        except (RangesError, UnsupportedError) as error:
            raise NoRangesError(str(error)) from error
        except (PassError, PassFailure, CodegenError) as error:
            # A loop may have no launch plan on a GPU, which is a limitation; on a CPU, any failure is a bug.
            if not backend_of(self.setup.target).runs_loops:
                raise NoRangesError(str(error)) from error
            if may_fail and self.setup.options.fallback == "error":
                raise
            raise NoRangesError(_as_bug(error)) from error

    def _warn_no_ranges(self, reason: str) -> str:
        """Warns that no program serves the ranges, and returns the reason."""
        message = f"{self.source.name}: compiled for each size separately, at the first call that has it: {reason}"
        warn(message, slow.SlowWarning)
        return reason

    def _compile_or_plan(
        self, compilation: Compilation, shapes: tuple[Shape, ...], contents: Contents, workers: WorkerPool | None
    ) -> Program | ByContents | ExecutionPlan:
        from ...frontend.errors import NeedsContents, NodeError, UnsupportedError
        from ...lowering.llvm_to_object.codegen import CodegenError
        from ...passes.infra.base import PassError
        from ...passes.infra.runner import PassFailure

        held = {self.names[position]: array for position, array in contents.items()}
        by_name = dict(zip(self.names, shapes, strict=True))
        try:
            return compilation.program(self.source, by_name, held, workers)
        except NeedsContents as error:
            if error.inputs and self._may_depend_on(error.inputs):
                return ByContents(tuple(map(self.names.index, error.inputs)), str(error))
            return self._planner.with_host_nodes(error)
        except UnsupportedError as error:
            return self._planner.with_host_nodes(error)
        except NodeError as error:
            if not self._planner.is_valid(error):
                raise
            return self._planner.with_host_nodes(error)
        except (PassError, PassFailure, CodegenError) as error:
            if not self._planner.may_run_in_steps or self.setup.options.fallback == "error":
                raise
            return self._planner.around_failure(error)

    def _processes(self) -> int:
        """Returns the number of processes that are worth starting, including this one."""
        from ...frontend.errors import ModelError

        if self.setup.is_guarded or not isinstance(self.source, ModelSource):
            return 1  # they are started when kernels are compiled
        try:
            return self.setup.options.codegen_threads if self.source.size >= LARGE else 1
        except ModelError:  # raised again when the model is compiled
            return 1

    def _compilation(self, key: CacheKey, reporter: CompileReporter) -> Compilation:
        from ..compile.compilation import Compilation

        return Compilation(self.setup, reporter, key.plugins)

    def _may_depend_on(self, inputs: tuple[str, ...]) -> bool:
        """Returns whether to compile one program per content of these inputs: model inputs, or decided by shapes."""
        return not isinstance(self.source, SubgraphSource) or set(inputs) <= self.source.decided()

    def compile_subgraph(self, step: NativeStep, kinds: Kinds) -> SubgraphCode:
        """Returns the compiler of a subgraph, for inputs of given element types."""
        assert isinstance(self.source, OnnxSource | SubgraphSource), "only models of ONNX run in steps"
        subgraph = replace(
            self, source=SubgraphSource(self.source, step, kinds, self._names_decided), names=step.inputs
        )
        may_run_on_host = self.setup.options.fallback != "error"
        return SubgraphCode(
            subgraph, subgraph.on_host if may_run_on_host else None, subgraph.compile_subgraph, subgraph.foresight
        )

    def on_host(self, reason: str) -> HybridModel:
        """Returns a plan with every node on the host."""
        return self._loaded(self._planner.all_on_host(reason))

    @property
    def foresight(self) -> Foresight:
        """Predicts the types of values before a run."""
        return _Foresight(self._names_decided)

    @property
    def _names_decided(self) -> Callable[[], set[str]]:
        return self.source.decided if isinstance(self.source, SubgraphSource) else self._decided

    def _decided(self) -> set[str]:
        from ...frontend.onnx.fallback import partition

        assert isinstance(self.source, OnnxSource), "only models of ONNX run in steps"
        names = partition.follow_from_shapes(self.source.model)
        return names | set(self.names)


@dataclass(frozen=True)
class _Foresight:
    """Types by ONNX's inference, and the names of contents that follow from shapes."""

    names: Callable[[], set[str]]

    def outputs_of(
        self, step: HostStep, inputs: Mapping[str, Known], contents: Mapping[str, np.ndarray]
    ) -> list[Known]:
        """See `Foresight`."""
        from ...frontend.onnx.fallback import host_types

        return host_types.outputs_of(step, inputs, contents)

    def is_decided(self, name: str) -> bool:
        """See `Foresight`."""
        return name in self._decided

    @functools.cached_property
    def _decided(self) -> set[str]:
        return self.names()


class NoRangesError(StepwellError):
    """No program can serve ranges of sizes; the message says why."""


def _as_bug(error: CompileError) -> str:
    """Describes a failure of the compiler in one sentence: reason, location, reproducer, and how to report it."""
    from ...passes.infra.failure import one_line

    failure = error.failure
    node = next((str(op).partition(":")[0] for op in failure.ops), "") if failure else ""
    place = [f"phase {error.phase}" * bool(error.phase), f"pass {error.pass_name}" * bool(error.pass_name), node]
    where = ", ".join(filter(None, place)) or "an unknown place"
    kept = f" with the folder {error.reproducer}" if error.reproducer else ""
    advice = f"this is a bug, please report it{kept}; fallback='error' raises it"
    return f"the compiler failed in {where}: {one_line(str(error))}; {advice}"
