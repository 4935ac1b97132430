"""A module of the LLVM dialect to native objects: one per function, so that each can be kept and used by its name."""

from __future__ import annotations

import queue
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from typing import TypeVar

from mlir import ir

from ...passes.failure import CompileError
from ..target import Target
from ..vector_to_llvm.add_entry import AddEntryPass
from . import llvm
from .split import split

# The schedules have shaped the loops, and their vectors are what they should be: LLVM's loop and SLP vectorisers and
# its unrolling, which are most of the time of `default<O2>`, would find nothing to gain; nor does gvn, after early-cse.
OPTIMIZE = (
    # Spelt out, instcombine aborts the process when it has not reached a fixed point.
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,early-cse<memssa>,simplifycfg,adce)"
)
_INTERNAL = ("#llvm.linkage<internal>", "#llvm.linkage<private>")

T = TypeVar("T", bytes, str)


class CodegenError(CompileError):
    """LLVM refused a function; the message names it."""


def emit_objects(
    module: ir.Module, target: Target, threads: int = 2, only: Collection[str] | None = None
) -> dict[str, bytes]:
    """Compiles every function that has a body and is visible from outside, each to an ELF object under its symbol.

    What is private to the module goes along with whoever uses it.

    Args:
        module: LLVM dialect.
        target: what to make code for.
        threads: how many functions to compile at once.
        only: the symbols to compile, where not all are wanted.

    Raises:
        CodegenError: LLVM refused a function.
    """
    return _emit_all(module, target, threads, only, llvm.Module.object)


def emit_assembly(module: ir.Module, target: Target, threads: int = 2) -> dict[str, str]:
    """The machine code of every function that becomes an object, as text, by its symbol; otherwise as `emit_objects`.

    Raises:
        CodegenError: LLVM refused a function.
    """
    return _emit_all(module, target, threads, None, llvm.Module.assembly)


def _emit_all(
    module: ir.Module,
    target: Target,
    threads: int,
    only: Collection[str] | None,
    emit: Callable[[llvm.Module], T],
) -> dict[str, T]:
    # Translation holds Python's lock, code generation does not.
    texts = {name: text for name, text in llvm_ir(module).items() if only is None or name in only}
    threads = min(threads, len(texts))
    with ExitStack() as stack:
        machines = queue.SimpleQueue[llvm.TargetMachine]()
        for _ in range(threads):
            machines.put(stack.enter_context(_machine(target)))

        def generate(name: str) -> T:
            if name == AddEntryPass.symbol:
                # One call after the other: the longest function of all, and in it the least time of a run.
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
    """The optimised machine code of one function as text.

    Raises:
        CodegenError: there is no such function, or LLVM refused it.
    """
    if symbol not in exported(module):
        raise CodegenError(f"there is no function '{symbol}'; there are: {', '.join(exported(module))}")
    with _machine(target) as machine:
        return _generate(symbol, llvm_ir(module)[symbol], machine, llvm.Module.assembly)


def exported(module: ir.Module) -> list[str]:
    """The symbols of the functions that become objects."""
    return [_symbol(op) for op in module.body.operations if _is_exported(op.operation)]


def llvm_ir(module: ir.Module) -> dict[str, str]:
    """The functions that become objects as LLVM IR text, each with the private symbols that it uses."""
    # A tenth of all imports, and first needed when other processes are at work already.
    from mlir.dialects import llvm as llvm_dialect

    # The stubs of the bindings lack this function.
    text = llvm_dialect.translate_module_to_llvmir(module.operation)  # pyright: ignore[reportAttributeAccessIssue]
    return split(text)


def _machine(target: Target, effort: int = llvm.THOROUGHLY) -> AbstractContextManager[llvm.TargetMachine]:
    return llvm.machine(target.triple, target.cpu, ",".join(target.features), effort)


def _generate(symbol: str, text: str, machine: llvm.TargetMachine, emit: Callable[[llvm.Module], T]) -> T:
    try:
        with llvm.parsed(text, machine) as module:
            module.optimize(OPTIMIZE)
            return emit(module)
    except llvm.LLVMError as error:
        raise CodegenError(f"{symbol}: {error}") from error


def _symbol(op: ir.Operation | ir.OpView) -> str:
    return ir.StringAttr(op.operation.attributes["sym_name"]).value


def _is_exported(op: ir.Operation | ir.OpView) -> bool:
    function = op.operation
    if function.name != "llvm.func" or not len(function.regions[0].blocks):
        return False
    return str(function.attributes["linkage"]) not in _INTERNAL
