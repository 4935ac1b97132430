"""One compile: a model at given input shapes, down the phases, to a program that the runtime can run."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from mlir import ir

from .dialects import interpreter
from .failures import explained, nodes_of
from .frontend.errors import ModelError
from .frontend.notes import check_all_there
from .lowering import facts, invariants, phases
from .lowering.context import compiler_context
from .lowering.kernel_objects.library import KernelCode, generate
from .lowering.kernel_objects.pool import KernelPool, kernel_pool
from .lowering.kernel_objects.team import LARGE
from .lowering.kernel_table import name_by_content, with_signatures
from .lowering.program import program_of
from .lowering.substitution import Substitute
from .lowering.target import Target
from .passes.apart import apart
from .passes.base import PassError
from .passes.failure import ModelOp, in_phase
from .passes.functions import dictionaries, function_named
from .passes.graph.attention_bands import recognise_bands
from .passes.graph.denormal_weights import scale_denormal_weights
from .passes.graph.specialize_shapes import SpecializeShapesPass
from .passes.guarded import CompilerCrash, Crash, Note, guarded
from .passes.instrumentation import Instrumentation
from .passes.journal import Journal, journal
from .passes.pipeline import Pipeline
from .passes.rewriting import walk
from .runtime.cache import Cache
from .runtime.program import Program, Shape, aligned
from .source import Importable


@dataclass
class _Noted:
    """What is noted on the way of one module, for the report."""

    nodes: Sequence[Any] = ()
    kept: Journal = field(default_factory=Journal)
    initial: set[str] = field(default_factory=set)
    details: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


Reached = Callable[[str, ir.Module, Mapping[str, np.ndarray]], None]


@dataclass(frozen=True)
class Compilation:
    """How to compile; each method call is one compile, in an MLIR context of its own.

    Attributes:
        target: the target's name.
        cache: where objects are kept; None where nothing is.
        codegen_threads: how many kernels are compiled at the same time, in processes or threads.
        reached: told each phase, the module there, and the parameters that it names.
        without: the names of passes to leave out on the way to the phase `graph`.
        instrumentation: told before and after every pass.
        substitutes: kernels to put in the place of others.
        guarded: whether `program` does its work in a process of its own, so that a crash of native code is an error.
    """

    target: str = "cpu"
    cache: Cache | None = None
    codegen_threads: int = 2
    reached: Reached | None = None
    without: tuple[str, ...] = ()
    instrumentation: Sequence[Instrumentation] = ()
    substitutes: Sequence[Substitute] = ()
    guarded: bool = False

    def program(
        self, source: Importable, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray] | None = None
    ) -> Program:
        """The program for one set of input shapes.

        Args:
            source: the model.
            shapes: the shape of each input.
            contents: what some inputs hold.

        Raises:
            ModelError: the model cannot be read.
            NeedsContents: `contents` does not say all that must be known.
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a function.
            CompilerCrash: native code ended the process that it was done in.
        """

        def described() -> Mapping[str, ModelOp]:
            with compiler_context() as context, ir.Location.unknown():
                return nodes_of(source.import_into(context, shapes, contents or {}))

        def made() -> Program:
            return self._program(source, shapes, contents)

        with explained(made, self.target, described):
            return apart(made) if self.guarded else made()

    def _program(
        self, source: Importable, shapes: Mapping[str, Shape], contents: Mapping[str, np.ndarray] | None
    ) -> Program:
        # Other processes begin to start while the model is read.
        processes = self.codegen_threads if source.size >= LARGE else 1
        pools = kernel_pool(self.target, processes)
        with compiler_context() as context, ir.Location.unknown(), journal() as kept, pools as pool:
            imported = source.import_into(context, shapes, contents or {})
            module, parameters = imported.module, imported.parameters
            start = phase_of(module)
            noted = _Noted(imported.nodes, kept)
            self._tell("import", module, parameters)
            if start not in ("import", "graph"):
                if not self._is_watched:
                    try:
                        check_all_there(module, parameters)
                    except ModelError as error:
                        raise error.at(model=imported.name) from None
                self._rehearse(module, parameters, start)
            if start == "import":
                if not self._is_watched and not Target.parse(self.target).is_gpu:
                    pool.look_ahead(module, _input_shapes(module, shapes), self.without)
                parameters = self.graph(module, parameters, shapes, noted)
                if self.substitutes:
                    self._rehearse(module, parameters, "graph")
            first = max(start, "graph", key=phases.names(self.target).index)
            program = self._finish(module, parameters, first, pool, noted)
            return replace(program, contents=dict(contents or {}))

    def graph(
        self,
        module: ir.Module,
        parameters: Mapping[str, np.ndarray],
        shapes: Mapping[str, Shape],
        noted: _Noted | None = None,
    ) -> Mapping[str, np.ndarray]:
        """Takes a module to the phase `graph` for given input shapes, and runs its @init; returns all parameters."""
        specialize = Pipeline((SpecializeShapesPass.of(_input_shapes(module, shapes)),))
        with in_phase("graph"):
            specialize.run(module, self.instrumentation, verify=False)
        return self._graph(module, parameters, noted or _Noted())

    def from_static(
        self, module: ir.Module, parameters: Mapping[str, np.ndarray], nodes: Sequence[Any] = ()
    ) -> Program:
        """The program of a module in the phase `import` whose shapes are all known, made of some nodes.

        Raises:
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a function.
        """
        processes = self.codegen_threads if _is_large(module) else 1
        with kernel_pool(self.target, processes) as pool, journal() as kept:
            noted = _Noted(nodes, kept)
            return self._finish(module, self._graph(module, parameters, noted), "graph", pool, noted)

    def _graph(
        self, module: ir.Module, parameters: Mapping[str, np.ndarray], noted: _Noted
    ) -> Mapping[str, np.ndarray]:
        phases.run(module, self.target, "import", "graph", self.instrumentation, without=self.without)
        noted.initial = facts.names_in(function_named(module.operation, "init"))
        parameters = scale_denormal_weights(module, run_init(module, parameters))
        if Target.parse(self.target).is_gpu:
            recognise_bands(module, parameters)
        self._tell("graph", module, parameters)
        return parameters

    def _rehearse(self, module: ir.Module, parameters: Mapping[str, np.ndarray], start: str) -> None:
        """Sees that a module that did not come from our own passes does not end the process.

        Raises:
            PassError: it does.
        """

        def work(note: Note) -> bytes:
            note(f"what follows the phase '{start}'")

            def reached(phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
                note(f"what follows the phase '{phase}'")

            rehearsal = replace(self, cache=None, codegen_threads=1, reached=reached, instrumentation=())
            rehearsal._finish(module, parameters, start)
            return b""

        try:
            guarded(work)
        except Crash as error:
            raise CompilerCrash(str(error), error.signal_name) from None

    def _finish(
        self,
        module: ir.Module,
        parameters: Mapping[str, np.ndarray],
        start: str,
        pool: KernelPool | None = None,
        noted: _Noted | None = None,
    ) -> Program:
        pool, noted = pool or KernelPool(self.target, self.codegen_threads), noted or _Noted()
        order, placed = phases.names(self.target), phases.placed(self.target)
        for substitute in self.substitutes:
            if order.index(substitute.phase(module.context)) <= order.index(start):
                raise PassError(f"{substitute.path}: the model is past the phase of this kernel already")

        def tell(phase: str, module: ir.Module) -> None:
            self._tell(phase, module, parameters)

        target = Target.parse(self.target)
        kernels, objects = {}, {}
        if start == "graph" and not self._is_watched:
            with in_phase("kernels"):
                phases.form_kernels_pipeline(self.target).run(module, verify=False)
            kernels = name_by_content(module, target)
            noted.facts = _facts(module, noted)
            objects = self._take_kernels(module, pool, noted)
            with in_phase("kernels"):
                phases.lower_kernels_pipeline(self.target).run(module, verify=False)
            start = "kernels"
        elif order.index(start) <= order.index("kernels"):
            phases.run(module, self.target, start, "kernels", self.instrumentation, tell)
            kernels, start = name_by_content(module, target), "kernels"
            noted.facts = _facts(module, noted)
        if order.index(start) < order.index(placed):
            phases.run(module, self.target, start, placed, self.instrumentation, tell)
            found = [*invariants.kernels(module)]
            noted.details |= {
                invariants.symbol(kernel): facts.kernel_details(kernel, target.vector_bytes)
                for kernel in found
                if not invariants.is_declaration(kernel)
            }
            start = placed
        phases.run(module, self.target, start, None, self.instrumentation, tell)
        kernels = with_signatures(module, kernels)
        fresh = generate(module, self.target, self.codegen_threads)
        everything = {**objects, **fresh}
        packed = facts.packed({**noted.facts, "vector_bytes": target.vector_bytes, "details": noted.details})
        return replace(program_of(module, parameters, target, everything, list(kernels.values())), facts=packed)

    @property
    def _is_watched(self) -> bool:
        """Whether all of the model stays in one module, for somebody to look at."""
        return self.reached is not None or len(self.instrumentation) > 0 or len(self.substitutes) > 0

    def _take_kernels(self, module: ir.Module, pool: KernelPool, noted: _Noted) -> dict[str, bytes]:
        """The objects of all kernels, those compiled before from the cache; declarations are left of them."""
        kernels = {invariants.symbol(kernel): kernel for kernel in invariants.kernels(module)}
        codes = {name: code for name in kernels if (code := self._cached(name)) is not None}
        fresh = pool.compile([kernel for name, kernel in kernels.items() if name not in codes])
        if self.cache is not None:
            for name, code in fresh.items():
                self.cache.put("kernels", name, [f"{code.facts}\n{code.details}\n".encode(), code.data])
        codes |= fresh
        for name, kernel in kernels.items():
            make_declaration(kernel, ir.DictAttr(ir.Attribute.parse(codes[name].facts)))
        noted.details = {name: json.loads(codes[name].details) for name in kernels}
        # In the order of the model, whatever came from where: the same model makes the same bytes.
        return {name: codes[name].data for name in kernels}

    def _cached(self, name: str) -> KernelCode | None:
        data = self.cache.get("kernels", name) if self.cache is not None else None
        if data is None:
            return None
        known, details, code = bytes(data).split(b"\n", 2)
        return KernelCode(known.decode(), code, details.decode())

    def _tell(self, phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        for substitute in self.substitutes:
            if substitute.phase(module.context) == phase:
                substitute.apply(module, phase)
        if self.reached is not None:
            self.reached(phase, module, parameters)


def _facts(module: ir.Module, noted: _Noted) -> dict[str, Any]:
    # A module that was read in a later phase has linalg in its kernels by now, whose layouts nobody names any more.
    operands = {
        invariants.symbol(kernel): facts.operands_of(kernel)
        for kernel in invariants.kernels(module)
        if not invariants.is_declaration(kernel)
    }
    return facts.facts_of(module, noted.nodes, noted.kept, noted.initial, operands)


def _input_shapes(module: ir.Module, shapes: Mapping[str, Shape]) -> list[Shape]:
    """The shapes of the inputs of @main, in order."""
    main = ir.SymbolTable(module.operation)["main"]
    return [shapes[name] for name in _names(main, "arg_attrs", "input")]


def _is_large(module: ir.Module) -> bool:
    """Whether it takes longer to compile than another process takes to start."""
    main = ir.SymbolTable(module.operation)["main"]
    return sum(1 for _ in walk(main)) >= LARGE


def run_init(module: ir.Module | ir.Operation, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters, together with what @init makes of them; @init is gone afterwards."""
    symbols = ir.SymbolTable(module.operation)
    if "init" not in symbols:
        return dict(parameters)
    init = symbols["init"]
    inputs, outputs = (_names(init, key, "parameter") for key in ("arg_attrs", "res_attrs"))
    results = interpreter.evaluate(module, "init", [parameters[name] for name in inputs], parameters)
    init.operation.erase()
    # One by one, so that the weights of a large model are not there twice.
    for index, result in enumerate(results):
        results[index] = aligned(result)
    return {**parameters, **dict(zip(outputs, results, strict=True))}


