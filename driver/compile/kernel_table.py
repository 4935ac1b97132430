"""The table of a program's kernels, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from mlir import ir

from ...dialects import discardable
from ...dialects.symbols import symbol_of
from ...lowering import invariants
from ...passes.infra.base import PassError
from ...passes.ir.rewriting import walk
from ...passes.kernel.versions import versions_of
from ...runtime.program import KernelInfo
from ..facts import work_of


def kernel_infos(module: ir.Module) -> dict[str, KernelInfo]:
    """Returns the kernels of a module by name.

    Raises:
        PassError: @main calls a function that is not a kernel, or a kernel lacks its attributes.
    """
    infos = {symbol_of(kernel): _kernel_info(symbol_of(kernel), kernel) for kernel in invariants.kernels(module)}
    for call in walk(module.operation):
        if call.name == "func.call":
            name = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            if name not in infos:
                raise PassError(f"'func.call' op calls @{name}, which is not a kernel", call.location)
            shares = _shares(call)
            ops = tuple(name for name, _ in shares)
            sites = (*infos[name].sites, shares)
            calls = infos[name].calls + _rounds(call)
            infos[name] = replace(infos[name], calls=calls, ops=infos[name].ops or ops, sites=sites)
            for version in versions_of(call)[1:]:  # called equally often, but only one version per call
                infos[version] = replace(infos[version], ops=infos[version].ops or ops, sites=sites)
    return infos


def _rounds(op: ir.Operation) -> int:
    """Returns how often an op runs in a call of the model; a loop whose bounds are not constant counts once."""
    rounds, around = 1, op.parent
    while around is not None and around.operation.name != "func.func":
        if around.operation.name == "scf.for":
            lower, upper, step = (_number(bound) for bound in list(around.operation.operands)[:3])
            if lower is not None and upper is not None and step:
                rounds *= len(range(lower, upper, step))
        around = around.operation.parent
    return rounds


def _number(value: ir.Value) -> int | None:
    is_known = not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"
    return ir.IntegerAttr(value.owner.attributes["value"]).value if is_known else None


def _shares(call: ir.Operation) -> tuple[tuple[str, float], ...]:
    """Returns the model's nodes that a call computes, the dominant one first, each with its share of the work."""
    work = work_of(call)
    total = sum(work.values())
    return tuple((name, amount / total) for name, amount in work.items())


def _kernel_info(name: str, kernel: ir.Operation) -> KernelInfo:
    facts = discardable.KERNEL.required(kernel)
    if not facts.kind or facts.flops is None or facts.bytes is None:
        message = f"'{discardable.KERNEL.name}' must hold a class, flops and bytes, but holds {facts}"
        raise PassError(message, kernel.location)
    return KernelInfo(name, facts.kind, flops=facts.flops, bytes=facts.bytes, calls=0)


def with_signatures(module: ir.Module, kernels: Mapping[str, KernelInfo]) -> dict[str, KernelInfo]:
    """Returns the kernels with the arguments that a call passes, from a module in the LLVM dialect."""
    found = dict(kernels)
    for function in module.body.operations:
        name = str(function.operation.attributes["sym_name"]).strip('"')
        if name in found and function.operation.name == "llvm.func":
            kind = str(function.operation.attributes["function_type"])
            given = kind.partition("(")[2]
            blocks = max(discardable.PHASES.read(function, ()), default=0)
            # The bindings know no parameters of LLVM's function types, and a declaration has no block.
            count = len(re.findall(r"\bptr\b|\bi64\b", given))
            found[name] = replace(found[name], arguments=count, blocks=blocks)
    return found
