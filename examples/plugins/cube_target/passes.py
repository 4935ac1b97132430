"""The passes of the cube target: one prepares the weights, one turns kernels into instruction streams."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from mlir import ir
from stepwell.dialects import discardable, forms
from stepwell.dialects.discardable_attribute import DiscardableAttribute
from stepwell.dialects.stepwell.contraction import ConvOp, MatmulOp
from stepwell.dialects.stepwell.movement import ReshapeOp, TransposeOp
from stepwell.dialects.stepwell.packed import PackedMatmulOp
from stepwell.machines.names import parse
from stepwell.passes.graph.packing.pack_weights import PackConv, PackMatmul
from stepwell.passes.graph.values import dtype_of, is_fixed
from stepwell.passes.infra.base import Pass, PassError, register
from stepwell.passes.infra.machine_option import WHOLE_ROWS
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import class_of, kernels_in
from stepwell.passes.ir.rewriting import Pattern, Refusal, Replacement, apply_patterns
from stepwell.passes.ir.values import shape_of
from stepwell.passes.memref.signature import convert_signature

from .assembly import disassemble
from .blocking import Blocks, is_worthwhile
from .emit import emit_best
from .isa import CubeProgram
from .kernels import NotForTheUnit, contraction_of
from .machine import MACHINES

CODE = DiscardableAttribute(
    "cube.code",
    forms.STRINGS,
    "the instruction stream of a kernel, line by line",
    places=("func.func", "llvm.func"),
    phases=("cube", "tiled", "vector", "memref", "llvm"),
)
REASON = DiscardableAttribute(
    "cube.reason",
    forms.STRING,
    "why a contraction or convolution stays on the host",
    places=("func.func", "llvm.func"),
    phases=("cube", "tiled", "vector", "memref", "llvm"),
)

_ONE_PANEL = parse(WHOLE_ROWS)
"""A machine for which a weight is a matrix, row by row."""
_TOO_SMALL = Refusal("most of the unit's work would be padding")


class PackMatmulForUnit(Pattern[MatmulOp]):
    """matmul(x, w) --> packed_matmul(x, w in one panel)"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        """Returns the product with its weight row by row, if the unit is to compute it."""
        rows, columns = shape_of(op.lhs), shape_of(op.result)
        if rows is None or columns is None:
            return None
        if not is_worthwhile(math.prod(columns[:-1]), rows[-2 if op.transpose_lhs else -1], columns[-1]):
            return _TOO_SMALL
        return PackMatmul(_ONE_PANEL).rewrite(op)


class PackRhsForUnit(Pattern[MatmulOp]):
    """matmul(x, y) --> packed_matmul(x, y in one panel), which moves nothing unless y is transposed"""

    root = MatmulOp

    def rewrite(self, op: MatmulOp) -> Replacement:
        """Returns the product of equal batches of f16 matrices as one whose columns are not divided."""
        left, right = shape_of(op.lhs), shape_of(op.rhs)
        if left is None or right is None or is_fixed(op.rhs) or dtype_of(op.rhs) != np.float16 or op.transpose_lhs:
            return None
        *batch, depth, columns = right[:-2] + right[:-3:-1] if op.transpose_rhs else right
        if math.prod(batch) not in (1, math.prod(left[:-2])):
            return Refusal("the operands are not matrices in equal batches")
        if not is_worthwhile(math.prod(left[:-1]) // math.prod(batch), depth, columns):
            return _TOO_SMALL
        rank = len(right)
        rhs = TransposeOp(op.rhs, permutation=(*range(rank - 2), rank - 1, rank - 2)) if op.transpose_rhs else op.rhs
        flat = ReshapeOp(rhs, shape=(math.prod(right),)).result
        return PackedMatmulOp(op.lhs, flat, columns=columns, panel=columns, batch=math.prod(batch)).result


class PackConvForUnit(Pattern[ConvOp]):
    """conv(x, w, b) --> add(packed_conv(x, w in one panel), b)"""

    root = ConvOp

    def rewrite(self, op: ConvOp) -> Replacement:
        """Returns the convolution with its weight row by row, if the unit is to compute it."""
        result, weight = shape_of(op.result), shape_of(op.weight)
        if result is None or weight is None or op.layout != "channels_last" or op.group != 1:
            return None
        if not is_worthwhile(math.prod(result[:-1]), math.prod(weight[1:]), weight[0]):
            return _TOO_SMALL
        return PackConv(_ONE_PANEL).rewrite(op)


@register
@dataclass(frozen=True)
class CubePackWeightsPass(Pass):
    """Lay out the right operands of products and convolutions that the cube unit computes row by row, in one panel.

    These are weights, mostly, which are laid out at compile time.

    ```mlir
    %0 = "stepwell.matmul"(%x, %w) : (tensor<32x64xf16>, tensor<64x96xf16>) -> tensor<32x96xf16>
    // -->
    %1 = "stepwell.reshape"(%w) {shape = array<i64: 6144>}
    %0 = "stepwell.packed_matmul"(%x, %1) {columns = 96, panel = 96}
    ```
    """

    name = "cube-pack-weights"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Packs the weights of a module."""
        apply_patterns(op, (PackMatmulForUnit(), PackRhsForUnit(), PackConvForUnit()), state)


