"""One compile: takes a model at given input shapes through the phases to a program for the runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from mlir import ir

from ...dialects import discardable
from ...dialects.symbols import symbol_of
from ...frontend.errors import ModelError
from ...frontend.module_checks import check_all_there
from ...lowering import invariants
from ...passes.infra.base import PassError
from ...passes.infra.failure import ModelOp
from ...passes.infra.guarded import CompilerCrash, Crash, Note, guarded
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.state import CompileState
from ...passes.ir.functions import value_names
from ...passes.kernel.demand import read_table
from ...runtime.cache.keys import key_of
from ...runtime.facts import CompileFacts, KernelDetails
from ...runtime.program import Program, Shape
from ...runtime.progress.progress import CompileReporter
from ...sizes.bounds import Bounds
from ...support.short_repr import short_repr
from ...targets.name_kernels import NameKernelsPass
from ...targets.registry import backend_of, target_of
from .. import facts, route
from ..caching import plugins
from ..caching.fingerprint import fingerprint
from ..caching.locks import KernelTurns
from ..child_process import in_child_process
from ..context import compiler_context
from ..failure_recorder import FailureRecorder, process_recorder
from ..failures.reproducers import explained, nodes_of
from ..setup import Setup
from ..sources.source import Importable
from ..workers.library import KernelCode, generate
from ..workers.pool import KernelPool, kernel_pool
from ..workers.worker_pool import LARGE, WorkerPool
from .kernel_table import kernel_infos, with_signatures
from .program import bounds_of, program_of


@dataclass
class _ReportFacts:
    """Facts about one module that are collected during its compile, for the report."""

    nodes: Sequence[Any] = ()
    details: dict[str, KernelDetails] = field(default_factory=dict)
    facts: CompileFacts = field(default_factory=CompileFacts)


@short_repr
@dataclass(frozen=True)
class Compilation:
    """Compiles programs; each method call is one compile, in a new MLIR context.

    Attributes:
        setup: the target, the options and the cache.
        reporter: receives the progress; None if nothing is reported.
        plugins: the fingerprint of the plug-ins that take part; one that registers during a compile takes part in the
            next one.
    """

    setup: Setup = field(default_factory=Setup)
    reporter: CompileReporter | None = None
    plugins: str = field(default_factory=plugins.fingerprint)

    @property
    def target(self) -> str:
        """The target's name."""
        return self.setup.target

    def program(
        self,
        source: Importable,
        shapes: Mapping[str, Shape],
        contents: Mapping[str, np.ndarray] | None = None,
        workers: WorkerPool | None = None,
    ) -> Program:
        """Compiles the program for one set of input shapes.

        Args:
            source: the model.
            shapes: the shape of each input.
            contents: contents of some inputs.
            workers: workers that were started in advance; None for none.

        Raises:
            ModelError: the model cannot be read.
            NeedsContents: `contents` lacks an input whose contents must be known.
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM rejected a function.
            CompilerCrash: native code ended the child process that it ran in.
        """

        def described() -> Mapping[str, ModelOp]:
            with compiler_context(self.loads_all) as context, ir.Location.unknown():
                return nodes_of(source.import_into(context, shapes, contents or {}))

        def made(recorder: FailureRecorder | None = None) -> Program:
            return self._program(source, shapes, contents or {}, workers, recorder or process_recorder())

        with explained(made, self.target, described):
            return in_child_process(made, self.reporter) if self.setup.is_guarded else made()

    @property
    def loads_all(self) -> bool:
        """True if contexts have all dialects, as code of callers and plug-ins may build ops of any."""
        return self.setup.is_whole or len(self.setup.options.passes) > 0 or self.plugins != ""

    def state(self, **fields: Any) -> CompileState:
        """Returns the state of a new compile; see `Setup.state`."""
        return self.setup.state(reporter=self.reporter, **fields)

    def _program(
        self,
        source: Importable,
        shapes: Mapping[str, Shape],
        contents: Mapping[str, np.ndarray],
        workers: WorkerPool | None,
        recorder: FailureRecorder | None,
    ) -> Program:
        # Worker processes start while the model is read.
        processes = self.setup.options.codegen_threads if source.size >= LARGE else 1
        pools = kernel_pool(processes, workers, may_start=self.plugins == "")
        with compiler_context(self.loads_all) as context, ir.Location.unknown(), pools as pool:
            imported = source.import_into(context, shapes, contents)
            module, state = imported.module, self.state(parameters=dict(imported.parameters), recorder=recorder)
            start = phase_of(module, self.target)
            collected = _ReportFacts(imported.nodes)
            self._phase_reached("import", module, state)
            if start not in ("import", "graph"):
                if not self.setup.is_whole:
                    try:
                        check_all_there(module, imported.parameters)
                    except ModelError as error:
                        raise error.at(model=imported.name) from None
                self._compile_in_child(module, state, start)
            if start == "import":
                state.shapes = _input_shapes(module, shapes)
                options = self.setup.options
                is_plain = not self.setup.is_whole and not options.passes and options.tuning is None
                if is_plain and backend_of(self.target).compiles_ahead:
                    pool.start_speculation(module, state)
                self.graph(module, state)
                if self.setup.substitutes:
                    self._compile_in_child(module, state, "graph")
            first = max(start, "graph", key=route.names(self.target).index)
            program = self._finish(module, state, first, pool, collected)
            return replace(program, contents=dict(contents))

    def graph(self, module: ir.Module, state: CompileState) -> None:
        """Takes a module from the phase `import` to the phase `graph`, and evaluates its @init."""
        route.run(module, state, stop="graph")
        self._phase_reached("graph", module, state)

    def at_graph(
        self, source: Importable, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray], **fields: Any
    ) -> tuple[ir.Module, CompileState]:
        """Imports a model into the current MLIR context and takes it to the phase `graph`.

        Args:
            source: the model.
            shapes: the shape of each input.
            contents: contents of some inputs.
            **fields: fields of the state that do not follow from the setup.

        Raises:
            ModelError, NeedsContents: as `program` does.
            PassFailure, PassError: a pass failed.
        """
        context = ir.Context.current
        assert context is not None, "there is no current context"
        imported = source.import_into(context, shapes, contents)
        module, state = imported.module, self.state(parameters=dict(imported.parameters), **fields)
        if phase_of(module, self.target) == "import":
            state.shapes = _input_shapes(module, shapes)
            self.graph(module, state)
        return module, state

    def from_graph(self, module: ir.Module, state: CompileState) -> Program:
        """Compiles a module in the phase `graph`, which is changed, in this process; see `program`."""
        return self._finish(module, state, "graph")

    def for_ranges(
        self, module: ir.Module, state: CompileState, nodes: Sequence[Any], pool: KernelPool
    ) -> tuple[Program, Bounds]:
        """Compiles a module in the phase `import` that is for ranges of sizes.

        Args:
            module: the module.
            state: the state of the compile, with the contents of the module's parameters.
            nodes: the model's nodes that it was built from, for the report.
            pool: compiles the kernels.

        Raises:
            RangesError: one program cannot serve all sizes; names the op.
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM rejected a function.
        """
        self._phase_reached("import", module, state)
        self.graph(module, state)
        bounds = bounds_of(module.operation)
        program = self._finish(module, state, "graph", pool, _ReportFacts(nodes))
        # Later passes add entries to the table.
        return program, replace(bounds, table=tuple(read_table(module.operation)))

    def _compile_in_child(self, module: ir.Module, state: CompileState, start: str) -> None:
        """Compiles a module that our own passes did not produce in a child process first, to detect a crash.

        Raises:
            PassError: the child process crashed.
        """

        def work(note: Note) -> bytes:
            note(f"the passes after phase '{start}'")

            def reached(phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
                note(f"the passes after phase '{phase}'")

            setup = replace(self.setup, cache=None).changed(
                codegen_threads=1, reached=reached, instrumentation=(), guarded=False
            )
            # Only this process calls the callbacks.
            Compilation(setup)._finish(module, replace(state, reporter=None, instrumentation=()), start)
            return b""

        try:
            guarded(work)
        except Crash as error:
            raise CompilerCrash(str(error), error.signal_name) from None

    def _finish(
        self,
        module: ir.Module,
        state: CompileState,
        start: str,
        pool: KernelPool | None = None,
        collected: _ReportFacts | None = None,
    ) -> Program:
        pool, collected = pool or KernelPool(self.setup.options.codegen_threads), collected or _ReportFacts()
        order, placed = route.names(self.target), route.placed(self.target)
        for substitute in self.setup.substitutes:
            if order.index(substitute.phase(module.context, self.target)) <= order.index(start):
                raise PassError(f"{substitute.path}: the model is already past the phase of this kernel")

        def tell(phase: str, module: ir.Module) -> None:
            self._phase_reached(phase, module, state)

        def run(start: str, stop: str | None) -> None:
            route.run(module, state, start, stop, tell)

        kernels, objects = {}, {}
        if start == "graph" and not self.setup.is_whole:
            with state.in_phase("kernels"):
                route.form_kernels_pipeline(self.target).run(module, verify=False, state=state)
            state.report_phase("kernels")
            kernels = kernel_infos(module)
            collected.facts = _facts(module, collected, state)
            objects = self._compile_kernels(module, state, pool, collected)
            with state.in_phase("kernels"):
                route.lower_kernels_pipeline(self.target).run(module, verify=False, state=state)
                route.check(route.phase("kernels", self.target), module, state)
            start = "kernels"
        elif order.index(start) <= order.index("kernels"):
            run(start, "kernels")
            # Kernels that were read in this phase, or substituted, may have any name.
            Pipeline((NameKernelsPass(self.target),)).run(module, verify=False, state=state)
            kernels, start = kernel_infos(module), "kernels"
            collected.facts = _facts(module, collected, state)
        if order.index(start) < order.index(placed):
            run(start, placed)
            found = [*invariants.kernels(module)]
            collected.details |= {
                symbol_of(kernel): facts.kernel_details(kernel, self.target)
                for kernel in found
                if not invariants.is_declaration(kernel)
            }
            start = placed
        run(start, None)
        kernels = with_signatures(module, kernels)
        fresh = generate(module, state, self.setup.options.codegen_threads)
        everything = {**objects, **fresh}
        width = target_of(self.target).vector_bytes
        tuned = facts.tuned_kernels(state.tuning, kernels)
        found = replace(collected.facts, vector_bytes=width, details=collected.details, tuned=tuned)
        if not objects:  # otherwise passes on kernels ran elsewhere, or not at all
            found = replace(found, remarks=facts.worth_reporting(state.remarks, found.calls))
        program = program_of(module, state.parameters or {}, self.target, everything, list(kernels.values()))
        return replace(program, facts=found.encoded())

    def _compile_kernels(
        self, module: ir.Module, state: CompileState, pool: KernelPool, collected: _ReportFacts
    ) -> dict[str, bytes]:
        """Returns the objects of all kernels, and replaces the kernels by declarations.

        Kernels are taken from the cache if possible. The others are compiled, except those that another process or
        thread is compiling: these are waited for last.
        """
        kernels = {symbol_of(kernel): kernel for kernel in invariants.kernels(module)}
        keys = {name: kernel_key(kernel, self.plugins) for name, kernel in kernels.items()}
        codes = self._all_cached(keys, kernels)
        waits = self.reporter.wait_for_kernels if self.reporter is not None else lambda: None
        turns = KernelTurns(self.setup.cache, {name: key for name, key in keys.items() if name not in codes}, waits)
        while True:
            with turns.turn() as names:
                codes |= self._all_cached(keys, names)  # others may have compiled them since the last look-up
                fresh = pool.compile([kernels[name] for name in kernels if name in names and name not in codes], state)
                if self.setup.cache is not None:
                    for name, code in fresh.items():
                        self.setup.cache.put("kernels", keys[name], code.encoded())
            codes |= fresh
            if not turns.left:
                break
        for name, kernel in kernels.items():
            make_declaration(kernel, ir.DictAttr(ir.Attribute.parse(codes[name].facts)))
        collected.details = {name: codes[name].details for name in kernels}
        # In the order of the model, independent of their source, so that the same model gives the same bytes.
        return {name: codes[name].data for name in kernels}

    def _all_cached(self, keys: Mapping[str, str], names: Iterable[str]) -> dict[str, KernelCode]:
        """Returns those kernels that are in the cache."""
        return {name: code for name in names if (code := self._cached(keys[name])) is not None}

    def _cached(self, key: str) -> KernelCode | None:
        data = self.setup.cache.get("kernels", key) if self.setup.cache is not None else None
        return None if data is None else KernelCode.decoded(bytes(data))

    def _phase_reached(self, phase: str, module: ir.Module, state: CompileState) -> None:
        state.report_phase(phase)
        for substitute in self.setup.substitutes:
            if substitute.phase(module.context, self.target) == phase:
                substitute.apply(module, phase)
        for watcher in self.setup.options.instrumentation:
            watcher.after_phase(phase, module.operation)
        if self.setup.options.reached is not None:
            self.setup.options.reached(phase, module, state.parameters or {})


def kernel_key(kernel: ir.Operation, plugins: str) -> str:
    """Returns the key of a kernel's code in the cache, before the kernel is lowered.

    The kernel's name identifies its computation, and its schedule, if it was given one, how it is computed. The rest of
    the key identifies the compiler.
    """
    schedule = discardable.SCHEDULE.read(kernel)
    return key_of(fingerprint(), plugins, symbol_of(kernel), *([] if schedule is None else [str(schedule)]))


def _facts(module: ir.Module, collected: _ReportFacts, state: CompileState) -> CompileFacts:
    # A module that was read in a later phase has linalg in its kernels, without layouts.
    operands = {
        symbol_of(kernel): facts.operands_of(kernel)
        for kernel in invariants.kernels(module)
        if not invariants.is_declaration(kernel)
    }
    return facts.facts_of(module, collected.nodes, state.remarks, state.evaluated, operands)


def _input_shapes(module: ir.Module, shapes: Mapping[str, Shape]) -> list[Shape]:
    """The shapes of the inputs of @main, in order."""
    main = ir.SymbolTable(module.operation)["main"]
    return [shapes[name] for name in value_names(main, "arg_attrs", "input")]


def phase_of(module: ir.Module, target: str) -> str:
    """Returns the phase that a module declares; `import` if it declares none.

    Raises:
        PassError: the target has no such phase.
    """
    phase = discardable.PHASE.read(module.operation)
    if phase is None:
        return "import"
    names = route.names(target)
    if phase not in names:
        raise PassError(f"there is no phase '{phase}' for {target}; the phases are {', '.join(names)}")
    return phase


def make_declaration(function: ir.Operation, facts: ir.DictAttr) -> None:
    """Replaces a kernel by a declaration, as its code exists; `facts` are the attributes that its callers need."""
    kept = ("sym_name", "function_type", "sym_visibility", discardable.KERNEL.name, "arg_attrs", "res_attrs")
    attributes = {name: function.attributes[name] for name in kept if name in function.attributes}
    with function.location, ir.InsertionPoint(function):
        ir.Operation.create(
            "func.func", attributes={**attributes, **{item.name: item.attr for item in facts}}, regions=1
        )
    function.erase()
