"""`stepwell-time-kernels`: how long every kernel takes inside the running model."""

from __future__ import annotations

import time
from dataclasses import dataclass

from mlir import ir

from ...passes.base import Pass, register
from ...passes.functions import main_function
from ...passes.rewriting import walk
from .clock import clock_text
from .share_out_loops import SHARED
from .team import BEGIN, END

TIMES = "stepwell_times"
"""The symbol of the table: for each call of a kernel its nanoseconds so far, and how often it was made."""
KERNELS = "stepwell.timed_kernels"
"""The attribute that names the kernel of each call, in the table's order."""


@register
@dataclass(frozen=True)
class TimeKernelsPass(Pass):
    """Take the time before and after each call of a kernel in `@main`, and add it up in the table @stepwell_times.

        llvm.call @kernel(%x, %y)
        -->
        %start = llvm.call @stepwell.now()
        llvm.call @kernel(%x, %y)
        llvm.call @stepwell.record(%call_index, %start)

    Helpers of a team do not count: what counts is how long the calling thread waits for a kernel. The module's
    `stepwell.timed_kernels` lists the kernels.

    Preconditions: LLVM dialect; `@main` calls kernels by their names, or shares them out.
    """

    name = "stepwell-time-kernels"

    def run(self, op: ir.Operation) -> None:
        """Puts calls of the clock around calls of kernels."""
        calls = [call for call in walk(main_function(op)) if call.name == "llvm.call"]
        calls = [call for call in calls if _callee(call) not in (BEGIN, END)]
        names = list(map(_callee, calls))
        body = op.regions[0].blocks[0]
        there = {str(item.operation.attributes["sym_name"]) for item in body.operations}
        helpers = ir.Module.parse(clock_text(time.CLOCK_MONOTONIC) + _helpers(len(names)))
        for helper in helpers.body.operations:
            if str(helper.operation.attributes["sym_name"]) not in there:  # teams have a clock too
                helper.operation.clone(ip=ir.InsertionPoint(body))
        for index, call in enumerate(calls):
            _surround(call, index)
        op.attributes[KERNELS] = ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names])


def _callee(call: ir.Operation) -> str:
    """The kernel that a call is about."""
    return ir.FlatSymbolRefAttr(call.attributes[SHARED if SHARED in call.attributes else "callee"]).value


def _surround(call: ir.Operation, index: int) -> None:
    text = _DECLARATIONS + (
        "llvm.func @around() {\n"
        f"%index = llvm.mlir.constant({index} : i64) : i64\n"
        "%start = llvm.call @stepwell.now() : () -> i64\n"
        "llvm.call @stepwell.record(%index, %start) : (i64, i64) -> ()\n"
        "llvm.return\n}"
    )
    module = ir.Module.parse(text)
    around = module.body.operations[2].operation.regions[0].blocks[0]
    slot, now, record = (around.operations[at].operation for at in range(3))
    before = ir.InsertionPoint(call)
    taken = [part.clone(ip=before).operation.results[0] for part in (slot, now)]
    added = record.clone(ip=before).operation
    for at, value in enumerate(taken):
        added.operands[at] = value
    added.move_after(call)


_DECLARATIONS = "llvm.func @stepwell.now() -> i64\nllvm.func @stepwell.record(i64, i64)\n"


def _helpers(count: int) -> str:
    return f"""
llvm.mlir.global external @{TIMES}(dense<0> : tensor<{2 * count}xi64>) : !llvm.array<{2 * count} x i64>
llvm.func internal @stepwell.record(%index: i64, %start: i64) {{
  %end = llvm.call @stepwell.now() : () -> i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %table = llvm.mlir.addressof @{TIMES} : !llvm.ptr
  %entry = llvm.getelementptr %table[0, %index] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<{count} x array<2 x i64>>
  %taken = llvm.sub %end, %start : i64
  %before = llvm.load %entry : !llvm.ptr -> i64
  %sum = llvm.add %before, %taken : i64
  llvm.store %sum, %entry : i64, !llvm.ptr
  %counter = llvm.getelementptr %entry[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %calls = llvm.load %counter : !llvm.ptr -> i64
  %more = llvm.add %calls, %one : i64
  llvm.store %more, %counter : i64, !llvm.ptr
  llvm.return
}}
"""
