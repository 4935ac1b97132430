"""Invariants of the phases of GPUs; each check raises PassError at the first op that violates one."""

from __future__ import annotations

from mlir import ir

from ...dialects.symbols import symbol_of
from ...lowering.invariants import check_memref, makes_tensor
from ...passes.infra.base import PassError
from ...passes.ir.rewriting import find_op, walk


def check_gpu(module: ir.Module) -> None:
    """Checks that no tensor is left, and no linalg op in modules of the gpu dialect."""
    check_memref(module)
    for op in module.body.operations:
        if op.operation.name != "gpu.module":
            continue
        if left := find_op(op.operation, lambda inner: inner.name.startswith("linalg.") or makes_tensor(inner)):
            raise PassError(f"'{left.name}' op cannot be part of code for a GPU", left.location)


def check_nvvm(module: ir.Module) -> None:
    """Checks that kernels hold only LLVM and NVVM ops, and call only functions that are defined."""
    for op in module.body.operations:
        if op.operation.name != "gpu.module":
            continue
        for inner in walk(op.operation):
            if not inner.name.startswith(("llvm.", "nvvm.")):
                raise PassError(f"'{inner.name}' op was not lowered to the LLVM dialect", inner.location)
            if inner.name == "llvm.func" and not len(inner.regions[0].blocks):
                raise PassError(f"@{symbol_of(inner)} is called, but is not defined for GPUs", inner.location)
