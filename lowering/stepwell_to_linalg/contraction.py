"""Kernels around one contraction, lowered whole: a linalg.generic per column group, and one for its epilogue.

    func.func @k(%x: tensor<8x4xf32>, %w: tensor<256xf32>, %b: tensor<64xf32>) -> tensor<8x64xf32> {
      %0 = "stepwell.packed_matmul"(%x, %w) {columns = 64, panel = 32}
      %1 = "stepwell.add"(%0, %b)
      return %1
    }
    // -->
    func.func @k(%x, %w, %b, %out: tensor<8x64xf32>) -> tensor<8x64xf32> {
      %panels = tensor.expand_shape %w : tensor<256xf32> into tensor<2x4x32xf32>
      %sum = linalg.generic {(m, p, l, k): %x[m, k] * %panels[p, k, l]} outs(%zero: tensor<8x2x32xf32>)
      %result = linalg.generic {(m, p, l): %sum[m, p, l] + %b[p, l]} outs(view of %out)
      ...

The first linalg op of a group carries `stepwell.contraction`, the last `stepwell.root`: schedules find them by these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, linalg, tensor

from ...dialects.core import Op
from ...dialects.stepwell import STEPWELL
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.packed import (
    ColumnGroup,
    PackedConvOp,
    PackedDepthwiseConvOp,
    PackedGroupedConvOp,
    PackedMatmulOp,
)
from ...dialects.types import dense
from ...passes.base import PassError
from . import convolution, products
from .elementwise import scalar_body
from .generics import constant, generic, zero_of
from .products import Product
from .spaces import Shape, shape_of
from .strides import breaks_of

_PRODUCTS: dict[type[Op], Callable[..., Product]] = {
    MatmulOp: products.matmul,
    PackedMatmulOp: products.packed_matmul,
    PackedConvOp: convolution.packed_conv,
    PackedDepthwiseConvOp: convolution.depthwise_conv,
    PackedGroupedConvOp: convolution.grouped_conv,
}


def lower_kernel(kernel: func.FuncOp) -> None:
    """Turns a kernel of stepwell ops into linalg ops that write into a destination argument.

    The kernel is one contraction or convolution, and elementwise ops of the same result shape that follow it.

    Raises:
        PassError: the kernel has another form.
    """
    block = kernel.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1]
    views = [_view(op) for op in block.operations if op.operation != returned.operation]
    anchors = [view for view in views if type(view) in _PRODUCTS]
    if len(anchors) != 1:
        raise PassError(f"a contraction kernel must have one contraction, but has {len(anchors)}", kernel.location)
    element = ir.RankedTensorType(anchors[0].operation.results[0].type).element_type
    if isinstance(element, ir.IntegerType) and not element.is_signless:
        message = f"'{anchors[0].OPERATION_NAME}' op of unsigned integers ({element}) is not supported"
        raise PassError(message, anchors[0].operation.location)
    epilogue = [view for view in views if view is not anchors[0] and not isinstance(view, ConstantOp)]
    result = returned.operands[0]
    for view in views:
        if isinstance(view, ConstantOp):
            _keep_as_tensor(view, epilogue)
    destination = block.add_argument(result.type, kernel.location)
    with ir.InsertionPoint(returned), anchors[0].operation.location:
        updated = _lower(anchors[0], epilogue, result, destination)
    returned.operation.operands[0] = updated
    for view in reversed(views):
        view.operation.erase()
    arguments = [argument.type for argument in block.arguments]
    kernel.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(arguments, [updated.type]))


def _keep_as_tensor(constant_op: ConstantOp, epilogue: Sequence[Op]) -> None:
    """Makes a constant of the product, or one of many elements, a tensor in memory; other splats become scalars."""
    op = constant_op.operation
    owners = {use.owner.operation for use in op.results[0].uses}
    if _splat(op.results[0]) is not None and owners <= {view.operation for view in epilogue}:
        return
    with op.location, ir.InsertionPoint(op):
        kept = arith.constant(op.results[0].type, dense(constant_op.value))
    op.results[0].replace_all_uses_with(kept)


def _view(op: ir.OpView) -> Op:
    view = STEPWELL.view(op)
    if view is None:
        raise PassError(f"'{op.operation.name}' op cannot be part of a contraction kernel", op.operation.location)
    return view


def _lower(anchor: Op, epilogue: Sequence[Op], result: ir.Value, destination: ir.Value) -> ir.Value:
    made = {anchor.operation.results[0]} | {op.operation.results[0] for op in epilogue}
    extra = list(dict.fromkeys(value for op in epilogue for value in op.operation.operands if value not in made))
    for op in epilogue:
        if shape_of(op.operation.results[0]) != shape_of(result):
            message = f"'{op.OPERATION_NAME}' op changes the shape of the contraction before it"
            raise PassError(message, op.operation.location)
    apart = [
        shape for value in (anchor.operation.operands[0], destination, *extra) for shape in _kept_apart(value, result)
    ]
    product = _PRODUCTS[type(anchor)](anchor, [*map(shape_of, extra), *apart])
    chain = _Epilogue(anchor, epilogue, extra, result)
    for number, group in enumerate(product.groups):
        destination = _lower_group(product, chain, group, number, destination)
    return destination


def _kept_apart(value: ir.Value, result: ir.Value) -> list[Shape]:
    """Shapes, broadcast to that of `result`, that differ where dimensions of `value` cannot be merged."""
    shape = shape_of(result)
    shift = len(shape) - len(shape_of(value))
    ends = [axis + shift + 1 for axis in breaks_of(value)]
    return [(*(1,) * end, *shape[end:]) for end in ends]


@dataclass(frozen=True)
class _Epilogue:
    anchor: Op
    ops: Sequence[Op]
    extra: Sequence[ir.Value]
    result: ir.Value


def _lower_group(
    product: Product, chain: _Epilogue, group: ColumnGroup, number: int, destination: ir.Value
) -> ir.Value:
    space = product.space
    target, _ = space.view(destination, group)
    element = ir.RankedTensorType(chain.anchor.operation.results[0].type).element_type
    identity = ir.AffineMap.get_identity(space.rank)
    tag = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), number)
    initial = tensor.EmptyOp(space.sizes(group), element).result if chain.ops else target
    zero = constant(zero_of(element))
    filled = linalg.fill(zero, outs=[initial])
    contraction = product.emit(group, filled)
    contraction.attributes["stepwell.contraction"] = tag
    value = contraction.results[0]
    if not chain.ops:
        contraction.attributes["stepwell.root"] = tag
        return space.write(value, destination, group)
    tensors = [other for other in chain.extra if _splat(other) is None]
    views = [space.view(other, group) for other in tensors]
    maps = [_projection(space.rank, dims) for _, dims in views]

    def body(*scalars: ir.Value) -> ir.Value:
        known = {chain.anchor.operation.results[0]: scalars[0], **dict(zip(tensors, scalars[1:-1], strict=True))}
        for other in chain.extra:
            if (splat := _splat(other)) is not None:
                known[other] = constant(splat)
        for op in chain.ops:
            with op.operation.location:
                operands = [known[operand] for operand in op.operation.operands]
                known[op.operation.results[0]] = scalar_body(op)(*operands)
        return known[chain.result]

    root = generic([value, *(view for view, _ in views)], target, [identity, *maps, identity], space.rank, body)
    root.attributes["stepwell.root"] = tag
    return space.write(root.results[0], destination, group)


def _projection(rank: int, dims: Sequence[int]) -> ir.AffineMap:
    return ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(dim) for dim in dims])


def _splat(value: ir.Value) -> ir.Attribute | None:
    """The one element of an inline constant, or None for any other value."""
    if isinstance(value.owner, ir.Block) or value.owner.name != ConstantOp.OPERATION_NAME:
        return None
    attribute = ir.DenseElementsAttr(value.owner.attributes["value"])
    return attribute.get_splat_value() if attribute.is_splat else None
