"""One compile: a model at given input shapes, down the phases, to a program that the runtime can run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from mlir import ir

from .dialects import interpreter
from .dialects.types import numpy_dtype
from .lowering import invariants, phases
from .lowering.llvm_to_object.codegen import emit_objects
from .lowering.target import Target
from .lowering.vector_to_llvm.share_out_loops import ATTRIBUTE as PHASES
from .passes.base import PassError
from .passes.graph.denormal_weights import scale_denormal_weights
from .passes.graph.specialize_shapes import SpecializeShapesPass
from .passes.kernel.merge_kernels import kernel_text
from .passes.memref.plan_workspaces import ATTRIBUTE as WORKSPACE
from .passes.pipeline import Pipeline
from .passes.rewriting import walk
from .runtime import store
from .runtime.cache import Cache
from .runtime.program import WORK, CpuTarget, KernelInfo, Program, Shape, TensorInfo
from .source import ModelSource
from .version import fingerprint

Reached = Callable[[str, ir.Module, Mapping[str, np.ndarray]], None]

# What callers of a kernel have to know beside its type; the cache keeps it, as a line before the object.
_FACTS = (WORKSPACE, PHASES)


@dataclass(frozen=True)
class Compilation:
    """How to compile; each method call is one compile, in an MLIR context of its own.

    Attributes:
        target: the target's name.
        cache: where objects are kept; None where nothing is.
        codegen_threads: how many functions LLVM compiles at the same time.
        reached: told each phase, the module there, and the parameters that it names.
    """

    target: str = "cpu"
    cache: Cache | None = None
    codegen_threads: int = 2
    reached: Reached | None = None

    def program(self, source: ModelSource, shapes: Mapping[str, Shape]) -> Program:
        """The program for one set of input shapes.

        Raises:
            ModelError: the model cannot be read.
            PassFailure, PassError: a pass failed.
            CodegenError: LLVM refused a function.
        """
        with ir.Context() as context, ir.Location.unknown():
            imported = source.import_into(context, shapes)
            module, parameters = imported.module, imported.parameters
            start = phase_of(module)
            self._tell("import", module, parameters)
            if start == "import":
                parameters = self.graph(module, parameters, shapes)
            return self._finish(module, parameters, max(start, "graph", key=phases.NAMES.index))

    def graph(
        self, module: ir.Module, parameters: Mapping[str, np.ndarray], shapes: Mapping[str, Shape]
    ) -> Mapping[str, np.ndarray]:
        """Takes a module to the phase `graph` for given input shapes, and runs its @init; returns all parameters."""
        main = ir.SymbolTable(module.operation)["main"]
        names = _names(main.attributes["arg_attrs"])
        Pipeline((SpecializeShapesPass.of([shapes[name] for name in names]),)).run(module)
        phases.run(module, self.target, "import", "graph")
        parameters = scale_denormal_weights(module, run_init(module, parameters))
        self._tell("graph", module, parameters)
        return parameters

    def _finish(self, module: ir.Module, parameters: Mapping[str, np.ndarray], start: str) -> Program:
        def tell(phase: str, module: ir.Module) -> None:
            self._tell(phase, module, parameters)

        target = Target.parse(self.target)
        at_kernels = max(start, "kernels", key=phases.NAMES.index)
        phases.run(module, self.target, start, at_kernels, reached=tell)
        kernels, objects = {}, {}
        if at_kernels == "kernels":
            kernels = name_by_content(module, target)
            objects = self._take_cached(module)
        at_memref = max(at_kernels, "memref", key=phases.NAMES.index)
        phases.run(module, self.target, at_kernels, at_memref, reached=tell)
        facts = {invariants.symbol(kernel): facts_of(kernel) for kernel in invariants.kernels(module)}
        phases.run(module, self.target, at_memref, "llvm", reached=tell)
        fresh = emit_objects(module, target, self.codegen_threads)
        self._keep(facts, fresh)
        everything = {**objects, **fresh}
        interface = ir.DictAttr(module.operation.attributes["stepwell.interface"])
        return Program(
            inputs=_tensors(interface["inputs"]),
            outputs=_tensors(interface["outputs"]),
            guards=_strings(interface["guards"]),
            parameters=_used(module, parameters),
            arena_bytes=ir.IntegerAttr(module.operation.attributes["stepwell.arena_bytes"]).value,
            target=CpuTarget(target.triple, target.cpu, target.features),
            objects=everything,
            kernels=list(kernels.values()),
            uses_threads=WORK in everything,
        )

    def _take_cached(self, module: ir.Module) -> dict[str, bytes]:
        """The objects of kernels that were compiled before, whose bodies go; none where phases are looked at."""
        if self.cache is None or self.reached is not None:
            return {}
        objects = {}
        for kernel in list(invariants.kernels(module)):
            name = invariants.symbol(kernel)
            data = self.cache.get("kernels", name)
            if data is not None:
                facts, _, objects[name] = bytes(data).partition(b"\n")
                make_declaration(kernel, ir.DictAttr(ir.Attribute.parse(facts.decode())))
        return objects

    def _keep(self, facts: Mapping[str, str], objects: Mapping[str, bytes]) -> None:
        """Caches the objects of kernels, each behind what its callers have to know."""
        if self.cache is None:
            return
        for name in facts.keys() & objects.keys():
            self.cache.put("kernels", name, facts[name].encode() + b"\n" + objects[name])

    def _tell(self, phase: str, module: ir.Module, parameters: Mapping[str, np.ndarray]) -> None:
        if self.reached is not None:
            self.reached(phase, module, parameters)


def run_init(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters, together with what @init makes of them; @init is gone afterwards."""
    symbols = ir.SymbolTable(module.operation)
    if "init" not in symbols:
        return dict(parameters)
    init = symbols["init"]
    inputs, outputs = (_names(init.attributes[key]) for key in ("arg_attrs", "res_attrs"))
    results = interpreter.evaluate(module, "init", [parameters[name] for name in inputs], parameters)
    init.operation.erase()
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
    if phase not in ("import", "graph") and "stepwell.interface" not in attributes:
        raise PassError(f"the module says that it is in phase '{phase}', but has no 'stepwell.interface'")
    return phase


