"""Compiles an LLVM dialect module to one native object per function, so that each can be stored and used by name."""

from __future__ import annotations

import queue
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from mlir import ir

from ...dialects.symbols import symbol_of
from ...passes.infra.failure import CompileError
from ...runtime.program import ENTRY
from .. import llvm
from ..target import Target
from .split import split

# The schedules have shaped loops and vectors already. LLVM's loop and SLP vectorisers and its unrolling, which take
# most of the time of `default<O2>`, would gain nothing; nor would gvn after early-cse.
OPTIMIZE = (
    # With its default options, instcombine aborts the process if it has not reached a fixed point.
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,early-cse<memssa>,simplifycfg,adce)"
)
_INTERNAL = ("#llvm.linkage<internal>", "#llvm.linkage<private>")

T = TypeVar("T", bytes, str)


class CodegenError(CompileError):
    """LLVM rejected a function; the message names it."""


def emit_objects(module: ir.Module, target: Target, threads: int = 2) -> dict[str, bytes]:
    """Compiles every function with a body that is visible from outside to an ELF object, returned by symbol.

    Private functions and data become part of every object that uses them.

    Args:
        module: module in the LLVM dialect.
        target: the machine.
        threads: number of functions compiled concurrently.

    Raises:
        CodegenError: LLVM rejected a function.
    """
    return _emit_all(module, target, threads, llvm.LlvmModule.object)


def emit_assembly(module: ir.Module, target: Target, threads: int = 2) -> dict[str, str]:
    """Returns the machine code of every function as text, by symbol; otherwise as `emit_objects`.

    Raises:
        CodegenError: LLVM rejected a function.
    """
    return _emit_all(module, target, threads, llvm.LlvmModule.assembly)


def _emit_all(
    module: ir.Module,
    target: Target,
    threads: int,
    emit: Callable[[llvm.LlvmModule], T],
) -> dict[str, T]:
    # Translation holds Python's interpreter lock; code generation does not.
    texts = llvm_ir(module)
    threads = min(threads, len(texts))
    with ExitStack() as stack:
        machines = queue.SimpleQueue[llvm.TargetMachine]()
        for _ in range(threads):
            machines.put(stack.enter_context(_machine(target)))

        def generate(name: str) -> T:
            if name == ENTRY:
                # @main is a sequence of calls: the longest function of all, but the smallest part of a call's time.
                with _machine(target, llvm.QUICKLY) as machine:
                    return _generate(name, texts[name], machine, emit)
            machine = machines.get()
            try:
                return _generate(name, texts[name], machine, emit)
            finally:
                machines.put(machine)

        run = stack.enter_context(ThreadPoolExecutor(threads)).map if threads > 1 else map
        return dict(zip(texts, run(generate, texts), strict=True))


def assembly(module: ir.Module, symbol: str, target: Target) -> str:
    """Returns the optimised machine code of one function as text.

    Raises:
        CodegenError: there is no such function, or LLVM rejected it.
    """
    if symbol not in exported(module):
        raise CodegenError(f"there is no function '{symbol}'; there are: {', '.join(exported(module))}")
    with _machine(target) as machine:
        return _generate(symbol, llvm_ir(module)[symbol], machine, llvm.LlvmModule.assembly)


def exported(module: ir.Module) -> list[str]:
    """Returns the symbols of the functions that become objects."""
    return [symbol_of(op) for op in module.body.operations if _is_exported(op.operation)]


def llvm_ir(module: ir.Module) -> dict[str, str]:
    """Returns the functions that become objects as LLVM IR text, each with the private symbols that it uses."""
    # This import takes a tenth of the time of all imports, and is first needed when other processes are already
    # working.
    from mlir.dialects import llvm as llvm_dialect

    # The stubs of the bindings lack this function.
    text = llvm_dialect.translate_module_to_llvmir(module.operation)  # pyright: ignore[reportAttributeAccessIssue]
    return split(text)


def _machine(target: Target, effort: int = llvm.THOROUGHLY) -> AbstractContextManager[llvm.TargetMachine]:
    return llvm.machine(target.triple, target.cpu, ",".join(target.features), effort)


def _generate(symbol: str, text: str, machine: llvm.TargetMachine, emit: Callable[[llvm.LlvmModule], T]) -> T:
    try:
        with llvm.parsed(text, machine) as module:
            module.optimize(OPTIMIZE)
            return emit(module)
    except llvm.LLVMError as error:
        raise CodegenError(f"{symbol}: {error}") from error


def _is_exported(op: ir.Operation | ir.OpView) -> bool:
    function = op.operation
    if function.name != "llvm.func" or not len(function.regions[0].blocks):
        return False
    return str(function.attributes["linkage"]) not in _INTERNAL
