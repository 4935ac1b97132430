"""A module of the LLVM dialect to native objects: one per function, so that each can be kept and used by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from mlir import ir
from mlir.dialects import llvm as llvm_dialect

from ...passes.rewriting import walk
from ..target import Target
from . import llvm

# The schedules have shaped the loops, and their vectors are what they should be: LLVM's loop and SLP vectorisers and
# its unrolling, which are most of the time of `default<O2>`, would find nothing to gain.
OPTIMIZE = (
    # Spelt out, instcombine aborts the process when it has not reached a fixed point.
    "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(loop-rotate,licm),"
    "instcombine<no-verify-fixpoint>,gvn,simplifycfg,adce)"
)
_INTERNAL = ("#llvm.linkage<internal>", "#llvm.linkage<private>")

T = TypeVar("T", bytes, str)


class CodegenError(Exception):
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
    symbols = [name for name in exported(module) if only is None or name in only]
    # Translation holds Python's lock, code generation does not.
    texts = [llvm_ir(module, name) for name in symbols]
    with ThreadPoolExecutor(threads) as pool:
        objects = pool.map(lambda name, text: _generate(name, text, target, llvm.Module.object), symbols, texts)
        return dict(zip(symbols, objects, strict=True))


def assembly(module: ir.Module, symbol: str, target: Target) -> str:
    """The optimised machine code of one function as text.

    Raises:
        CodegenError: there is no such function, or LLVM refused it.
    """
    if symbol not in exported(module):
        raise CodegenError(f"there is no function '{symbol}'; there are: {', '.join(exported(module))}")
    return _generate(symbol, llvm_ir(module, symbol), target, llvm.Module.assembly)


def exported(module: ir.Module) -> list[str]:
    """The symbols of the functions that become objects."""
    return [_symbol(op) for op in module.body.operations if _is_exported(op.operation)]


def llvm_ir(module: ir.Module, symbol: str) -> str:
    """One function as LLVM IR text, together with the private symbols that it uses."""
    table = {_symbol(op): op.operation for op in module.body.operations if "sym_name" in op.operation.attributes}
    with module.context, ir.Location.unknown():
        part = ir.Module.create()
        pending, done = [symbol], set()
        with ir.InsertionPoint(part.body):
            while pending:
                name = pending.pop()
                if name in done or name not in table:
                    continue
                done.add(name)
                if name != symbol and _is_exported(table[name]):
                    _declare(table[name])
                    continue
                pending.extend(_references(table[name].clone()))
        # The stubs of the bindings lack this function.
        return llvm_dialect.translate_module_to_llvmir(part.operation)  # pyright: ignore[reportAttributeAccessIssue]


def _generate(symbol: str, text: str, target: Target, emit: Callable[[llvm.Module], T]) -> T:
    try:
        with (
            llvm.machine(target.triple, target.cpu, ",".join(target.features)) as machine,
            llvm.parsed(text, machine) as module,
        ):
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


def _declare(function: ir.Operation) -> None:
    attributes = dict(function.attributes.items())
    ir.Operation.create("llvm.func", attributes=attributes, regions=1)


def _references(op: ir.Operation) -> Iterator[str]:
    """The symbols that stand in the attributes of `op` and of everything in it."""
    for inner in (op, *walk(op)):
        for attribute in inner.attributes.values():
            candidates = attribute if isinstance(attribute, ir.ArrayAttr) else (attribute,)
            yield from (each.value for each in candidates if isinstance(each, ir.FlatSymbolRefAttr))
