"""The table of a program's kernels: their names, which their contents give, and what is known of each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mlir import ir

from ..passes.base import PassError
from ..passes.functions import strings
from ..passes.kernel.form_kernels import WORK as SHARES
from ..passes.kernel.merge_kernels import kernel_text
from ..passes.kernel.versions import rename_versions, versions_of
from ..passes.rewriting import walk
from ..runtime import store
from ..runtime.program import KernelInfo
from ..version import fingerprint
from . import invariants
from .target import Target
from .vector_to_llvm.share_out_loops import ATTRIBUTE as PHASES


def name_by_content(module: ir.Module, target: Target) -> dict[str, KernelInfo]:
    """Names every kernel after what it does, so that equal kernels of any models share an object; lists them."""
    salt = f"{fingerprint()} {target.to_json()}"
    renamed: dict[str, str] = {}
    infos: dict[str, KernelInfo] = {}
    for kernel in list(invariants.kernels(module)):
        name = f"kernel_{store.key_of(salt, kernel_text(kernel))[:20]}"
        renamed[invariants.symbol(kernel)] = name
        if name in infos:  # different ops that do the same
            kernel.erase()
            continue
        kernel.attributes["sym_name"] = ir.StringAttr.get(name)
        infos[name] = _kernel_info(name, kernel)
    for call in walk(module.operation):
        if call.name == "func.call":
            callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
            if callee not in renamed:
                raise PassError(f"'func.call' op calls @{callee}, which is no kernel", call.location)
            name = renamed[callee]
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(name)
            rename_versions(call, renamed.__getitem__)
            ops = strings(call.attributes["stepwell.ops"]) if "stepwell.ops" in call.attributes else ()
            sites = (*infos[name].sites, _shares(call, ops))
            infos[name] = replace(infos[name], calls=len(sites), ops=infos[name].ops or ops, sites=sites)
            for version in versions_of(call)[1:]:  # each is called as often, but only one of them at a time
                infos[version] = replace(infos[version], ops=infos[version].ops or ops, sites=sites)
    return infos


def _shares(call: ir.Operation, ops: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The model's nodes that a call computes, each once, and what part of the work each is."""
    given = list(ir.DenseI64ArrayAttr(call.attributes[SHARES])) if SHARES in call.attributes else []
    work: dict[str, int] = {}
    for name, amount in zip(ops, given if len(given) == len(ops) else [1] * len(ops), strict=True):
        work[name] = work.get(name, 0) + amount
    total = sum(work.values())
    return tuple((name, amount / total if total else 1 / len(work)) for name, amount in work.items())


def _kernel_info(name: str, kernel: ir.Operation) -> KernelInfo:
    facts = kernel.attributes["stepwell.kernel"]
    try:
        flops, size = (ir.IntegerAttr(ir.DictAttr(facts)[key]).value for key in ("flops", "bytes"))
        return KernelInfo(name, ir.StringAttr(ir.DictAttr(facts)["class"]).value, flops=flops, bytes=size, calls=0)
    except (KeyError, ValueError) as error:
        message = f"'stepwell.kernel' must hold a class, flops and bytes, but is {facts}"
        raise PassError(message, kernel.location) from error


def with_signatures(module: ir.Module, kernels: Mapping[str, KernelInfo]) -> dict[str, KernelInfo]:
    """The kernels with what a call passes, of a module in the LLVM dialect."""
    found = dict(kernels)
    for function in module.body.operations:
        name = str(function.operation.attributes["sym_name"]).strip('"')
        if name in found and function.operation.name == "llvm.func":
            kind = str(function.operation.attributes["function_type"])
            given, ends = kind.partition("(")[2], function.operation.attributes.get(PHASES)
            blocks = 0 if ends is None else max(ir.DenseI64ArrayAttr(ends), default=0)
            count = len(re.findall(r"\bptr\b|\bi64\b", given))
            found[name] = replace(found[name], arguments=count, blocks=blocks)
    return found
