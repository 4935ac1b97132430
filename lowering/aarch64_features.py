"""Instruction sets of AArch64 processors by CPU name: LLVM's API lists only those of the host."""

from __future__ import annotations

import functools

from . import llvm

# LLVM's names of the instruction sets that its code for tensors may use, each with an instruction of it.
_PROBES = {
    "bf16": "bfcvtn v0.4h, v0.4s",
    "complxnum": "fcadd v0.4s, v0.4s, v0.4s, #90",
    "dotprod": "sdot v0.4s, v0.16b, v0.16b",
    "fp16fml": "fmlal v0.4s, v0.4h, v0.4h",
    "fullfp16": "fadd v0.8h, v0.8h, v0.8h",
    "i8mm": "usdot v0.4s, v0.16b, v0.16b",
    "lse": "swp x0, x0, [x0]",
    "neon": "add v0.4s, v0.4s, v0.4s",
    "rcpc": "ldapr x0, [x0]",
    "rdm": "sqrdmlah v0.4s, v0.4s, v0.4s",
    "sve": "ptrue p0.b",
    "sve2": "match p0.b, p0/z, z0.b, z0.b",
}


@functools.cache
def features_of(triple: str, cpu: str) -> tuple[str, ...]:
    """Returns the instruction sets of a processor that LLVM knows, as sorted `+name`."""
    with llvm.machine(triple, cpu, "") as machine:
        return tuple(f"+{name}" for name, instruction in _PROBES.items() if _is_known(instruction, machine))


def _is_known(instruction: str, machine: llvm.TargetMachine) -> bool:
    try:
        with llvm.parsed(f'module asm "{instruction}"', machine) as module:
            module.object()
    except llvm.LLVMError:
        return False
    return True