def name_by_content(module: ir.Module, target: Target) -> dict[str, KernelInfo]:
    """Names every kernel after what it does, so that equal kernels of any models share an object; lists them."""
    salt = f"{fingerprint()} {target.to_json()}"
    renamed: dict[str, str] = {}
    infos: dict[str, KernelInfo] = {}
    for kernel in list(invariants.kernels(module)):
        name = f"kernel_{store.key_of(salt, kernel_text(kernel))[:20]}"
        renamed[invariants.symbol(kernel)] = name
        if name in infos:  # different ops that do the same
            kernel.erase()
            continue
        kernel.attributes["sym_name"] = ir.StringAttr.get(name)
        facts = ir.DictAttr(kernel.attributes["stepwell.kernel"])
        numbers = {key: ir.IntegerAttr(facts[key]).value for key in ("flops", "bytes")}
        infos[name] = KernelInfo(name, ir.StringAttr(facts["class"]).value, calls=0, **numbers)
    for call in walk(module.operation):
        if call.name == "func.call":
            name = renamed[ir.FlatSymbolRefAttr(call.attributes["callee"]).value]
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
            ops = _strings(call.attributes["stepwell.ops"]) if "stepwell.ops" in call.attributes else ()
            infos[name] = replace(infos[name], calls=infos[name].calls + 1, ops=infos[name].ops or ops)
    return infos


def make_declaration(function: ir.Operation, facts: ir.DictAttr) -> None:
    """Drops the body of a kernel, whose code is elsewhere; `facts` are the attributes that its callers need."""
    kept = ("sym_name", "function_type", "sym_visibility", "stepwell.kernel", "arg_attrs")
    attributes = {name: function.attributes[name] for name in kept if name in function.attributes}
    with function.location, ir.InsertionPoint(function):
        ir.Operation.create(
            "func.func", attributes={**attributes, **{item.name: item.attr for item in facts}}, regions=1
        )
    function.erase()


def facts_of(kernel: ir.Operation) -> str:
    """What the callers of a lowered kernel have to know, as the text of a dictionary."""
    return str(ir.DictAttr.get({name: kernel.attributes[name] for name in _FACTS if name in kernel.attributes}))


def _used(module: ir.Module, parameters: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    names = _strings(module.operation.attributes["stepwell.parameters"])
    missing = [name for name in names if name not in parameters]
    if missing:
        share = f"{len(missing)} of {len(names)} are missing"
        raise PassError(f"there are no contents for the parameter '{missing[0]}' ({share})")
    return {name: parameters[name] for name in names}


def _tensors(entries: ir.Attribute) -> tuple[TensorInfo, ...]:
    found = []
    for entry in map(ir.DictAttr, ir.ArrayAttr(entries)):
        kind = ir.RankedTensorType(ir.TypeAttr(entry["type"]).value)
        found.append(TensorInfo(ir.StringAttr(entry["name"]).value, numpy_dtype(kind.element_type), tuple(kind.shape)))
    return tuple(found)


def _names(attributes: ir.Attribute) -> list[str]:
    return [ir.StringAttr(ir.DictAttr(attrs)["stepwell.name"]).value for attrs in ir.ArrayAttr(attributes)]


def _strings(attributes: ir.Attribute) -> tuple[str, ...]:
    return tuple(ir.StringAttr(item).value for item in ir.ArrayAttr(attributes))
