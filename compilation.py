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
from .passes.base import PassError
from .passes.graph.specialize_shapes import SpecializeShapesPass
from .passes.kernel.merge_kernels import kernel_text
from .passes.pipeline import Pipeline
from .passes.rewriting import walk
from .runtime import store
from .runtime.cache import Cache
from .runtime.program import CpuTarget, KernelInfo, Program, Shape, TensorInfo
from .source import ModelSource
from .version import VERSION

Reached = Callable[[str, ir.Module], None]


@dataclass(frozen=True)
class Compilation:
    """How to compile; each method call is one compile, in an MLIR context of its own.

    Attributes:
        target: the target's name.
        cache: where objects are kept; None where nothing is.
        codegen_threads: how many functions LLVM compiles at the same time.
        reached: told each phase and the module there.
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
            self._tell("import", module)
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
        phases.run(module, self.target, "import", "graph", reached=self._tell)
        return run_init(module, parameters)

    def _finish(self, module: ir.Module, parameters: Mapping[str, np.ndarray], start: str) -> Program:
        target = Target.parse(self.target)
        phases.run(module, self.target, start, max(start, "kernels", key=phases.NAMES.index), reached=self._tell)
        infos = {}
        if start in ("graph", "kernels"):
            infos = name_by_content(module, target)
            start = "kernels"
        phases.run(module, self.target, start, "llvm", reached=self._tell)
        attributes = module.operation.attributes
        objects = emit_objects(module, target, self.codegen_threads)
        names = [ir.StringAttr(name).value for name in ir.ArrayAttr(attributes["stepwell.parameters"])]
        missing = [name for name in names if name not in parameters]
        if missing:
            raise PassError(f"there are no contents for the parameter '{missing[0]}' ({len(missing)} are missing)")
        return Program(
            inputs=_infos(attributes["stepwell.inputs"]),
            outputs=_infos(attributes["stepwell.outputs"]),
            parameters={name: parameters[name] for name in names},
            arena_bytes=ir.IntegerAttr(attributes["stepwell.arena_bytes"]).value,
            target=CpuTarget(target.triple, target.cpu, target.features),
            objects=objects,
            kernels=list(infos.values()),
        )

    def _tell(self, phase: str, module: ir.Module) -> None:
        if self.reached is not None:
            self.reached(phase, module)


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
    """The phase that a module says it is in; `import` where it says nothing."""
    attributes = module.operation.attributes
    return ir.StringAttr(attributes["stepwell.phase"]).value if "stepwell.phase" in attributes else "import"


def name_by_content(module: ir.Module, target: Target) -> dict[str, KernelInfo]:
    """Names every kernel after what it does, so that equal kernels of any models share an object; tells what there is."""
    salt = f"{VERSION} {target.to_json()}"
    renamed: dict[str, str] = {}
    infos: dict[str, KernelInfo] = {}
    for kernel in invariants.kernels(module):
        name = f"kernel_{store.key_of(salt, kernel_text(kernel))[:20]}"
        renamed[invariants.symbol(kernel)] = name
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


def _names(attributes: ir.Attribute) -> list[str]:
    return [ir.StringAttr(ir.DictAttr(attrs)["stepwell.name"]).value for attrs in ir.ArrayAttr(attributes)]


def _strings(attributes: ir.Attribute) -> tuple[str, ...]:
    return tuple(ir.StringAttr(item).value for item in ir.ArrayAttr(attributes))
