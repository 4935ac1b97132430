"""Merges equal kernels into one function."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mlir import ir

from ...dialects import discardable
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.rewriting import walk


@register
@dataclass(frozen=True)
class MergeKernelsPass(Pass):
    """Keep one of several kernels that differ only in their names and the model's ops they came from.

    ```mlir
    %1 = call @kernel_0(%0)
    %2 = call @kernel_1(%1)   // the same body as @kernel_0
    // -->
    %1 = call @kernel_0(%0)
    %2 = call @kernel_0(%1)
    ```
    """

    name = "stepwell-merge-kernels"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Merges the kernels of a module."""
        first_of: dict[str, str] = {}
        renamed: dict[str, str] = {}
        spare: list[ir.Operation] = []
        for function in op.regions[0].blocks[0].operations:
            if not discardable.KERNEL.is_on(function):
                continue
            name = ir.StringAttr(function.attributes["sym_name"]).value
            kept = first_of.setdefault(kernel_text(function), name)
            if kept != name:
                renamed[name] = kept
                spare.append(function.operation)
        for call in walk(op):
            if call.name != "func.call":
                continue
            callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            if callee in renamed:
                call.attributes["callee"] = ir.FlatSymbolRefAttr.get(renamed[callee])
        for function in spare:
            function.erase()


def kernel_text(function: ir.Operation | ir.OpView) -> str:
    """The text of a kernel without its name and locations: equal text means equal code."""
    name = ir.StringAttr(function.attributes["sym_name"]).value
    # In local scope, because otherwise MLIR computes the value names of the whole module each time.
    text = str(function.operation.get_asm(enable_debug_info=False, use_local_scope=True, assume_verified=True))
    return re.sub(rf"@{re.escape(name)}\b", "@kernel", text, count=1)
