"""`stepwell-add-entry`: adds the single function that the runtime calls."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, main_function
from ...runtime.program import ENTRY


@register
@dataclass(frozen=True)
class AddEntryPass(Pass):
    """Wrap `@main` in a function that takes a table of addresses, and make `@main` internal.

        llvm.func @main(%x: !llvm.ptr, ...)
        -->
        llvm.func internal @main(%x: !llvm.ptr, ...)
        llvm.func @stepwell_main(%table: !llvm.ptr) { ... llvm.call @main(...) }

    Kernels become visible, as each is a separate object.

    Preconditions: LLVM dialect, bare pointers.
    """

    name = "stepwell-add-entry"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Adds the function at the end of the lowering."""
        if discardable.LIBRARY.is_on(op):
            return
        main = main_function(op)
        count = len(body_of(main).arguments)
        # Names from the model: LLVM does not know them, and translation warns of each one by printing the whole of
        # @main.
        if "arg_attrs" in main.attributes:
            del main.attributes["arg_attrs"]
        # The symbol `main` is the process's own.
        main.attributes["linkage"] = ir.Attribute.parse("#llvm.linkage<internal>")
        wrapper = ir.Module.parse(_wrapper(count))
        wrapper.body.operations[1].operation.clone(ip=ir.InsertionPoint(op.regions[0].blocks[0]))


def _wrapper(count: int) -> str:
    loads = [
        f"%p{index} = llvm.getelementptr inbounds %table[{index}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr\n"
        f"%v{index} = llvm.load %p{index} invariant : !llvm.ptr -> !llvm.ptr"
        for index in range(count)
    ]
    values, types = ", ".join(f"%v{index}" for index in range(count)), ", ".join(["!llvm.ptr"] * count)
    body = "\n".join(loads)
    return (
        f"llvm.func @main({types})\n"
        f"llvm.func @{ENTRY}(%table: !llvm.ptr {{llvm.noalias, llvm.readonly}}) {{\n{body}\n"
        f"llvm.call @main({values}) : ({types}) -> ()\nllvm.return\n}}"
    )
