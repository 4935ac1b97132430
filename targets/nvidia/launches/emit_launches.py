"""`stepwell-emit-launches`: turns launches into kernels of the gpu dialect and their callers into lists of launches."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, func, gpu, memref

from ....dialects import discardable
from ....dialects.symbols import symbol_of
from ....dialects.types import array_of, dense
from ....passes.infra.base import Pass, PassError, register
from ....passes.infra.state import CompileState
from ....passes.ir.functions import body_of, kernels_in
from ....passes.ir.memory_layout import memref_type
from ....passes.ir.values import i64
from ....passes.kernel.views import EXTRACT, INSERT, row_major
from ..emission.indices import MOST_ELEMENTS
from ..emission.launch import EmittedGeometry, LaunchContext, Memory, TensorMapArgument
from ..emission.values import Values
from ..emission.views import memories
from ..target import GpuTarget
from .emitters import EMITTERS, recorded_schedule

_NO_CODE = ("bufferization.materialize_in_destination", "memref.alloc", "memref.reinterpret_cast")


@register
@dataclass(frozen=True)
class EmitLaunchesPass(Pass):
    """Write the GPU code of every launch, and make every kernel a list of `gpu.launch_func` on memory.

    ```mlir
    func.func private @k(%x: memref<4096xf32>, %out: memref<4096xf32>) {
      %0 = bufferization.to_tensor %x ...
      %1 = call @k_0(%0, ...) : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
      bufferization.materialize_in_destination %1 in restrict writable %out
      return
    }
    // -->
    gpu.module @k.gpu {
      gpu.func @k_0(%x: memref<4096xf32>, %out: memref<4096xf32>) kernel { ... }
    }
    func.func private @k(%x: memref<4096xf32>, %out: memref<4096xf32>) {
      gpu.launch_func @k.gpu::@k_0 blocks in (%c4, %c1, %c1) threads in (%c256, %c1, %c1) args(%x, %out)
    ```

    Attributes:
        target: the GPU, in the form that `GpuTarget.parse` accepts.

    Preconditions: phase `tiled`, and `stepwell-plan-memory`.
    """

    name = "stepwell-emit-launches"
    target: str = "cuda:sm_80"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every kernel of a module, and erases its launches."""
        target, symbols = GpuTarget.parse(self.target), ir.SymbolTable(op)
        op.attributes["gpu.container_module"] = ir.UnitAttr.get()
        for kernel in kernels_in(op):
            _KernelWriter(kernel, symbols, target).run()
        for function in [inner.operation for inner in op.regions[0].blocks[0].operations]:
            if discardable.LAUNCH.is_on(function):
                function.erase()


