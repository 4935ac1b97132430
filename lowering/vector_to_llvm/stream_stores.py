"""`stepwell-stream-stores`: writes results that are far larger than the caches past them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, memref, scf

from ...dialects.types import numpy_dtype
from ...machines.caches import stream_bytes
from ...passes.infra.base import Pass, register
from ...passes.infra.state import CompileState
from ...passes.ir.functions import body_of, class_of, kernels_in
from ...passes.ir.rewriting import walk
from ..streams import has_bytes
from ..target import Target
from .segments import region_of

_LINE = 64
"""Size of a cache line in bytes, the same on all x86-64 processors."""
_CLASSES = frozenset({"elementwise", "reduction", "movement"})
_STORES = frozenset({"vector.store", "vector.maskedstore", "memref.store"})
_SUMS = frozenset({"arith.addi", "arith.subi", "arith.minui", "arith.maxui"})


@register
@dataclass(frozen=True)
class StreamStoresPass(Pass):
    """Store whole cache lines of large write-only results without reading the lines into the cache.

    An ordinary store fetches its line first, which is a third of the memory traffic of an addition of large
    tensors. The loop is duplicated, as stores past the cache must be aligned, and the alignment is known only at
    run time:

        scf.for %i = ... { vector.store %v, %y[%i] : memref<4194304xf32>, vector<64xf32> }
        -->
        scf.if %is_aligned {
          scf.for %i = ... { vector.store %v, %y[%i] {nontemporal = true, alignment = 64 : i64} ... }
          llvm.call_intrinsic "llvm.x86.sse.sfence"()
        } else {
          scf.for %i = ... { vector.store %v, %y[%i] ... }
        }

    The fence is for other threads: such stores are not ordered otherwise. Only elementwise kernels, reductions and
    movement are rewritten, and only on x86-64.

    Preconditions: bufferised, vectors of one dimension.

    Attributes:
        target: machine that the kernels are for, in the form that `Target.parse` accepts.
        min_bytes: minimum size in bytes of results that are written past the caches; 0 for a size that exceeds all
            caches.
    """

    name = "stepwell-stream-stores"
    target: str = "cpu"
    min_bytes: int = 0

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Visits the kernels of a module."""
        target = Target.parse(self.target)
        if target.architecture != "x86_64":
            return
        least = self.min_bytes or stream_bytes(target.machine)
        for kernel in kernels_in(op):
            if class_of(kernel) in _CLASSES:
                self._rewrite(kernel, least)

    def _rewrite(self, kernel: ir.Operation, least: int) -> None:
        streams = self._streams(kernel, least)
        for loop in [op.operation for op in body_of(kernel).operations if op.operation.name == "scf.for"]:
            stores = [op for op in walk(loop) if op.name == "vector.store"]
            stores = [op for op in stores if _root(op.operands[1]) in streams and _writes_lines(op)]
            if stores:
                _write_past_caches(loop, stores)

    def _streams(self, kernel: ir.Operation, least: int) -> list[ir.Value]:
        """Returns the arguments that are large, written, and not read."""
        read = [_root(value) for op in walk(kernel) if _reads(op) for value in op.operands if _is_memory(value)]
        large = [item for item in body_of(kernel).arguments if _is_memory(item) and has_bytes(item.type, least)]
        return [argument for argument in large if argument not in read]


def _reads(op: ir.Operation) -> bool:
    """Returns whether an op uses memory other than by writing it or viewing it in another shape."""
    return op.name not in _STORES and not any(map(_is_memory, op.results))


def _is_memory(value: ir.Value) -> bool:
    return isinstance(value.type, ir.MemRefType)


def _root(value: ir.Value) -> ir.Value:
    return region_of(value).root


def _writes_lines(op: ir.Operation) -> bool:
    """Returns whether a vector.store writes whole lines, if the memory that it writes to is aligned to a line."""
    value, target, *indices = op.operands
    kind = ir.VectorType(value.type)
    size = numpy_dtype(kind.element_type).itemsize
    return math.prod(kind.shape) * size % _LINE == 0 and size * _step(target, indices) % _LINE == 0


