"""`stepwell-pass-tensor-maps`: passes tensor maps to kernels by value, as the copy engine requires."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from ....dialects import discardable
from ....passes.infra.base import Pass, register
from ....passes.infra.state import CompileState
from ....passes.ir.functions import body_of

_BYTES, _ALIGNMENT = 128, 64
"""Size of a tensor map, and the alignment that the driver demands, in bytes (cuda.h, cuTensorMapEncodeTiled)."""


@register
@dataclass(frozen=True)
class PassTensorMapsPass(Pass):
    """Turn the tensor-map arguments of kernels into constants of 128 bytes in the kernel's parameter space.

    The conversion from the gpu dialect drops the argument attributes for this, so that this pass adds them afterwards.

    ```mlir
    llvm.func @k(%x: !llvm.ptr, %map: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel, stepwell.tensor_maps = 1 : i64}
    // -->
    llvm.func @k(%x: !llvm.ptr, %map: !llvm.ptr {llvm.align = 64, llvm.byval = !llvm.array<128 x i8>,
                                                 nvvm.grid_constant}) attributes {gpu.kernel, nvvm.kernel}
    ```

    Preconditions: `convert-gpu-to-nvvm` has run.
    """

    name = "stepwell-pass-tensor-maps"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every kernel of a module."""
        for module in op.regions[0].blocks[0].operations:
            if module.operation.name != "gpu.module":
                continue
            for function in module.operation.regions[0].blocks[0].operations:
                if discardable.TENSOR_MAPS.is_on(function.operation):
                    _pass_by_value(function.operation)


def _pass_by_value(function: ir.Operation) -> None:
    count = discardable.TENSOR_MAPS.required(function)
    contents = ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{_BYTES} x i8>"))
    alignment = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _ALIGNMENT)
    entries = {"llvm.align": alignment, "llvm.byval": contents, "nvvm.grid_constant": ir.UnitAttr.get()}
    taken = len(body_of(function).arguments)
    known = [ir.DictAttr.get({})] * taken
    if "arg_attrs" in function.attributes:
        known = list(ir.ArrayAttr(function.attributes["arg_attrs"]))
    others = known[: taken - count]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([*others, *[ir.DictAttr.get(entries)] * count])
    discardable.TENSOR_MAPS.remove(function)