class _KernelWriter:
    """Rewrites one kernel."""

    def __init__(self, kernel: ir.Operation, symbols: ir.SymbolTable, target: GpuTarget) -> None:
        self._kernel, self._symbols, self._target = kernel, symbols, target
        self._old = [op.operation for op in body_of(kernel).operations]
        self._bases: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        """Rewrites the kernel."""
        name = f"{symbol_of(self._kernel)}.gpu"
        with self._kernel.location, ir.InsertionPoint(self._kernel):
            code = gpu.GPUModuleOp(name)
        code_block = code.bodyRegion.blocks[0] if len(code.bodyRegion.blocks) else code.bodyRegion.blocks.append()
        # Set before any code is written: emitters that split addresses need the width of an index.
        bits = 32 if self._largest() <= MOST_ELEMENTS else 64
        code.operation.attributes["dlti.dl_spec"] = ir.Attribute.parse(f"#dlti.dl_spec<index = {bits} : i32>")
        for op in self._old:
            with op.location, ir.InsertionPoint(op):
                self._rewrite(op, name, code_block)
        for op in reversed(self._old):
            op.erase()

    def _largest(self) -> int:
        """Returns the largest number of elements that a buffer of the kernel spans."""
        spans = [_span(argument.type) for argument in body_of(self._kernel).arguments]
        made = [op.results[0].type for op in self._old if op.name == "tensor.empty"]
        return max([*spans, *(math.prod(ir.RankedTensorType(kind).shape) for kind in made)], default=0)

    def _rewrite(self, op: ir.Operation, module: str, code: ir.Block) -> None:
        if op.name == "tensor.empty":
            count = math.prod(ir.RankedTensorType(op.results[0].type).shape)
            kind = memref_type(op.results[0].type)
            self._bases[op.results[0]] = memref.AllocOp(ir.MemRefType.get([count], kind.element_type), [], []).result
        elif op.name in (EXTRACT, INSERT):
            self._bases[op.results[0]] = self._bases[op.operands[0 if op.name == EXTRACT else 1]]
        elif op.name == "func.call":
            self._rewrite_call(op, module, code)
        elif op.name == "bufferization.to_tensor":
            self._bases[op.results[0]] = self._flat(op.operands[0])
        elif op.name == "func.return":
            func.ReturnOp([])
        elif op.name not in _NO_CODE:
            raise PassError(f"unexpected '{op.name}' op between launches", op.location)

    def _rewrite_call(self, op: ir.Operation, module: str, code: ir.Block) -> None:
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        function = self._symbols[name].operation
        operands = [self._bases[value] for value in op.operands]
        self._bases[op.results[0]] = operands[-1]
        with function.location, ir.InsertionPoint(code):
            geometry, maps = _emit(function, [item.type for item in operands], self._target)
        described = [_map_pointer(operands[item.argument], item) for item in maps]
        index = [arith.ConstantOp(ir.IndexType.get(), size).result for size in (*geometry.grid, *geometry.block)]
        clusters = geometry.cluster if geometry.cluster != (1, 1, 1) else ()
        cluster = [arith.ConstantOp(ir.IndexType.get(), size).result for size in clusters]
        i32 = ir.IntegerType.get_signless(32)
        shared = [arith.ConstantOp(i32, geometry.shared_bytes).result] if geometry.shared_bytes else []
        segments = [0, 1, 1, 1, 1, 1, 1, *([1] * 3 if cluster else [0] * 3), len(shared), len(operands) + len(maps), 0]
        kernel = ir.SymbolRefAttr.get([module, name])
        ir.Operation.create(
            "gpu.launch_func",
            [],
            [*index, *cluster, *shared, *operands, *described],
            {"kernel": kernel, "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments)},
        )

    def _flat(self, argument: ir.Value) -> ir.Value:
        """Returns a one-dimensional view of all of an argument's memory."""
        kind, span = ir.MemRefType(argument.type), _span(argument.type)
        flat = ir.MemRefType.get([span], kind.element_type)
        return memref.ReinterpretCastOp(flat, argument, [], [], [], [0], [span], [1]).result


def _span(buffer: ir.Type) -> int:
    """Returns the number of elements from the first to the last of a buffer."""
    kind = ir.MemRefType(buffer)
    strides, _ = kind.get_strides_and_offset()
    last = sum((size - 1) * step for size, step in zip(kind.shape, strides, strict=True))
    return 0 if 0 in kind.shape else 1 + last


def _emit(
    function: ir.Operation, kinds: list[ir.Type], target: GpuTarget
) -> tuple[EmittedGeometry, list[TensorMapArgument]]:
    """Writes the kernel of a launch at the insertion point."""
    name, numbers = recorded_schedule(function)
    kernel = ir.Operation.create(
        "gpu.func",
        attributes={
            "sym_name": ir.StringAttr.get(symbol_of(function)),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(kinds, [])),
            "gpu.kernel": ir.UnitAttr.get(),
        },
        regions=1,
    )
    block = kernel.regions[0].blocks.append(*kinds, arg_locs=[function.location] * len(kinds))
    tensors = list(body_of(function).arguments)
    arguments = {
        tensor: replace(memory, base=base)
        for (tensor, memory), base in zip(memories(function).items(), block.arguments, strict=True)
    }
    launch = LaunchContext(function, numbers, target, arguments, kernel)
    with ir.InsertionPoint(block):
        geometry = EMITTERS[name](launch, Values(arguments, lambda tensor: _constant(tensor, kernel)))
        gpu.ReturnOp([])
    types = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, []))
    pointers = [_pointer_attributes(tensor == tensors[-1]) for tensor in tensors]
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get([*pointers, *[ir.DictAttr.get({})] * len(launch.maps)])
    if launch.maps:
        discardable.TENSOR_MAPS.write(kernel, len(launch.maps))
    kernel.attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(geometry.block)
    kernel.attributes["known_grid_size"] = ir.DenseI32ArrayAttr.get(geometry.grid)
    if geometry.blocks_per_multiprocessor:
        kernel.attributes["nvvm.minctasm"] = _i32(geometry.blocks_per_multiprocessor)
    return geometry, launch.maps


def _pointer_attributes(is_destination: bool) -> ir.DictAttr:
    entries: dict[str, ir.Attribute] = {"llvm.noalias": ir.UnitAttr.get()}
    return ir.DictAttr.get(entries if is_destination else {**entries, "llvm.readonly": ir.UnitAttr.get()})


def _map_pointer(base: ir.Value, item: TensorMapArgument) -> ir.Value:
    """Returns the address of a tensor map, with the map's description as an attribute."""
    entries: dict[str, ir.Attribute] = {
        name: ir.DenseI64ArrayAttr.get(getattr(item, name)) for name in ("sizes", "strides", "box", "steps")
    }
    entries |= {name: i64(getattr(item, name)) for name in ("swizzle", "promotion", "offset")}
    entries |= {name: ir.StringAttr.get(getattr(item, name)) for name in ("element", "fill")}
    attributes = discardable.TENSOR_MAP.entry(ir.DictAttr.get(entries))
    return ir.Operation.create(
        "builtin.unrealized_conversion_cast", [ir.Type.parse("!llvm.ptr")], [base], attributes
    ).result


def _constant(tensor: ir.Value, kernel: ir.Operation) -> Memory:
    """Adds a dense constant as a global of the kernel's module."""
    contents = array_of(tensor.owner.attributes["value"]).reshape(-1)
    module = kernel.parent
    assert module is not None
    block = module.operation.regions[0].blocks[0]
    name = f"constant_{sum(op.operation.name == 'memref.global' for op in block.operations)}"
    value = dense(contents.view("i1") if contents.dtype == bool else contents)
    kind = memref_type(value.type)
    with ir.InsertionPoint.at_block_begin(block):
        memref.GlobalOp(
            name,
            ir.TypeAttr.get(kind),
            sym_visibility="private",
            initial_value=value,
            constant=True,
            alignment=i64(16),
        )
    with ir.InsertionPoint.at_block_begin(body_of(kernel)):
        base = memref.GetGlobalOp(kind, name).result
    shape = tuple(ir.RankedTensorType(tensor.type).shape)
    return Memory(base, shape, tuple(row_major(shape)))


def _i32(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), value)
