"""`stepwell-lower-gpu-math`: lowers the math ops for which a GPU has instructions."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....passes.infra.base import Pass, PassError, register
from ....passes.infra.state import CompileState
from ....passes.ir.rewriting import walk

_INTRINSICS = {
    "math.absf": "llvm.fabs",
    "math.ceil": "llvm.ceil",
    "math.copysign": "llvm.copysign",
    "math.ctlz": "llvm.ctlz",
    "math.ctpop": "llvm.ctpop",
    "math.cttz": "llvm.cttz",
    "math.exp2": "llvm.exp2",
    "math.floor": "llvm.floor",
    "math.fma": "llvm.fma",
    "math.round": "llvm.round",
    "math.roundeven": "llvm.roundeven",
    "math.sqrt": "llvm.sqrt",
    "math.trunc": "llvm.trunc",
}
_WITH_ZERO_FLAG = frozenset({"math.ctlz", "math.cttz"})


@register
@dataclass(frozen=True)
class LowerGpuMathPass(Pass):
    """Lower the math ops in GPU kernels to intrinsics.

    Upstream's conversion to NVVM lowers them to calls of NVIDIA's libdevice, which is not linked.

    ```mlir
    %1 = math.sqrt %0 : f32
    // -->
    %1 = llvm.call_intrinsic "llvm.sqrt"(%0) : (f32) -> f32
    ```

    Preconditions: `stepwell-approximate-math` has run.
    """

    name = "stepwell-lower-gpu-math"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every math op in the module's kernels.

        Raises:
            PassError: a GPU has no instruction for an op.
        """
        modules = [inner.operation for inner in op.regions[0].blocks[0].operations if inner.name == "gpu.module"]
        for module in modules:
            for inner in list(walk(module)):
                if inner.name.startswith("math."):
                    _lower(inner)


def _lower(op: ir.Operation) -> None:
    operands, kind = list(op.operands), op.results[0].type
    with op.location, ir.InsertionPoint(op):
        if op.name == "math.absi":
            value = _absolute(operands[0])
        elif op.name == "math.rsqrt":
            one = _constant(kind, 1.0)
            value = ir.Operation.create("arith.divf", [kind], [one, _call("llvm.sqrt", kind, operands)]).result
        elif op.name not in _INTRINSICS:
            raise PassError(f"'{op.name}' op: a GPU has no instruction for it", op.location)
        else:
            value = _call(_INTRINSICS[op.name], kind, operands, op.name in _WITH_ZERO_FLAG)
    op.results[0].replace_all_uses_with(value)
    op.erase()


def _absolute(value: ir.Value) -> ir.Value:
    """Returns max(x, -x)."""
    zero = _constant(value.type, 0)
    negative = ir.Operation.create("arith.subi", [value.type], [zero, value]).result
    return ir.Operation.create("arith.maxsi", [value.type], [value, negative]).result


def _call(intrinsic: str, kind: ir.Type, operands: list[ir.Value], has_flag: bool = False) -> ir.Value:
    if has_flag:
        false = ir.IntegerAttr.get(ir.IntegerType.get_signless(1), 0)
        operands = [
            *operands,
            ir.Operation.create("llvm.mlir.constant", [false.type], attributes={"value": false}).result,
        ]
    attributes = {
        "intrin": ir.StringAttr.get(intrinsic),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
        "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
    }
    return ir.Operation.create("llvm.call_intrinsic", [kind], operands, attributes).result


def _constant(kind: ir.Type, number: float) -> ir.Value:
    element = kind.element_type if isinstance(kind, ir.VectorType) else kind
    scalar = (
        ir.FloatAttr.get(element, number)
        if isinstance(element, ir.FloatType)
        else ir.IntegerAttr.get(element, int(number))
    )
    value = ir.DenseElementsAttr.get_splat(kind, scalar) if isinstance(kind, ir.VectorType) else scalar
    return ir.Operation.create("arith.constant", [kind], attributes={"value": value}).result
