"""Libraries: modules of nothing but kernels, which are compiled apart from the program that calls them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir

from ...lowering import invariants
from ...lowering.linalg_to_gpu.pipelines import LAUNCHES
from ...lowering.llvm_to_object.codegen import emit_objects
from ...lowering.llvm_to_object.emit_objects import EmitObjectsPass
from ...lowering.target import Target
from ...lowering.vector_to_llvm.share_out_loops import ATTRIBUTE as PHASES
from ...passes.failure import in_phase
from ...passes.functions import LIBRARY
from ...passes.memref.plan_workspaces import ATTRIBUTE as WORKSPACE
from ...passes.pipeline import Pipeline
from ...passes.recorder import is_recording
from .. import route
from ..facts import kernel_details

_FACTS = (WORKSPACE, PHASES, LAUNCHES)


@dataclass(frozen=True)
class KernelCode:
    """What became of a kernel.

    Attributes:
        facts: what its callers have to know beside its type, as the text of a dictionary of attributes.
        data: the object that defines it.
        details: what its report says of the code: JSON on one line.
    """

    facts: str
    data: bytes
    details: str = "{}"


def library_of(kernels: Iterable[ir.Operation]) -> ir.Module:
    """A module of copies of some kernels."""
    library = ir.Module.create()
    library.operation.attributes[LIBRARY] = ir.UnitAttr.get()
    with ir.InsertionPoint(library.body):
        for kernel in kernels:
            kernel.clone()
    return library


def compile_library(library: ir.Module, target: str, threads: int = 1) -> dict[str, KernelCode]:
    """The code of every kernel of a library, by name.

    Args:
        library: kernels as `stepwell-form-kernels` makes them; they change.
        target: the machine to generate code for, as `Target.parse` takes it.
        threads: how many of them LLVM compiles at once.

    Raises:
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM refused a kernel.
    """
    with in_phase("kernels"):
        route.lower_kernels_pipeline(target).run(library, verify=False)
        route.check(route.phase("kernels"), library)
    placed = route.placed(target)
    route.run(library, target, "kernels", placed)
    facts = {invariants.symbol(kernel): _facts_of(kernel) for kernel in invariants.kernels(library)}
    width = Target.parse(target).vector_bytes
    details = {invariants.symbol(kernel): kernel_details(kernel, width) for kernel in invariants.kernels(library)}
    route.run(library, target, placed)
    objects = generate(library, target, threads)
    return {name: KernelCode(facts[name], data, json.dumps(details[name])) for name, data in objects.items()}


def generate(module: ir.Module, target: str, threads: int) -> dict[str, bytes]:
    """The objects of a module in the LLVM dialect.

    Raises:
        CodegenError: LLVM refused a function.
        PassFailure: likewise, where that is looked at closely.
    """
    with in_phase("object"):
        machine = Target.parse(target)
        if machine.is_gpu:
            from ...lowering.llvm_to_object.ptx import emit_ptx  # with all that emits code for GPUs

            return emit_ptx(module, machine)
        if is_recording():  # as a pass, so that it can be shown again
            Pipeline((EmitObjectsPass(target),)).run(module)
        return emit_objects(module, machine, threads)


def _facts_of(kernel: ir.Operation) -> str:
    return str(ir.DictAttr.get({name: kernel.attributes[name] for name in _FACTS if name in kernel.attributes}))
