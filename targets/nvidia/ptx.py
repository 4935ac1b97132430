"""Compiles GPU kernels to PTX, the assembly language that every driver compiles for its device."""

from __future__ import annotations

import re

from mlir import ir
from mlir.dialects import llvm as llvm_dialect

from ...lowering import llvm
from ...lowering.llvm_to_object.codegen import CodegenError
from .target import GpuTarget

OPTIMIZE = "default<O2>"
_ASSEMBLY = re.compile(r"^(.* call .*\basm sideeffect \".*\))((?: #\d+)?(?:, !.*)?)$", re.MULTILINE)
_FLOATS8 = re.compile(r"\bmma\.sync\S*\.e[45]m[23]\.")
_FLOATS8_FEATURE = "+ptx84"
"""Oldest PTX version in which warps multiply 8-bit floats; warp groups do in every version that has them."""
SUFFIX = ".gpu"
"""Suffix of module names: a module is named after the kernel whose launches it holds."""


def emit_ptx(module: ir.Module, target: GpuTarget) -> dict[str, bytes]:
    """Returns the PTX of every `gpu.module`, by the name of the kernel whose launches it holds.

    Args:
        module: GPU modules of the LLVM dialect, and their surroundings.
        target: a GPU.

    Raises:
        CodegenError: LLVM rejected a module.
    """
    found: dict[str, bytes] = {}
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            name = ir.StringAttr(op.operation.attributes["sym_name"]).value.removesuffix(SUFFIX)
            found[name] = ptx_of(op.operation, target).encode()
    return found


def ptx_of(gpu_module: ir.Operation, target: GpuTarget) -> str:
    """Returns the PTX of one `gpu.module` of the LLVM dialect.

    Raises:
        CodegenError: LLVM rejected it.
    """
    plain = ir.Module.create(gpu_module.location)
    with ir.InsertionPoint(plain.body):
        for op in gpu_module.regions[0].blocks[0].operations:
            op.operation.clone()
    # The stubs of the bindings lack this function.
    text = llvm_dialect.translate_module_to_llvmir(plain.operation)  # pyright: ignore[reportAttributeAccessIssue]
    # MLIR cannot mark inline assembly as convergent: whole warps must reach it together, so it must not be copied into
    # branches.
    text = _ASSEMBLY.sub(r"\1 convergent\2", text)
    try:
        features = _FLOATS8_FEATURE if _FLOATS8.search(text) else ",".join(target.features)
        with llvm.machine(target.triple, target.cpu, features) as machine, llvm.parsed(text, machine) as module:
            module.optimize(OPTIMIZE)
            return module.assembly()
    except llvm.LLVMError as error:
        name = ir.StringAttr(gpu_module.attributes["sym_name"]).value.removesuffix(SUFFIX)
        raise CodegenError(f"{name}: {error}") from error
