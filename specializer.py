"""What makes code for given input shapes: from the cache, or by compiling; in steps where not all can be compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .lowering.kernel_objects.team import LARGE, waiting_team
from .runtime import cache_key, slow, store
from .runtime.buckets import Buckets
from .runtime.cache import Cache
from .runtime.cache_key import CacheKey
from .runtime.collection import paused_collection
from .runtime.expressions import Expression
from .runtime.fallback import Fallback, FallbackWarning, summary
from .runtime.host_step import HostNode, HostStepError
from .runtime.loaded_plan import LoadedPlan, PieceCode
from .runtime.plan import HostStep, Kinds, NativeStep, Plan, Step
from .runtime.program import Program, Shape, TensorInfo
from .runtime.report.report import slow_kernels
from .runtime.specialization import ByContents, Contents, Steps
from .source import ModelSource, PieceSource
from .version import fingerprint

if TYPE_CHECKING:
    import numpy as np
    from mlir import ir

    from .compilation import Compilation
    from .frontend.errors import ModelError, NodeError, UnsupportedError
    from .frontend.onnx.partition import Cut
    from .lowering.llvm_to_object.codegen import CodegenError
    from .passes.base import PassError
    from .passes.instrumentation import Instrumentation
    from .passes.runner import PassFailure


@dataclass(frozen=True)
class Settings:
    """What code is made for and how, whichever part of a model it is for.

    Attributes:
        target: the target's name.
        cache: where code is kept; None where none is.
        codegen_threads: how many kernels are compiled at the same time.
        winograd: whether convolutions may be computed by Winograd's method.
        fallback: "warn" of nodes on the host, refuse them as an "error", or be "quiet" about them.
        reached: told each phase.
        instrumentation: told each pass.
        must_hit: whether what is not in the cache is an error.
        substitutes: the names of kernels, and the files of those that take their place.
        guarded: whether each compile is in a process of its own.
    """

    target: str
    cache: Cache | None
    codegen_threads: int
    winograd: bool
    fallback: str
    reached: Callable[[str, ir.Module, Mapping[str, np.ndarray]], None] | None = None
    instrumentation: tuple[Instrumentation, ...] = ()
    must_hit: bool = False
    substitutes: tuple[tuple[str, Path], ...] = ()
    guarded: bool = False


@dataclass(frozen=True)
class Specializer:
    """Makes the code of one model, or of a piece of one, for one set of input shapes (and contents).

    Attributes:
        source: the model.
        names: its inputs.
        settings: how code is made.
    """

    source: ModelSource | PieceSource
    names: tuple[str, ...]
    settings: Settings

    def __call__(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | Steps:
        """The program, what else must be known for one, or steps.

        Raises:
            ModelError: the model is damaged, or a node of it can run nowhere.
            PassFailure, PassError, CodegenError: the compiler failed.
        """
        key, cache = self.key(shapes, contents), self.settings.cache
        known = store.get_program(cache, key.digest) if cache else None
        if cache and known is None and self.settings.must_hit:
            raise cache_key.miss(cache, key)
        # Of the first compile a good part is imports, and so is the work of another process until it is of use.
        with paused_collection(), waiting_team(self._processes() if known is None else 1):
            made = self._made(shapes, contents) if known is None else known
        if cache and known is None:
            _keep(cache, key, made)
        if known is None and isinstance(made, Program):
            slow.warn(self.source.name, slow_kernels(made))
        if not isinstance(made, Plan):
            return made
        self._report(made)
        return LoadedPlan(made, self.compile_piece, self.source.name)

    def for_buckets(
        self, inputs: Sequence[TensorInfo], buckets: Buckets, derived: Mapping[str, Expression]
    ) -> tuple[list[Program], str]:
        """One program for each bucket of sizes; none where the model cannot be compiled so, with the reason.

        Other dimensions follow from those of the buckets.
        A warning says it too.
        """
        cache = self.settings.cache
        keys = self.keys_of_buckets(buckets, derived)
        known = [store.get_program(cache, key.digest) if cache else None for key in keys]
        programs = [program for program in known if isinstance(program, Program)]
        if len(programs) == len(buckets):
            return programs, ""
        if cache and self.settings.must_hit:
            raise cache_key.miss(cache, keys[len(programs)])
        from .frontend.errors import UnsupportedError

        # isort: split
        from .bounded import BoundedError, compile_bounded
        from .lowering.llvm_to_object.codegen import CodegenError
        from .passes.base import PassError
        from .passes.runner import PassFailure

        # What CPUs can loop over may have no place in a launch plan; of CPUs it is a fault of ours.
        of_gpu = (PassError, PassFailure, CodegenError) if self.settings.target.startswith("cuda:") else ()
        try:
            programs = compile_bounded(self._compilation(), self.source, inputs, buckets, derived)
        except (BoundedError, UnsupportedError, *of_gpu) as error:
            message = f"{self.source.name}: compiled for each size by itself, when a call first has it: {error}"
            warnings.warn(message, stacklevel=3)
            return [], str(error)
        for key, program in zip(keys, programs, strict=True):
            if cache:
                _keep(cache, key, program)
        slow.warn(self.source.name, dict.fromkeys(reason for program in programs for reason in slow_kernels(program)))
        return programs, ""

    def keys_of_buckets(self, buckets: Buckets, derived: Mapping[str, Expression]) -> list[CacheKey]:
        """What the program of each bucket of sizes is kept under."""
        key = self.key((), {})
        return [
            replace(key, sizes=", ".join(f"{name}={values}" for name, values in {**item, **derived}.items()))
            for item in buckets
        ]

    def key(self, shapes: tuple[Shape, ...], contents: Contents) -> CacheKey:
        """What is made for these shapes (and contents) is kept under."""
        from .runtime import host

        target = self.settings.target
        held = [item for position, array in contents.items() for item in (str(position), array.tobytes())]
        texts = [f"{name}={'x'.join(map(str, shape))}" for name, shape in zip(self.names, shapes, strict=False)]
        return CacheKey(
            self.source.name,
            fingerprint(),
            self.source.fingerprint,
            target,
            machine="+".join(sorted(host.features() or ())) if target.partition("+")[0] == "cpu" else "",
            options=f"winograd={self.settings.winograd}",
            element_types=" ".join(self.source.kinds) if isinstance(self.source, PieceSource) else "",
            shapes=", ".join(texts),
            contents=store.key_of(*held) if held else "",
        )

    def _made(self, shapes: tuple[Shape, ...], contents: Contents) -> Program | ByContents | Plan:
        from .frontend.errors import NeedsContents, NodeError, UnsupportedError
        from .lowering.llvm_to_object.codegen import CodegenError
        from .passes.base import PassError
        from .passes.runner import PassFailure

        compilation = self._compilation()
        held = {self.names[position]: array for position, array in contents.items()}
        by_name = dict(zip(self.names, shapes, strict=True))
        try:
            return compilation.program(self.source, by_name, held)
        except NeedsContents as error:
            if error.inputs and self._may_depend_on(error.inputs):
                return ByContents(tuple(map(self.names.index, error.inputs)), str(error))
            return self._planned(error)
        except UnsupportedError as error:
            return self._planned(error)
        except NodeError as error:
            if not self._is_valid(error):
                raise
            return self._planned(error)
        except (PassError, PassFailure, CodegenError) as error:
            if not self._may_run_in_steps or self.settings.fallback == "error":
                raise
            return self._planned_around(error)

    def _processes(self) -> int:
        """How many processes are worth starting, this one counted."""
        from .frontend.errors import ModelError

        if self.settings.guarded or not isinstance(self.source, ModelSource):
            return 1  # they are started when it comes to that
        try:
            return self.settings.codegen_threads if self.source.size >= LARGE else 1
        except ModelError:  # which is raised when the model is compiled
            return 1

    @property
    def _may_run_in_steps(self) -> bool:
        is_onnx = isinstance(self.source, PieceSource) or self.source.kind == "onnx"
        return is_onnx and self.settings.reached is None and not self.settings.substitutes

    @property
    def _was_inlined(self) -> bool:
        return isinstance(self.source, ModelSource) and self.source.has_functions

    def _is_valid(self, error: NodeError) -> bool:
        """Whether ONNX itself finds nothing wrong with the node that an error is about."""
        from .frontend.onnx import partition

        if not self._may_run_in_steps or error.position is None:
            return False
        if self._was_inlined:
            return True  # the error comes again, and with the position that the node has then
        return partition.accepts(self.source.model, error)

    def _compilation(self) -> Compilation:
        from .compilation import Compilation
        from .lowering.substitution import Substitute

        settings = self.settings
        without = () if settings.winograd else ("stepwell-choose-winograd",)
        return Compilation(
            settings.target,
            settings.cache,
            settings.codegen_threads,
            settings.reached,
            without,
            settings.instrumentation,
            [Substitute(kernel, path) for kernel, path in settings.substitutes],
            settings.guarded,
        )

    def _may_depend_on(self, inputs: tuple[str, ...]) -> bool:
        """Whether a program for each content of some inputs is worth it: for the users', and for what shapes decide."""
        return not isinstance(self.source, PieceSource) or set(inputs) <= self.source.decided()

    def _planned(self, error: UnsupportedError | NodeError) -> Plan:
        """The model in steps, with the node that an error is about on the host, and others that cannot be compiled.

        Raises:
            UnsupportedError: a node can run nowhere, or none may run on the host.
        """
        from .frontend.onnx import partition

        if not self._may_run_in_steps:
            raise error
        model = self.source.model
        on_host = partition.nodes_on_host(model, None if self._was_inlined else error)
        plan = self._plan_of(partition.partition(model, on_host))
        repeats = any(set(step.inputs) == set(self.names) for step in plan.steps)
        if not plan.fallbacks and not self._was_inlined and repeats:
            raise error  # it would come again
        _check_host(plan, error, self.source.name)
        return plan

    def _planned_around(self, error: PassError | PassFailure | CodegenError) -> Plan:
        """The model in steps, with those nodes on the host that the compiler failed at.

        Where it does not say which these are, the model is cut in two pieces, of which one will fail again.
        """
        from .frontend.onnx import partition

        model, places = self.source.model, str(getattr(error, "location", None) or "")
        on_host = partition.nodes_that_failed(model, places, error)
        return self._plan_of(partition.partition(model, on_host) if on_host else partition.halves(model))

    def _plan_of(self, cuts: Sequence[Cut]) -> Plan:
        from .frontend.onnx import bodies, partition

        model = self.source.model
        steps: list[Step] = []
        for cut in cuts:
            if cut.fallback is None:
                steps.append(NativeStep(cut.inputs, cut.outputs, cut.nodes))
                continue
            control = bodies.control_steps(model, cut, cut.fallback)
            host = [HostStep(cut.inputs, cut.outputs, partition.host_model(model, cut), cut.fallback)]
            steps += control or host
        plan = Plan(self.names, tuple(output.name for output in model.proto.graph.output), tuple(steps))
        missing = plan.missing()
        if missing is not None:
            from .frontend.errors import ModelError

            raise ModelError(f"reads or returns '{missing}', which no input, weight or node provides").at(
                model=model.name
            )
        return plan

    def _report(self, plan: Plan) -> None:
        """Says which nodes run on the host.

        Raises:
            UnsupportedError: none may.
        """
        found = plan.fallbacks
        if not found or self.settings.fallback == "quiet":
            return
        if self.settings.fallback == "error":
            from .frontend.errors import UnsupportedError

            listed = "; ".join(map(str, found))
            count = "1 node" if len(found) == 1 else f"{len(found)} nodes"
            reason = f"{count} cannot be compiled, and none may run on the host: {listed}"
            raise UnsupportedError(reason, model=self.source.name)
        total = sum(len(step.nodes) if isinstance(step, NativeStep) else 1 for step in plan.steps)
        warnings.warn(f"{self.source.name}: {summary(found, total)}", FallbackWarning, stacklevel=2)

    def compile_piece(self, step: NativeStep, kinds: Kinds) -> PieceCode:
        """What makes the code of a piece, for inputs of given element types."""
        decided = self.source.decided if isinstance(self.source, PieceSource) else self._decided
        piece = replace(self, source=PieceSource(self.source, step, kinds, decided), names=step.inputs)
        may_run_on_host = self.settings.fallback != "error"
        return PieceCode(piece, piece.on_host if may_run_on_host else None, piece.compile_piece)

    def on_host(self, reason: str) -> Steps:
        """All of it in steps, every node on the host."""
        from .frontend.onnx import partition

        model = self.source.model
        nodes = {
            index: partition.fallback_of(model, index, reason, "size")
            for index, node in enumerate(model.proto.graph.node)
            if node.op_type != "Constant"
        }
        plan = self._plan_of(partition.partition(model, nodes))
        self._report(plan)
        return LoadedPlan(plan, self.compile_piece, self.source.name)

    def _decided(self) -> set[str]:
        from .frontend.onnx import partition

        names = partition.follow_from_shapes(self.source.model)
        return names | set(self.names)


def _keep(cache: Cache, key: CacheKey, made: Program | ByContents | Plan) -> None:
    cache_key.remember(cache, key)
    if isinstance(made, Program):
        store.put_program(cache, key.digest, made)
    elif isinstance(made, ByContents):
        store.put_by_contents(cache, key.digest, made)
    else:
        store.put_plan(cache, key.digest, made)


def _check_host(plan: Plan, error: ModelError, model: str) -> None:
    """Sees that every node on the host can run there.

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
        from .frontend.errors import UnsupportedError

        reason = f"has nodes that can neither be compiled nor run on the host: {listed}"
        raise UnsupportedError(reason, model=model) from error