def phase_of(module: ir.Module) -> str:
    """The phase that a module says it is in; `import` where it says nothing.

    Raises:
        PassError: there is no such phase, or the module cannot be in it.
    """
    attributes = module.operation.attributes
    if "stepwell.phase" not in attributes:
        return "import"
    phase = str(attributes["stepwell.phase"]).strip('"')
    if phase not in phases.NAMES:
        raise PassError(f"there is no phase '{phase}'; the phases are {', '.join(phases.NAMES)}")
    return phase


def make_declaration(function: ir.Operation, facts: ir.DictAttr) -> None:
    """Drops the body of a kernel, whose code is elsewhere; `facts` are the attributes that its callers need."""
    kept = ("sym_name", "function_type", "sym_visibility", "stepwell.kernel", "arg_attrs", "res_attrs")
    attributes = {name: function.attributes[name] for name in kept if name in function.attributes}
    with function.location, ir.InsertionPoint(function):
        ir.Operation.create(
            "func.func", attributes={**attributes, **{item.name: item.attr for item in facts}}, regions=1
        )
    function.erase()


def _names(function: ir.OpView, key: str, default: str) -> list[str]:
    """The names of a function's arguments or results; those without one are numbered."""
    return [
        ir.StringAttr(attrs["stepwell.name"]).value if "stepwell.name" in attrs else f"{default}{index}"
        for index, attrs in enumerate(dictionaries(function, key))
    ]
