"""Provides the code for given input shapes: from the cache, by compiling, or as a hybrid execution plan."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..runtime.artefact import store
from ..runtime.cache.cache import Cache
from ..runtime.cache.keys import key_of
from ..runtime.host.fallback import Fallback, FallbackWarning, summary
from ..runtime.host.step import HostNode, HostStepError
from ..runtime.hybrid.foresight import Foresight
from ..runtime.hybrid.loaded_plan import LoadedPlan
from ..runtime.hybrid.plan import ExecutionPlan, HostStep, Kinds, NativeStep, Step
from ..runtime.hybrid.runners import PieceCode
from ..runtime.program import Program, Shape, TensorInfo
from ..runtime.progress import progress
from ..runtime.progress.progress import CompileReporter
from ..runtime.report import slow
from ..runtime.report.report import slow_kernels
from ..runtime.specialization.interfaces import ByContents, Contents, HybridModel, Known
from ..sizes.buckets import Buckets
from ..sizes.expressions import Expression
from ..support.collection import paused_collection
from ..support.short_repr import short_repr
from ..support.wording import quantity
from ..targets.registry import backend_of
from . import cache_key, plugins
from .cache_key import CacheKey
from .fingerprint import fingerprint
from .locks import program_lock
from .setup import Setup
from .source import ModelSource, PieceSource
from .workers.worker_pool import LARGE, WorkerPool, worker_pool

if TYPE_CHECKING:
    import numpy as np

    from ..frontend.errors import ModelError, NodeError, UnsupportedError
    from ..frontend.onnx.partition import Subgraph
    from ..lowering.llvm_to_object.codegen import CodegenError
    from ..passes.infra.base import PassError
    from ..passes.infra.failure import CompileError
    from ..passes.infra.runner import PassFailure
    from .compilation import Compilation


@short_repr
@dataclass(frozen=True)
class Specializer:
    """Compiles one model, or a subgraph of one, for one set of input shapes (and contents).

    Attributes:
        source: the model.
        names: the names of its inputs.
        setup: target, options and cache.
    """

    source: ModelSource | PieceSource
    names: tuple[str, ...]
    setup: Setup

    def __call__(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | HybridModel:
        """Returns the program, the inputs whose contents must be known for one, or a hybrid plan.

        Raises:
            ModelError: the model is damaged, or has a node that can run nowhere.
            PassFailure, PassError, CodegenError: the compiler failed.
        """
        key, cache = self.key(shapes, contents), self.setup.cache
        with self._reported(key.shapes, self._reason(contents)) as reporter:
            made = self._load_or_compile(key, cache, shapes, contents, reporter)
        if not isinstance(made, ExecutionPlan):
            return made
        self._report(made)
        return LoadedPlan(made, self.compile_piece, self.source.name, foresight=self.foresight)

    def _reported(self, what: str, why: str) -> AbstractContextManager[CompileReporter]:
        """Reports the start and the end of a compile; see `progress.reporting`."""
        setup = self.setup
        return progress.reporting(setup.options.progress, self.source.name, what, why, setup.target)

    def _reason(self, contents: Contents) -> str:
        """Returns why the code of one set of input shapes is needed."""
        reason = progress.reason()
        if contents:
            names = ", ".join(self.names[position] for position in contents)
            reason += f" and contents of {names}"
        prefixes = ["subgraph of a model"] if isinstance(self.source, PieceSource) else []
        prefixes += ["loaded artefact"] if self.setup.is_loaded else []
        return ", ".join([*prefixes, reason])

    def _load_or_compile(
        self,
        key: CacheKey,
        cache: Cache | None,
        shapes: tuple[Shape, ...],
        contents: Contents,
        reporter: CompileReporter,
    ) -> Program | ByContents | ExecutionPlan:
        known = store.get_program(cache, key.digest) if cache else None
        if known is not None:
            return known
        if cache and self.setup.must_hit:
            raise cache_key.miss(cache, key)
        with program_lock(cache, key.digest, reporter.wait):
            # Another process may have compiled it since the last look-up.
            known = store.get_program(cache, key.digest) if cache else None
            if known is not None:
                return known
            reporter.miss()
            # Much of a first compile is imports; workers start during these.
            with paused_collection(), worker_pool(self._processes()) as workers:
                made = self._compile_or_plan(shapes, contents, workers if workers.workers else None)
            if cache:
                _store_result(cache, key, made)
        if isinstance(made, Program):
            slow.warn(self.source.name, slow_kernels(made))
        return made

    def for_buckets(
        self, inputs: Sequence[TensorInfo], buckets: Buckets, derived: Mapping[str, Expression]
    ) -> tuple[list[Program], str]:
        """Compiles one program for each bucket of sizes; returns none, and the reason, if that is not possible.

        `derived` gives the dimensions that are computed from those of the buckets. A warning states the reason too.

        Raises:
            CacheMissError: all programs must be in the cache, and one is not.
            PassError, PassFailure, CodegenError: the compiler failed, and `fallback` is "error".
        """
        keys = self.keys_of_buckets(buckets, derived)
        what = "; ".join(key.sizes for key in keys)
        with self._reported(what, "for ranges of sizes") as reporter:
            return self._bucket_programs(inputs, buckets, derived, keys, reporter)

    def _bucket_programs(
        self,
        inputs: Sequence[TensorInfo],
        buckets: Buckets,
        derived: Mapping[str, Expression],
        keys: Sequence[CacheKey],
        reporter: CompileReporter,
    ) -> tuple[list[Program], str]:
        cache = self.setup.cache
        known = self._known_buckets(keys)
        if len(known) == len(buckets):
            return known, ""
        if cache and self.setup.must_hit:
            raise cache_key.miss(cache, keys[len(known)])
        from ..frontend.errors import UnsupportedError

        # isort: split
        from ..lowering.llvm_to_object.codegen import CodegenError
        from ..passes.infra.base import PassError
        from ..passes.infra.runner import PassFailure
        from .ranges import BoundedError, compile_bounded

        with program_lock(cache, key_of(*(key.digest for key in keys)), reporter.wait):
            known = self._known_buckets(keys)
            if len(known) == len(buckets):
                return known, ""
            reporter.miss()
            try:
                programs = compile_bounded(self._compilation(), self.source, inputs, buckets, derived)
            except (BoundedError, UnsupportedError) as error:
                return [], self._warn_no_ranges(str(error))
            except (PassError, PassFailure, CodegenError) as error:
                # A loop that a CPU runs may have no launch plan on a GPU: there it is a limitation, here a bug.
                if not backend_of(self.setup.target).runs_loops:
                    return [], self._warn_no_ranges(str(error))
                if self.setup.options.fallback == "error":
                    raise
                return [], self._warn_no_ranges(_as_bug(error))
            for key, program in zip(keys, programs, strict=True):
                if cache:
                    _store_result(cache, key, program)
        slow.warn(self.source.name, dict.fromkeys(reason for program in programs for reason in slow_kernels(program)))
        return programs, ""

    def _known_buckets(self, keys: Sequence[CacheKey]) -> list[Program]:
        """Returns the programs of buckets that are in the cache."""
        cache = self.setup.cache
        known = [store.get_program(cache, key.digest) if cache else None for key in keys]
        return [program for program in known if isinstance(program, Program)]

    def _warn_no_ranges(self, reason: str) -> str:
        """Warns that no program serves the ranges, and returns the reason."""
        message = f"{self.source.name}: compiled for each size separately, at the first call that has it: {reason}"
        warnings.warn(message, slow.SlowWarning, stacklevel=4)
        return reason

    def keys_of_buckets(self, buckets: Buckets, derived: Mapping[str, Expression]) -> list[CacheKey]:
        """Returns the cache key of the program of each bucket of sizes."""
        key = self.key((), {})
        return [
            replace(key, sizes=", ".join(f"{name}={values}" for name, values in {**item, **derived}.items()))
            for item in buckets
        ]

    def key(self, shapes: tuple[Shape, ...], contents: Contents) -> CacheKey:
        """Returns the cache key for these shapes (and contents)."""
        target = self.setup.target
        held = [item for position, array in contents.items() for item in (str(position), array.tobytes())]
        texts = [f"{name}={'x'.join(map(str, shape))}" for name, shape in zip(self.names, shapes, strict=False)]
        return CacheKey(
            self.source.name,
            fingerprint(),
            self.source.fingerprint,
            target,
            machine=_this_machine() if target.partition("+")[0] == "cpu" else "",
            options=self.setup.options.key,
            plugins=plugins.fingerprint(),
            element_types=" ".join(self.source.kinds) if isinstance(self.source, PieceSource) else "",
            shapes=", ".join(texts),
            contents=key_of(*held) if held else "",
        )

    def _compile_or_plan(
        self, shapes: tuple[Shape, ...], contents: Contents, workers: WorkerPool | None
    ) -> Program | ByContents | ExecutionPlan:
        from ..frontend.errors import NeedsContents, NodeError, UnsupportedError
        from ..lowering.llvm_to_object.codegen import CodegenError
        from ..passes.infra.base import PassError
        from ..passes.infra.runner import PassFailure

        compilation = self._compilation()
        held = {self.names[position]: array for position, array in contents.items()}
        by_name = dict(zip(self.names, shapes, strict=True))
        try:
            return compilation.program(self.source, by_name, held, workers)
        except NeedsContents as error:
            if error.inputs and self._may_depend_on(error.inputs):
                return ByContents(tuple(map(self.names.index, error.inputs)), str(error))
            return self._plan_with_host_nodes(error)
        except UnsupportedError as error:
            return self._plan_with_host_nodes(error)
        except NodeError as error:
            if not self._is_valid(error):
                raise
            return self._plan_with_host_nodes(error)
        except (PassError, PassFailure, CodegenError) as error:
            if not self._may_run_in_steps or self.setup.options.fallback == "error":
                raise
            return self._plan_around_failure(error)

    def _processes(self) -> int:
        """Returns the number of processes that are worth starting, including this one."""
        from ..frontend.errors import ModelError

        if self.setup.is_guarded or not isinstance(self.source, ModelSource):
            return 1  # they are started when kernels are compiled
        try:
            return self.setup.options.codegen_threads if self.source.size >= LARGE else 1
        except ModelError:  # raised again when the model is compiled
            return 1

    @property
    def _may_run_in_steps(self) -> bool:
        is_onnx = isinstance(self.source, PieceSource) or self.source.kind == "onnx"
        return is_onnx and self.setup.options.reached is None and not self.setup.options.substitutes

    @property
    def _was_inlined(self) -> bool:
        return isinstance(self.source, ModelSource) and self.source.has_functions

    def _is_valid(self, error: NodeError) -> bool:
        """Returns whether ONNX itself accepts the node that an error is about."""
        from ..frontend.onnx import partition

        if not self._may_run_in_steps or error.position is None:
            return False
        if self._was_inlined:
            return True  # the error recurs, with the position that the node has then
        return partition.accepts(self.source.model, error)

    def _compilation(self) -> Compilation:
        from .compilation import Compilation

        return Compilation(self.setup)

    def _may_depend_on(self, inputs: tuple[str, ...]) -> bool:
        """Returns whether to compile one program per content of these inputs: model inputs, or decided by shapes."""
        return not isinstance(self.source, PieceSource) or set(inputs) <= self.source.decided()

    def _plan_with_host_nodes(self, error: UnsupportedError | NodeError) -> ExecutionPlan:
        """Returns a hybrid plan with the node of an error, and others that cannot be compiled, on the host.

        Raises:
            UnsupportedError: a node can run nowhere, or none may run on the host.
        """
        from ..frontend.onnx import partition

        if not self._may_run_in_steps:
            raise error
        model = self.source.model
        on_host = partition.nodes_on_host(model, None if self._was_inlined else error)
        plan = self._plan_of(partition.partition(model, on_host))
        repeats = any(set(step.inputs) == set(self.names) for step in plan.steps)
        if not plan.fallbacks and not self._was_inlined and repeats:
            raise error  # it would recur
        _check_host(plan, error, self.source.name)
        return plan

    def _plan_around_failure(self, error: PassError | PassFailure | CodegenError) -> ExecutionPlan:
        """Returns a hybrid plan with the node at which the compiler failed on the host.

        If the error names no node, the model is cut into two subgraphs, one of which will fail again.
        """
        from ..frontend.onnx import partition
        from ..passes.ir.locations import names_in

        model, names = self.source.model, names_in(getattr(error, "location", None))
        on_host = partition.nodes_that_failed(model, names, error)
        return self._plan_of(partition.partition(model, on_host) if on_host else partition.halves(model))

    def _plan_of(self, cuts: Sequence[Subgraph]) -> ExecutionPlan:
        from ..frontend.onnx import bodies, partition

        model = self.source.model
        steps: list[Step] = []
        for cut in cuts:
            if cut.fallback is None:
                steps.append(NativeStep(cut.inputs, cut.outputs, cut.nodes))
                continue
            control = bodies.control_steps(model, cut, cut.fallback)
            host = [HostStep(cut.inputs, cut.outputs, partition.host_model(model, cut), cut.fallback)]
            steps += control or host
        plan = ExecutionPlan(self.names, tuple(output.name for output in model.proto.graph.output), tuple(steps))
        missing = plan.missing()
        if missing is not None:
            from ..frontend.errors import ModelError

            raise ModelError(f"reads or returns '{missing}', which no input, weight or node provides").at(
                model=model.name
            )
        return plan

    def _report(self, plan: ExecutionPlan) -> None:
        """Reports which nodes run on the host.

        Raises:
            UnsupportedError: no node may.
        """
        found = plan.fallbacks
        if not found or self.setup.options.fallback == "quiet":
            return
        if self.setup.options.fallback == "error":
            from ..frontend.errors import UnsupportedError

            listed = "; ".join(map(str, found))
            reason = f"{quantity(len(found), 'node')} cannot be compiled, and none may run on the host: {listed}"
            raise UnsupportedError(reason, model=self.source.name)
        total = sum(len(step.nodes) if isinstance(step, NativeStep) else 1 for step in plan.steps)
        warnings.warn(f"{self.source.name}: {summary(found, total)}", FallbackWarning, stacklevel=2)

    def compile_piece(self, step: NativeStep, kinds: Kinds) -> PieceCode:
        """Returns the compiler of a subgraph, for inputs of given element types."""
        piece = replace(self, source=PieceSource(self.source, step, kinds, self._names_decided), names=step.inputs)
        may_run_on_host = self.setup.options.fallback != "error"
        return PieceCode(piece, piece.on_host if may_run_on_host else None, piece.compile_piece, piece.foresight)

    def on_host(self, reason: str) -> HybridModel:
        """Returns a plan with every node on the host."""
        from ..frontend.onnx import partition

        model = self.source.model
        nodes = {
            index: partition.fallback_of(model, index, reason, "size")
            for index, node in enumerate(model.proto.graph.node)
            if node.op_type != "Constant"
        }
        plan = self._plan_of(partition.partition(model, nodes))
        self._report(plan)
        return LoadedPlan(plan, self.compile_piece, self.source.name, foresight=self.foresight)

    @property
    def foresight(self) -> Foresight:
        """Predicts the types of values before a run."""
        return _Foresight(self._names_decided)

    @property
    def _names_decided(self) -> Callable[[], set[str]]:
        return self.source.decided if isinstance(self.source, PieceSource) else self._decided

    def _decided(self) -> set[str]:
        from ..frontend.onnx import partition

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
        from ..frontend.onnx import host_types

        return host_types.outputs_of(step, inputs, contents)

    def is_decided(self, name: str) -> bool:
        """See `Foresight`."""
        return name in self._decided

    @functools.cached_property
    def _decided(self) -> set[str]:
        return self.names()


def _store_result(cache: Cache, key: CacheKey, made: Program | ByContents | ExecutionPlan) -> None:
    cache_key.remember(cache, key)
    if isinstance(made, Program):
        store.put_program(cache, key.digest, made)
    elif isinstance(made, ByContents):
        store.put_by_contents(cache, key.digest, made)
    else:
        store.put_plan(cache, key.digest, made)


def _as_bug(error: CompileError) -> str:
    """Describes a failure of the compiler in one sentence: reason, location, reproducer, and how to report it."""
    from ..passes.infra.failure import one_line

    failure = error.failure
    node = next((str(op).partition(":")[0] for op in failure.ops), "") if failure else ""
    place = [f"phase {error.phase}" * bool(error.phase), f"pass {error.pass_name}" * bool(error.pass_name), node]
    where = ", ".join(filter(None, place)) or "an unknown place"
    kept = f" with the folder {error.reproducer}" if error.reproducer else ""
    advice = f"this is a bug, please report it{kept}; fallback='error' raises it"
    return f"the compiler failed in {where}: {one_line(str(error))}; {advice}"


def _check_host(plan: ExecutionPlan, error: ModelError, model: str) -> None:
    """Checks that every node on the host can run there.

    Raises:
        UnsupportedError: some cannot; the message names all of them.
    """
    missing: list[Fallback] = []
    for step in plan.steps:
        if isinstance(step, HostStep):
            try:
                HostNode(step.model, step.fallback.node).check()
            except HostStepError:
                missing.append(step.fallback)
    if missing:
        listed = "; ".join(map(str, missing))
        from ..frontend.errors import UnsupportedError

        reason = f"has nodes that can neither be compiled nor run on the host: {listed}"
        raise UnsupportedError(reason, model=model) from error


def _this_machine() -> str:
    """Returns what code for this machine depends on: its instruction sets, and the figures that schedules go by."""
    from ..runtime import processor
    from ..runtime.devices import figures

    return "+".join(sorted(processor.features() or ())) + figures.text()
