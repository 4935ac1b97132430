"""Converts kernels of stepwell ops to kernels of linalg ops in destination-passing style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, func, tensor

from ...dialects import discardable
from ...dialects.interfaces import Interface
from ...dialects.registry import OPS, view_of
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.types import dense
from ...passes.infra.base import Pass, PassError, register
from ...passes.infra.state import CompileState
from ...passes.infra.upstream import PreparedPipelines
from ...passes.ir.functions import class_of
from ...passes.ir.kernel_classes import kernel_class
from ...passes.ir.rewriting import walk
from ...passes.kernel.views import box_of, insertion_of
from ..builders.scalars import signless
from ..builders.strides import add_destination_strides
from .collapse import collapse
from .destinations import bind_destination, copy_inserted
from .masks import drop_masks
from .rules import LINALG_KERNEL, KernelRule, LinalgRule, Lowering, lower, preferred

# Fused before unit dimensions are folded, as reshapes between ops prevent fusion.
_FUSE = "func.func(linalg-fuse-elementwise-ops,linalg-fold-unit-extent-dims,canonicalize,cse)"


@register
@dataclass(frozen=True)
class ConvertToLinalgPass(Pass):
    """Lower the kernels' stepwell ops to linalg, and give every kernel a destination for its result.

    In kernels and in @main, element types become signless and a bool becomes a byte. If this changes an argument or
    result of @main, its attribute `stepwell.dtype` keeps the original element type.

    ```mlir
    func.func @main(%x: tensor<4xi1>) -> tensor<4xi1> {
      %0 = call @kernel_0(%x) : (tensor<4xi1>) -> tensor<4xi1>
    // -->
    func.func @main(%x: tensor<4xi8> {stepwell.dtype = i1}) -> (tensor<4xi8> {stepwell.dtype = i1}) {
      %out = tensor.empty() : tensor<4xi8>
      %0 = call @kernel_0(%x, %out) : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
    ```

    Attributes:
        rules: interfaces whose rules are preferred to those of `linalg`, by name and in order.
    """

    name = "stepwell-convert-to-linalg"
    rules: tuple[str, ...] = ()

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Lowers every kernel of a module, then rewrites its other functions.

        Raises:
            PassError: an op has no rule, or there is no such interface.
        """
        lowering = Lowering(preferred(self.rules), state.machine)
        pipelines = state.pipelines
        functions = [
            inner.operation for inner in op.regions[0].blocks[0].operations if inner.operation.name == "func.func"
        ]
        for function in functions:
            if discardable.KERNEL.is_on(function) and not len(function.regions[0].blocks):
                _lower_declaration(function)
            elif discardable.KERNEL.is_on(function):
                _lower_kernel(function, pipelines, lowering)
            else:
                _rewrite_caller(function)


def _lower_kernel(kernel: ir.Operation, pipelines: PreparedPipelines, lowering: Lowering) -> None:
    operations = kernel.regions[0].blocks[0].operations
    kind = class_of(kernel)
    if kind and all(kernel_class(op) != kind for op in operations):
        raise PassError(f"a kernel of class '{kind}' must have an op of that class", kernel.location)
    drop_masks(kernel)
    add_destination_strides(kernel)
    whole = next(filter(None, map(_lowering_of_kernel, operations)), None)
    if whole is not None:
        whole(kernel.opview, lowering)
        return
    _to_linalg(kernel, lowering.rules)
    pipelines.run(_FUSE, kernel)
    collapse(kernel)
    pipelines.run("func.func(canonicalize,cse)", kernel)
    bind_destination(kernel)
    copy_inserted(kernel)


def _lowering_of_kernel(op: ir.OpView) -> KernelRule | None:
    """Returns the lowering of a whole kernel around an op of this kind; None for an op that is lowered by itself."""
    kind = OPS.get(op.operation.name)
    return None if kind is None else LINALG_KERNEL.of(kind)


def _lower_declaration(kernel: ir.Operation) -> None:
    """Gives a kernel whose code is elsewhere signless arguments and a destination."""
    add_destination_strides(kernel)
    kind = ir.FunctionType(ir.TypeAttr(kernel.attributes["function_type"]).value)
    results = [signless(item) for item in kind.results]
    types = [*(signless(item) for item in kind.inputs), *results]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, results))


def _to_linalg(kernel: ir.Operation, rules: Sequence[Interface[LinalgRule]]) -> None:
    """Replaces the body, rule by rule, and the arguments by signless ones and a destination."""
    block = kernel.regions[0].blocks[0]
    old = list(block.arguments)
    operations = [op.operation for op in block.operations]
    returned = operations[-1]
    result = returned.operands[0]
    lowered: dict[ir.Value, ir.Value] = {
        argument: block.add_argument(signless(argument.type), kernel.location) for argument in old
    }
    destination = block.add_argument(signless(result.type), kernel.location)
    for op in operations[:-1]:
        with op.location, ir.InsertionPoint(returned):
            values = _lower_op(op, lowered, destination if op.results[0] == result else None, rules)
        lowered.update(zip(op.results, values, strict=True))
    returned.operands[0] = lowered[result]
    for op in reversed(operations[:-1]):
        op.erase()
    for _ in old:
        block.erase_argument(0)
    types = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(types, [destination.type]))