def _step(target: ir.Value, indices: list[ir.Value]) -> int:
    """Returns a number of elements that divides an element's distance from the start of the memory of a view."""
    strides, _ = ir.MemRefType(target.type).get_strides_and_offset()
    found = _LINE
    for index, stride in zip(indices, strides, strict=True):
        found = math.gcd(found, _factor(index) * _known(stride))
    while not isinstance(target.owner, ir.Block):
        view = target.owner
        target = view.operands[0]
        if view.name == "memref.subview":
            strides, _ = ir.MemRefType(target.type).get_strides_and_offset()
            dynamic = iter(list(view.operands)[1:])
            for offset, stride in zip(ir.DenseI64ArrayAttr(view.attributes["static_offsets"]), strides, strict=True):
                known = _factor(next(dynamic)) if ir.ShapedType.is_dynamic_size(offset) else offset
                found = math.gcd(found, known * _known(stride))
        elif view.name not in ("memref.collapse_shape", "memref.expand_shape", "memref.cast"):
            return 1
    _, offset = ir.MemRefType(target.type).get_strides_and_offset()
    return math.gcd(found, _known(offset))


def _known(number: int) -> int:
    """Returns a stride or offset; 1, which divides everything, if it is known at run time only."""
    return 1 if number == ir.ShapedType.get_dynamic_stride_or_offset() else number


def _factor(index: ir.Value) -> int:
    """Returns a number that divides an index."""
    if isinstance(index.owner, ir.Block):
        loop = index.owner.owner
        if loop.operation.name != "scf.for" or index != index.owner.arguments[0]:
            return 1
        lower, _, step = list(loop.operation.operands)[:3]
        return math.gcd(_factor(lower), _factor(step))
    op = index.owner.operation
    if op.name == "arith.constant":
        return ir.IntegerAttr(op.attributes["value"]).value
    if op.name in _SUMS:
        return math.gcd(*map(_factor, op.operands))
    if op.name == "arith.muli":
        return math.prod(map(_factor, op.operands))
    if op.name == "affine.apply":
        (result,) = ir.AffineMapAttr(op.attributes["map"]).value.results
        dims = ir.AffineMapAttr(op.attributes["map"]).value.n_dims
        return _factor_of(result, [_factor(operand) for operand in op.operands], dims)
    return 1


def _factor_of(expr: ir.AffineExpr, operands: list[int], dims: int) -> int:
    if isinstance(expr, ir.AffineDimExpr):
        return operands[expr.position]
    if isinstance(expr, ir.AffineSymbolExpr):
        return operands[dims + expr.position]
    if isinstance(expr, ir.AffineConstantExpr):
        return expr.value
    if isinstance(expr, ir.AffineAddExpr):
        return math.gcd(_factor_of(expr.lhs, operands, dims), _factor_of(expr.rhs, operands, dims))
    if isinstance(expr, ir.AffineMulExpr):
        return _factor_of(expr.lhs, operands, dims) * _factor_of(expr.rhs, operands, dims)
    return 1


def _write_past_caches(loop: ir.Operation, stores: list[ir.Operation]) -> None:
    """Makes the two loops; `stores` are in the first."""
    roots: list[ir.Value] = []
    roots += [root for root in (_root(store.operands[1]) for store in stores) if root not in roots]
    with loop.location, ir.InsertionPoint(loop):
        index = ir.IndexType.get()
        addresses = [memref.ExtractAlignedPointerAsIndexOp(root).result for root in roots]
        joined = addresses[0]
        for address in addresses[1:]:
            joined = arith.OrIOp(joined, address).result
        rest = arith.RemUIOp(joined, arith.ConstantOp(index, _LINE).result).result
        is_aligned = arith.CmpIOp(arith.CmpIPredicate.eq, rest, arith.ConstantOp(index, 0).result).result
        branch = scf.IfOp(is_aligned, has_else=True)
        then, other = (region.blocks[0] for region in branch.operation.regions)
        with ir.InsertionPoint(other):
            loop.clone()
            scf.YieldOp([])
        with ir.InsertionPoint(then):
            fence = llvm.call_intrinsic(None, "llvm.x86.sse.sfence", [], [], [])
            scf.YieldOp([])
        loop.move_before(fence.operation)
    for store in stores:
        store.attributes["nontemporal"] = ir.BoolAttr.get(True)
        store.attributes["alignment"] = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), _LINE)
