"""Addresses, loads and stores in the LLVM dialect, for kernels that lay out their memory themselves."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, builtin, gpu, llvm

from .integers import Int

GLOBAL, SHARED = 1, 3
"""Address spaces of global and of shared memory (LLVM, "User Guide for NVPTX Back-end")."""
_DYNAMIC_SHARED = (
    "llvm.mlir.global external @dynamic_shared() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>"
)
_DYNAMIC = -(2**31)
"""The mark of an index that is an operand: `kDynamicIndex` of MLIR's `llvm.getelementptr`."""


def thread_number() -> Int:
    """Returns the index of this thread in a one-dimensional block."""
    return _i32(gpu.thread_id(gpu.Dimension.x))


def block_number() -> Int:
    """Returns the index of this block in a one-dimensional grid."""
    return _i32(gpu.block_id(gpu.Dimension.x))


def shared_memory() -> ir.Value:
    """Returns the block's dynamic shared memory: a zero-sized global variable, as NVIDIA's compiler declares it."""
    op = ir.InsertionPoint.current.block.owner
    while op is not None and op.name != "gpu.module":
        op = op.parent
    assert op is not None
    block = op.regions[0].blocks[0]
    if not any(other.operation.name == "llvm.mlir.global" for other in block.operations):
        ir.InsertionPoint.at_block_begin(block).insert(ir.Operation.parse(_DYNAMIC_SHARED))
    return llvm.AddressOfOp(pointer_type(SHARED), ir.FlatSymbolRefAttr.get("dynamic_shared")).result


def global_memory(buffer: ir.Value) -> ir.Value:
    """Returns the address of a memref in global memory."""
    return _pointer(buffer, GLOBAL)


def pointer_type(space: int) -> ir.Type:
    """Returns the type of pointers into an address space."""
    return ir.Type.parse(f"!llvm.ptr<{space}>")


def element_pointer(base: ir.Value, element: ir.Type, offset: Int, constant: int = 0) -> ir.Value:
    """Returns the address `offset + constant` elements after `base`; the instruction's address encodes the constant."""
    pointer = base
    if offset.known is None:
        pointer = _step(pointer, element, [offset.ir], [_DYNAMIC])
    else:
        constant += offset.known
    return _step(pointer, element, [], [constant]) if constant else pointer


def far_pointer(base: ir.Value, element: ir.Type, offset: ir.Value) -> ir.Value:
    """Returns the address `offset` elements after `base`, where `offset` is an i64."""
    return _step(base, element, [offset], [_DYNAMIC])


def load(kind: ir.Type, pointer: ir.Value, alignment: int) -> ir.Value:
    """Loads a scalar or vector."""
    return llvm.load(kind, pointer, alignment=alignment)


def store(value: ir.Value, pointer: ir.Value, alignment: int) -> None:
    """Stores a scalar or vector."""
    llvm.store(value, pointer, alignment=alignment)


def shared_address(pointer: ir.Value) -> Int:
    """Returns the 32-bit address that instructions on shared memory take."""
    return Int(llvm.ptrtoint(ir.IntegerType.get_signless(32), pointer))


def _step(base: ir.Value, element: ir.Type, dynamic: list[ir.Value], constant: list[int]) -> ir.Value:
    indices = ir.DenseI32ArrayAttr.get(constant)
    return llvm.getelementptr(base.type, base, dynamic, indices, element, no_wrap_flags=None)


def _pointer(buffer: ir.Value, space: int) -> ir.Value:
    # An index cannot hold every address: kernels of small tensors have indices of 32 bits.
    kind = ir.MemRefType(buffer.type)
    bits, inner = _index_bits(), f"!llvm.ptr{f'<{space}>' if kind.memory_space else ''}"
    described = f"!llvm.struct<({inner}, {inner}, i{bits}, array<1 x i{bits}>, array<1 x i{bits}>)>"
    descriptor = builtin.unrealized_conversion_cast([ir.Type.parse(described)], [buffer])
    pointer = llvm.extractvalue(ir.Type.parse(inner), descriptor, ir.DenseI64ArrayAttr.get([1]))
    return pointer if kind.memory_space else llvm.addrspacecast(pointer_type(space), pointer)


def _index_bits() -> int:
    """Returns the width in bits of an index in the module of the kernel being built."""
    op = ir.InsertionPoint.current.block.owner
    while op is not None and "dlti.dl_spec" not in op.attributes:
        op = op.parent
    return 32 if op is not None and "index = 32" in str(op.attributes["dlti.dl_spec"]) else 64


def _i32(index: ir.Value) -> Int:
    return Int(arith.index_castui(ir.IntegerType.get_signless(32), index))
