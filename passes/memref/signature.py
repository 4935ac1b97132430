"""Converts the signatures of kernels from tensors to memrefs."""

from __future__ import annotations

from typing import cast

from mlir import ir
from mlir.dialects import bufferization, func

from ..ir.memory_layout import strided_type
from ..kernel.views import argument_strides


def convert_signature(function: ir.Operation) -> None:
    """Converts every tensor argument of a kernel to a memref; results go to the last arguments, the destinations.

    An argument with `stepwell.strides` becomes a memref of that layout.

    func.func private @k(%x: tensor<4xf32>, %out: tensor<4xf32>) -> tensor<4xf32> { ... return %r }
    --> func.func private @k(%x: memref<4xf32>, %out: memref<4xf32>) {
          ... bufferization.materialize_in_destination %r in restrict writable %out
          return }
    """
    kernel = cast(func.FuncOp, function.opview)
    inputs = len(kernel.type.inputs) - len(kernel.type.results)
    kinds = [
        strided_type(item, strides) if isinstance(item, ir.RankedTensorType) else item
        for item, strides in zip(kernel.type.inputs, argument_strides(function), strict=True)
    ]
    function.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, []))
    noalias, readonly = {"llvm.noalias": ir.UnitAttr.get()}, {"llvm.readonly": ir.UnitAttr.get()}
    marks = [noalias | (readonly if index < inputs else {}) for index in range(len(kinds))]
    function.attributes["arg_attrs"] = ir.ArrayAttr.get([ir.DictAttr.get(item) for item in marks])
    if "res_attrs" in function.attributes:
        del function.attributes["res_attrs"]
    if kernel.is_external:
        return
    block = kernel.entry_block
    terminator = list(block.operations)[-1].operation
    with function.location, ir.InsertionPoint(terminator):
        for index, value in enumerate(terminator.operands):
            target = block.arguments[inputs + index]
            bufferization.MaterializeInDestinationOp(None, value, target, restrict=True, writable=True)
        func.ReturnOp([])
    terminator.erase()
    for index, (argument, kind) in enumerate(zip(block.arguments, kinds, strict=True)):
        _read_as_tensor(argument, kind, is_writable=index >= inputs, block=block)


def _read_as_tensor(argument: ir.BlockArgument, kind: ir.Type, is_writable: bool, block: ir.Block) -> None:
    tensor = argument.type
    written = "bufferization.materialize_in_destination"
    uses = [use for use in argument.uses if use.owner.name != written or use.operand_number == 0]
    argument.set_type(kind)
    with block.owner.location, ir.InsertionPoint.at_block_begin(block):
        view = bufferization.ToTensorOp(tensor, argument, restrict=True, writable=is_writable).result
    for use in uses:
        use.owner.operation.operands[use.operand_number] = view
