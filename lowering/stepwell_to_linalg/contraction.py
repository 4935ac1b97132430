"""Lowering of kernels around one contraction: a linalg.generic per column group, and one for its epilogue.

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

The first linalg op of a group has the attribute `stepwell.contraction`, the last one `stepwell.root`, by which
schedules find them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func, linalg, tensor

from ...dialects import discardable
from ...dialects.core import Op
from ...dialects.stepwell.blocks import PackedBlockMatmulOp
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.packed import PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp, PackedMatmulOp
from ...dialects.stepwell.panels import ColumnGroup
from ...passes.ir.values import Shape, shape_of
from ..builders.generics import constant, generic, zero_of
from ..builders.scalars import compute_type, narrow
from ..builders.strides import breaks_of
from .epilogues import Epilogue, lower_around
from .products import PRODUCT, Product
from .rules import LINALG_KERNEL, Lowering


@LINALG_KERNEL.attach(
    MatmulOp, PackedMatmulOp, PackedBlockMatmulOp, PackedConvOp, PackedDepthwiseConvOp, PackedGroupedConvOp
)
def lower_kernel(kernel: func.FuncOp, _lowering: Lowering) -> None:
    """Converts a kernel of stepwell ops to linalg ops that write into a destination argument.

    The kernel is one contraction or convolution, and elementwise ops of the same result shape that follow it.

    Raises:
        PassError: the kernel has another form.
    """
    lower_around(kernel, lambda kind: PRODUCT.of(kind) is not None, _lower)


def _lower(anchor: Op, epilogue: Epilogue, destination: ir.Value) -> ir.Value:
    read = (anchor.operation.operands[0], destination, *epilogue.operands)
    apart = [shape for value in read for shape in _kept_apart(value, epilogue.result)]
    describe = PRODUCT.of(type(anchor))
    assert describe is not None
    product = describe(anchor, [*map(shape_of, epilogue.operands), *apart])
    for number, group in enumerate(product.groups):
        destination = _lower_group(product, epilogue, group, number, destination)
    return destination


def _kept_apart(value: ir.Value, result: ir.Value) -> list[Shape]:
    """Returns shapes, broadcast to that of `result`, that differ where dimensions of `value` cannot be merged."""
    shape = shape_of(result)
    shift = len(shape) - len(shape_of(value))
    ends = [axis + shift + 1 for axis in breaks_of(value)]
    return [(*(1,) * end, *shape[end:]) for end in ends]


def _lower_group(
    product: Product, epilogue: Epilogue, group: ColumnGroup, number: int, destination: ir.Value
) -> ir.Value:
    space = product.space
    target, _ = space.view(destination, group)
    kept = ir.RankedTensorType(epilogue.anchor.operation.results[0].type).element_type
    # Sums of short floats are rounded once they are complete.
    element = compute_type(kept)
    identity = ir.AffineMap.get_identity(space.rank)
    is_finished = not epilogue.ops and element == kept
    initial = target if is_finished else tensor.EmptyOp(space.sizes(group), element).result
    zero = constant(zero_of(element))
    filled = linalg.fill(zero, outs=[initial])
    contraction = product.emit(group, filled)
    discardable.CONTRACTION.write(contraction, number)
    value = contraction.results[0]
    if is_finished:
        discardable.ROOT.write(contraction, number)
        return space.write(value, destination, group)
    views = [space.view(other, group) for other in epilogue.tensors]
    maps = [_projection(space.rank, dims) for _, dims in views]

    def body(*scalars: ir.Value) -> ir.Value:
        return epilogue.body([narrow(scalars[0], kept), *scalars[1:-1]])

    root = generic([value, *(view for view, _ in views)], target, [identity, *maps, identity], space.rank, body)
    discardable.ROOT.write(root, number)
    return space.write(root.results[0], destination, group)


def _projection(rank: int, dims: Sequence[int]) -> ir.AffineMap:
    return ir.AffineMap.get(rank, 0, [ir.AffineExpr.get_dim(dim) for dim in dims])