@register
@dataclass(frozen=True)
class CubeEmitStreamsPass(Pass):
    """Replace kernels that the cube unit can compute by declarations with instruction streams.

    The other kernels stay as they are, for the host.

    ```mlir
    func.func private @kernel_0(%x: ..., %w: ..., %out: ...) -> ... attributes {stepwell.kernel = ...} {
      linalg.generic {stepwell.contraction = 0} ...
    }
    // -->
    func.func private @kernel_0(...) -> ... attributes {
      cube.code = ["machine v1, arguments of ...", "load ...", "multiply ...", "store ..."],
      stepwell.schedule = {name = "cube", blocks = array<i64: 128, 64, 64>, ...}, stepwell.kernel = ...}
    ```

    Preconditions: phase `kernels`.

    Attributes:
        machine: the version of the unit.
    """

    name = "cube-emit-streams"
    machine: str = "v1"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Replaces the kernels of a module.

        Raises:
            PassError: there is no such machine.
        """
        if self.machine not in MACHINES:
            raise PassError(f"there is no cube unit '{self.machine}'; known are {', '.join(MACHINES)}")
        for kernel in kernels_in(op):
            try:
                contraction = contraction_of(kernel)
            except NotForTheUnit as reason:
                if class_of(kernel) in ("contraction", "convolution"):
                    REASON.write(kernel, str(reason))
                continue
            declaration = _declaration(kernel, *emit_best(contraction, MACHINES[self.machine]))
            if discardable.LIBRARY.is_on(op):  # otherwise memory is planned for its callers first
                convert_signature(declaration)


def _declaration(kernel: ir.Operation, blocks: Blocks, program: CubeProgram) -> ir.Operation:
    """Replaces a kernel by a declaration with a stream."""
    kept = ("sym_name", "function_type", "sym_visibility", "arg_attrs", "res_attrs", discardable.KERNEL.name)
    attributes = {name: kernel.attributes[name] for name in kept if name in kernel.attributes}
    with kernel.location, ir.InsertionPoint(kernel):
        made = ir.Operation.create("func.func", attributes=attributes, regions=1)
    discardable.SCHEDULE.write(made, _schedule(blocks))
    CODE.write(made, disassemble(program))
    kernel.erase()
    return made


def _schedule(blocks: Blocks) -> ir.DictAttr:
    return ir.DictAttr.get(
        {
            "name": ir.StringAttr.get("cube"),
            "blocks": ir.DenseI64ArrayAttr.get([blocks.m, blocks.k, blocks.n]),
            "outer": ir.StringAttr.get(blocks.outer),
            "panels": forms.I64.write(blocks.panels),
            "buffers": forms.I64.write(blocks.buffers),
        }
    )
