"""Libraries: modules that consist only of kernels, compiled separately from the program that calls them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from mlir import ir

from ...dialects import discardable
from ...dialects.symbols import symbol_of
from ...lowering import invariants
from ...passes.infra.state import CompileState
from ...runtime.facts import KernelDetails
from ...targets.registry import backend_of
from .. import route
from ..facts import kernel_details


@dataclass(frozen=True)
class KernelCode:
    """The code of a kernel.

    Attributes:
        facts: attributes that its callers need besides its type, as the text of a dictionary attribute.
        data: the object file that defines it.
        details: facts about the code, for the report.
    """

    facts: str
    data: bytes
    details: KernelDetails = field(default_factory=KernelDetails)

    def encoded(self) -> list[bytes | memoryview]:
        """Returns the parts of the bytes that `decoded` reads: a line of facts, a line of details, and the object."""
        return [f"{self.facts}\n{json.dumps(asdict(self.details))}\n".encode(), self.data]

    @staticmethod
    def decoded(data: bytes) -> KernelCode:
        """Returns the code of a kernel from its bytes."""
        facts, details, code = data.split(b"\n", 2)
        return KernelCode(facts.decode(), code, KernelDetails.read(json.loads(details)))


def library_of(kernels: Iterable[ir.Operation]) -> ir.Module:
    """Returns a module of copies of some kernels."""
    library = ir.Module.create()
    discardable.LIBRARY.write(library.operation, True)
    with ir.InsertionPoint(library.body):
        for kernel in kernels:
            kernel.clone()
    return library


def compile_library(library: ir.Module, state: CompileState, threads: int = 1) -> dict[str, KernelCode]:
    """Compiles every kernel of a library; returns the code by name.

    Args:
        library: kernels as `stepwell-form-kernels` makes them; they are changed.
        state: the state of the compile.
        threads: number of kernels that LLVM compiles concurrently.

    Raises:
        PassFailure, PassError: a pass failed.
        CodegenError: LLVM rejected a kernel.
    """
    target = state.target
    with state.in_phase("kernels"):
        route.lower_kernels_pipeline(target).run(library, verify=False, state=state)
        route.check(route.phase("kernels", target), library, state)
    placed = route.placed(target)
    route.run(library, state, "kernels", placed)
    facts = {symbol_of(kernel): _facts_of(kernel, target) for kernel in invariants.kernels(library)}
    details = {symbol_of(kernel): kernel_details(kernel, target) for kernel in invariants.kernels(library)}
    route.run(library, state, placed)
    objects = generate(library, state, threads)
    return {name: KernelCode(facts[name], data, details[name]) for name, data in objects.items()}


def generate(module: ir.Module, state: CompileState, threads: int) -> dict[str, bytes]:
    """Returns the code of a module in the last phase, by symbol.

    Raises:
        CodegenError: LLVM rejected a function.
        PassFailure: the same while a failure is recorded.
    """
    with state.in_phase("object"):
        return backend_of(state.target).emit(module, state.target, state, threads)


def _facts_of(kernel: ir.Operation, target: str) -> str:
    names = [name for name in backend_of(target).call_attributes if name in kernel.attributes]
    return str(ir.DictAttr.get({name: kernel.attributes[name] for name in names}))
