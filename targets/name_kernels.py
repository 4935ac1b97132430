"""Names kernels by their contents: the names are the same in every tool and at every phase."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from mlir import ir

from ..dialects.symbols import symbol_of
from ..lowering import invariants
from ..passes.infra.base import Pass, PassError, register
from ..passes.infra.state import CompileState
from ..passes.ir.rewriting import walk
from ..passes.kernel.merge_kernels import kernel_text
from ..passes.kernel.versions import rename_versions
from ..runtime.cache.keys import key_of
from .registry import target_of

_BY_CONTENT = re.compile(r"kernel_[0-9a-f]{20}")


@register
@dataclass(frozen=True)
class NameKernelsPass(Pass):
    """Name every kernel by its contents, so that equal kernels of any models have one name and share an object.

    The name is `kernel_` and 20 hexadecimal digits, a hash of the kernel's text and the target; locations do
    not count. It stays the same in all later phases. Kernels that already have such a name, as in a module that was
    printed at a later phase, keep it.

    ```mlir
    %1 = call @kernel_0(%0) : (tensor<4xf32>) -> tensor<4xf32>
    // -->
    %1 = call @kernel_7d80421c5b2e93f0a6d1(%0) : (tensor<4xf32>) -> tensor<4xf32>
    ```

    Attributes:
        target: name of the machine that the kernels are for.
    """

    name = "stepwell-name-kernels"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Renames the kernels of a module; of equal kernels, one is kept."""
        module: Any = op.opview
        machine = target_of(self.target).to_json()
        renamed: dict[str, str] = {}
        known: set[str] = set()
        for kernel in list(invariants.kernels(module)):
            symbol = symbol_of(kernel)
            name = symbol
            if not _BY_CONTENT.fullmatch(symbol):
                name = f"kernel_{key_of(machine, kernel_text(kernel))[:20]}"
            renamed[symbol] = name
            if name in known:  # different ops with the same computation
                kernel.erase()
                continue
            known.add(name)
            kernel.attributes["sym_name"] = ir.StringAttr.get(name)
        for call in walk(op):
            if call.name != "func.call":
                continue
            callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            if callee not in renamed:
                raise PassError(f"'func.call' op calls @{callee}, which is not a kernel", call.location)
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(renamed[callee])
            rename_versions(call, renamed.__getitem__)
