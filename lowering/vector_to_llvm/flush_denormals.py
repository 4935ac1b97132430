"""`stepwell-flush-denormals`: makes computing on padding as fast as computing on data."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import llvm

from ...dialects import discardable
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of
from ...passes.ir.rewriting import walk
from ..target import Target


@register
@dataclass(frozen=True)
class FlushDenormalsPass(Pass):
    """Make kernels that read padding treat denormal numbers as zeros, and produce none.

    If sizes vary, tiles reach beyond the data, into the previous contents of that memory. As floats, integers and
    masks are denormal, and an operation on denormals takes a hundred times as long. So these kernels change the
    processor's mode, and restore it before they return:

        llvm.func @k(%x: !llvm.ptr) attributes {stepwell.reads_padding} { ... llvm.return }
        -->
        llvm.func @k(%x: !llvm.ptr) attributes {stepwell.reads_padding} {
          llvm.call_intrinsic "llvm.x86.sse.stmxcsr"(%before)
          %old = llvm.load %before
          %new = llvm.or %old, 0x8040                            // flush to zero, denormals are zeros
          llvm.store %new, %now
          llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%now)
          ...
          llvm.call_intrinsic "llvm.x86.sse.ldmxcsr"(%before)
          llvm.return
        }

    Each kernel changes the mode, instead of @main once, because workers of a thread pool also call kernels.

    Preconditions: LLVM dialect.
    """

    name = "stepwell-flush-denormals"
    target: str = "cpu"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites the kernels of a module that are marked as reading padding."""
        change = _x86 if Target.parse(self.target).architecture == "x86_64" else _arm
        for function in [inner.operation for inner in op.regions[0].blocks[0].operations]:
            if not discardable.READS_PADDING.is_on(function) or not len(function.regions[0].blocks):
                continue
            returns = [inner for inner in walk(function) if inner.name == "llvm.return"]
            with function.location, ir.InsertionPoint.at_block_begin(body_of(function)):
                set_back, state = change()
            for end in returns:
                with end.location, ir.InsertionPoint(end):
                    llvm.call_intrinsic(None, set_back, [state], [], [])


# Flush to zero (bit 15) and denormals are zeros (bit 6) of MXCSR; FZ (bit 24) of FPCR is both.
_X86_BITS, _ARM_BIT = 0x8040, 1 << 24


def _x86() -> tuple[str, ir.Value]:
    """Changes the mode; returns the intrinsic that restores it, and its operand."""
    i32, pointer = ir.IntegerType.get_signless(32), ir.Type.parse("!llvm.ptr")
    one = _number(i32, 1)
    before, now = (llvm.alloca(pointer, one, i32) for _ in range(2))
    llvm.call_intrinsic(None, "llvm.x86.sse.stmxcsr", [before], [], [])
    llvm.store(_with(llvm.load(i32, before), _number(i32, _X86_BITS)), now)
    llvm.call_intrinsic(None, "llvm.x86.sse.ldmxcsr", [now], [], [])
    return "llvm.x86.sse.ldmxcsr", before


def _arm() -> tuple[str, ir.Value]:
    """Changes the mode; returns the intrinsic that restores it, and its operand."""
    i64 = ir.IntegerType.get_signless(64)
    before = llvm.call_intrinsic(i64, "llvm.aarch64.get.fpcr", [], [], [])
    llvm.call_intrinsic(None, "llvm.aarch64.set.fpcr", [_with(before, _number(i64, _ARM_BIT))], [], [])
    return "llvm.aarch64.set.fpcr", before


def _number(kind: ir.Type, value: int) -> ir.Value:
    return llvm.mlir_constant(ir.IntegerAttr.get(kind, value))


def _with(mode: ir.Value, bits: ir.Value) -> ir.Value:
    return llvm.OrOp(mode, bits).result
