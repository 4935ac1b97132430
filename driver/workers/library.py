"""Libraries: modules that consist only of kernels, compiled separately from the program that calls them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from mlir import ir

from ...lowering import invariants
from ...passes.infra.failure import in_phase
from ...passes.ir.functions import LIBRARY
from ...targets.registry import backend_of
from .. import route
from ..facts import kernel_details


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
        target: the target, as `target_of` takes it.
        threads: number of kernels that LLVM compiles concurrently.

    Raises:
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM rejected a kernel.
    """
    with in_phase("kernels"):
        route.lower_kernels_pipeline(target).run(library, verify=False)
        route.check(route.phase("kernels", target), library, target)
    placed = route.placed(target)
    route.run(library, target, "kernels", placed)
    facts = {invariants.symbol(kernel): _facts_of(kernel, target) for kernel in invariants.kernels(library)}
    details = {invariants.symbol(kernel): kernel_details(kernel, target) for kernel in invariants.kernels(library)}
    route.run(library, target, placed)
    objects = generate(library, target, threads)
    return {name: KernelCode(facts[name], data, json.dumps(details[name])) for name, data in objects.items()}


def generate(module: ir.Module, target: str, threads: int) -> dict[str, bytes]:
    """Returns the code of a module in the last phase of a target, by symbol.

    Raises:
        CodegenError: LLVM rejected a function.
        PassFailure: the same while a failure is recorded.
    """
    with in_phase("object"):
        return backend_of(target).emit(module, target, threads)


def _facts_of(kernel: ir.Operation, target: str) -> str:
    names = [name for name in backend_of(target).call_attributes if name in kernel.attributes]
    return str(ir.DictAttr.get({name: kernel.attributes[name] for name in names}))
