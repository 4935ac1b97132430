"""Libraries: modules that consist only of kernels, compiled separately from the program that calls them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir

from ...lowering import invariants
from ...lowering.llvm_to_object.codegen import emit_objects
from ...lowering.llvm_to_object.emit_objects import EmitObjectsPass
from ...lowering.target import Target
from ...lowering.vector_to_llvm.share_out_loops import ATTRIBUTE as PHASES
from ...passes.infra.failure import in_phase
from ...passes.infra.pipeline import Pipeline
from ...passes.infra.recorder import is_recording
from ...passes.ir.functions import LIBRARY
from ...passes.memref.plan_workspaces import ATTRIBUTE as WORKSPACE
from ...targets.nvidia.pipelines import LAUNCHES
from .. import route
from ..facts import kernel_details

_FACTS = (WORKSPACE, PHASES, LAUNCHES)


@dataclass(frozen=True)
class KernelCode:
    """The code of a kernel.

    Attributes:
        facts: attributes that its callers need besides its type, as the text of a dictionary attribute.
        data: the object file that defines it.
        details: facts about the code for the report, as JSON on one line.
    """

    facts: str
    data: bytes
    details: str = "{}"


def library_of(kernels: Iterable[ir.Operation]) -> ir.Module:
    """Returns a module of copies of some kernels."""
    library = ir.Module.create()
    library.operation.attributes[LIBRARY] = ir.UnitAttr.get()
    with ir.InsertionPoint(library.body):
        for kernel in kernels:
            kernel.clone()
    return library


def compile_library(library: ir.Module, target: str, threads: int = 1) -> dict[str, KernelCode]:
    """Compiles every kernel of a library; returns the code by name.

    Args:
        library: kernels as `stepwell-form-kernels` makes them; they are changed.
        target: the target, as `Target.parse` takes it.
        threads: number of kernels that LLVM compiles concurrently.

    Raises:
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM rejected a kernel.
    """
    with in_phase("kernels"):
        route.lower_kernels_pipeline(target).run(library, verify=False)
        route.check(route.phase("kernels", target), library)
    placed = route.placed(target)
    route.run(library, target, "kernels", placed)
    facts = {invariants.symbol(kernel): _facts_of(kernel) for kernel in invariants.kernels(library)}
    width = Target.parse(target).vector_bytes
    details = {invariants.symbol(kernel): kernel_details(kernel, width) for kernel in invariants.kernels(library)}
    route.run(library, target, placed)
    objects = generate(library, target, threads)
    return {name: KernelCode(facts[name], data, json.dumps(details[name])) for name, data in objects.items()}


def generate(module: ir.Module, target: str, threads: int) -> dict[str, bytes]:
    """Returns the objects of a module in the LLVM dialect.

    Raises:
        CodegenError: LLVM rejected a function.
        PassFailure: the same while a failure is recorded.
    """
    with in_phase("object"):
        machine = Target.parse(target)
        if machine.is_gpu:
            from ...targets.nvidia.ptx import emit_ptx  # loads all code generation for GPUs

            return emit_ptx(module, machine)
        if is_recording():  # as a pass, so that a reproducer can repeat it
            Pipeline((EmitObjectsPass(target),)).run(module)
        return emit_objects(module, machine, threads)


def _facts_of(kernel: ir.Operation) -> str:
    return str(ir.DictAttr.get({name: kernel.attributes[name] for name in _FACTS if name in kernel.attributes}))