def _lower_op(
    op: ir.Operation,
    lowered: dict[ir.Value, ir.Value],
    destination: ir.Value | None,
    rules: Sequence[Interface[LinalgRule]],
) -> list[ir.Value]:
    view = view_of(op)
    if view is None:
        raise PassError(f"'{op.name}' op cannot be part of a kernel", op.location)
    if isinstance(view, ConstantOp):
        return [arith.constant(signless(op.results[0].type), _signless_constant(view))]
    inputs = [None if value is None else lowered[value] for value in view.operand_values()]
    kinds = [ir.RankedTensorType(signless(value.type)) for value in op.results]
    outs = [destination or tensor.EmptyOp(list(kind.shape), kind.element_type).result for kind in kinds]
    return lower(view, inputs, outs, rules)


def _signless_constant(op: ConstantOp) -> ir.Attribute:
    array = op.value
    if array.dtype.itemsize == 1:
        return dense(array.view(np.int8))
    dtype = np.dtype(f"i{array.dtype.itemsize}") if array.dtype.kind == "u" else array.dtype
    return dense(array.astype(dtype))


def _rewrite_caller(function: ir.Operation) -> None:
    """Gives calls of kernels their destinations, and tensors their signless types."""
    for op in list(walk(function)):
        if op.name == "func.call":
            _add_destination(op)
        elif op.name == "stepwell.constant":
            with op.location, ir.InsertionPoint(op):
                new = arith.constant(signless(op.results[0].type), _signless_constant(ConstantOp(op)))
            op.results[0].replace_all_uses_with(new)
            op.erase()
        elif op.name == "tensor.extract" and str(op.results[0].type) == "i1":
            _extract_bool(op)
    kind = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for block in _blocks(function):
        for value in (*block.arguments, *(result for op in block.operations for result in op.results)):
            if isinstance(value.type, ir.RankedTensorType):
                value.set_type(signless(value.type))
    for name, types in (("arg_attrs", kind.inputs), ("res_attrs", kind.results)):
        _remember_dtypes(function, name, types)
    types = ir.FunctionType.get([signless(item) for item in kind.inputs], [signless(item) for item in kind.results])
    function.attributes["function_type"] = ir.TypeAttr.get(types)


def _add_destination(call: ir.Operation) -> None:
    kinds = [ir.RankedTensorType(signless(result.type)) for result in call.results]
    with call.location, ir.InsertionPoint(call):
        outs = [_destination(result, kind) for result, kind in zip(call.results, kinds, strict=True)]
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"])
        new = func.CallOp(list(kinds), callee, [*call.operands, *outs])
    for name in call.attributes:
        if name.startswith("stepwell."):
            new.attributes[name] = call.attributes[name]
    for old, result in zip(call.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    call.erase()


def _destination(result: ir.Value, kind: ir.RankedTensorType) -> ir.Value:
    """Returns the tensor for a call's result: the part of a larger tensor that it is inserted into, or a new one."""
    insertion = insertion_of(result)
    if insertion is None:
        return tensor.EmptyOp(list(kind.shape), kind.element_type).result
    return tensor.ExtractSliceOp(
        kind, insertion.operands[1], list(insertion.operands)[2:], [], [], *box_of(insertion)
    ).result


def _extract_bool(op: ir.Operation) -> None:
    """Converts an extracted bool from its byte.

    %b = tensor.extract %t[] : tensor<i1> --> %b = arith.trunci (tensor.extract %t[] : tensor<i8>) : i8 to i1
    """
    (result,) = op.results
    with op.location, ir.InsertionPoint.after(op):
        # Created while the result is still an i1: both values then have the same type, and one can replace the other.
        bit = arith.TruncIOp(ir.IntegerType.get_signless(1), result).operation
    result.replace_all_uses_except(bit.results[0], bit)
    result.set_type(ir.IntegerType.get_signless(8))


def _blocks(function: ir.Operation) -> list[ir.Block]:
    return [block for op in [function, *walk(function)] for region in op.regions for block in region]


def _remember_dtypes(function: ir.Operation, name: str, types: list[ir.Type]) -> None:
    """Keeps changed element types in the attributes of arguments or results."""
    changed = {
        index: kind.element_type
        for index, kind in enumerate(types)
        if isinstance(kind, ir.RankedTensorType) and signless(kind) != kind
    }
    if not changed:
        return
    old = [ir.DictAttr(item) for item in ir.ArrayAttr(function.attributes[name])] if name in function.attributes else []
    attributes = [{item.name: item.attr for item in entry} for entry in old] or [{} for _ in types]
    for index, element in changed.items():
        attributes[index] |= discardable.DTYPE.entry(element)
    function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(entry) for entry in attributes])
