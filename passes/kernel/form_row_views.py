"""`stepwell-form-row-views`: reads rows of tensors in place, and computes rows directly in their destination."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, tensor

from ...dialects import discardable
from ...dialects.stepwell.constant import ConstantOp
from ...dialects.stepwell.movement import ReshapeOp, RowOp, SliceOp, WithRowOp
from ..infra.base import Pass, register
from ..infra.state import CompileState
from ..ir.functions import main_function
from ..ir.kernel_classes import kernel_class
from ..ir.loop_indices import ARITHMETIC, index_values
from ..ir.rewriting import defining_op, has_one_use, walk
from ..ir.values import integer_of, shape_of
from .views import strides_of

_SCALAR_TENSORS = {"tensor.from_elements", ConstantOp.OPERATION_NAME, *ARITHMETIC}


@register
@dataclass(frozen=True)
class FormRowViewsPass(Pass):
    """Read rows of tensors in place, and let kernels write rows into the tensors that loops carry.

    A row that cannot be computed in place is copied there by a full `slice`. The old tensor is copied too if another op
    reads it.

    ```mlir
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %zeros) -> (tensor<9x4xf32>) {
      %n = arith.index_cast %i : index to i64
      %t = tensor.from_elements %n : tensor<i64>
      %0 = "stepwell.row"(%x, %t) : (tensor<9x4xf32>, tensor<i64>) -> tensor<4xf32>
      %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
      %2 = "stepwell.with_row"(%s, %1, %t) : (tensor<9x4xf32>, tensor<4xf32>, tensor<i64>) -> tensor<9x4xf32>
      scf.yield %2
    // -->
    %none = tensor.empty() : tensor<9x4xf32>
    %r = scf.for %i = %c0 to %c9 step %c1 iter_args(%s = %none) -> (tensor<9x4xf32>) {
      %0 = tensor.extract_slice %x[%i, 0] [1, 4] [1, 1] : tensor<9x4xf32> to tensor<4xf32>
      %1 = "stepwell.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
      %2 = tensor.insert_slice %1 into %s[%i, 0] [1, 4] [1, 1] : tensor<4xf32> into tensor<9x4xf32>
      scf.yield %2
    ```

    Preconditions: those of `stepwell-form-views`, which runs before.
    """

    name = "stepwell-form-row-views"

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites every block of @main."""
        main = main_function(op)
        indices = _Indices()
        for inner in list(walk(main)):
            if inner.name == RowOp.OPERATION_NAME:
                _view_row(RowOp(inner), indices)
            elif inner.name == WithRowOp.OPERATION_NAME:
                _place_row(WithRowOp(inner), indices)
        for inner in reversed(list(walk(main))):
            if inner.name in _SCALAR_TENSORS and not any(True for _ in inner.results[0].uses):
                inner.erase()


class _Indices:
    """Converts indices that are scalar tensors to scalars of the main program."""

    def __init__(self) -> None:
        self._known: dict[ir.Value, ir.Value] = {}
        self._bounded: dict[tuple[ir.Value, int], ir.Value] = {}

    def within(self, index: ir.Value, extent: int) -> ir.Value:
        """The index clamped to `extent` rows, computed next to its operands."""
        if (index, extent) not in self._bounded:
            self._bounded[index, extent] = _bounded(self._scalar(index), extent)
        return self._bounded[index, extent]

    def _scalar(self, index: ir.Value) -> ir.Value:
        if index not in self._known:
            self._known[index] = self._converted(index)
        return self._known[index]

    def _converted(self, index: ir.Value) -> ir.Value:
        i64 = ir.IntegerType.get_signless(64)
        name = "" if isinstance(index.owner, ir.Block) else index.owner.name
        if name == "tensor.from_elements" and index.owner.operands[0].type == i64:
            return index.owner.operands[0]
        constant = defining_op(index, ConstantOp)
        is_arithmetic = name in ARITHMETIC and ir.RankedTensorType(index.type).element_type == i64
        operands = [self._scalar(value) for value in index.owner.operands] if is_arithmetic else []
        with _after(index):
            if constant is not None:
                return arith.ConstantOp(i64, constant.value.item()).result
            if is_arithmetic:
                return ARITHMETIC[name].scalar(*operands).result
            item = tensor.ExtractOp(index, []).result
            return (
                item if item.type == i64 else arith.IndexCastOp(i64, arith.IndexCastOp(ir.IndexType.get(), item)).result
            )


def _bounded(scalar: ir.Value, extent: int) -> ir.Value:
    with _after(scalar):
        zero, last = (arith.ConstantOp(scalar.type, bound).result for bound in (0, extent - 1))
        inside = arith.MinSIOp(arith.MaxSIOp(scalar, zero).result, last).result
        return arith.IndexCastOp(ir.IndexType.get(), inside).result


def _after(value: ir.Value) -> ir.InsertionPoint:
    owner = value.owner
    return ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)


def _view_row(op: RowOp, indices: _Indices) -> None:
    """row(x, i) --> extract_slice x[i, 0, ...]"""
    whole, shape = op.input, shape_of(op.input)
    with op.operation.location, ir.InsertionPoint(op.operation):
        if strides_of(whole) is not None:
            whole = _copied(whole)
    at = indices.within(op.index, shape[0])
    with op.operation.location, ir.InsertionPoint(op.operation):
        part = tensor.ExtractSliceOp(op.result.type, whole, [at], [], [], *_bounds(shape)).result
    discardable.ROWS.copy(op, part.owner)
    op.result.replace_all_uses_with(part)
    op.operation.erase()


def _place_row(op: WithRowOp, indices: _Indices) -> None:
    """with_row(x, r, i) --> insert_slice r into x[i, 0, ...]"""
    whole, row, shape = op.input, op.row, shape_of(op.input)
    if _is_overwritten(whole):
        _start_uninitialised(whole)
    row = _before_reshape(row)
    at = indices.within(op.index, shape[0])
    with op.operation.location, ir.InsertionPoint(op.operation):
        if not _is_exclusive(whole):
            whole = _copied(whole)
        if not _may_be_computed_in_place(row, [whole, at], op):
            row = _copied(row)
    # Right after the kernel, because later ops may compute other rows of the tensor.
    with op.operation.location, ir.InsertionPoint.after(row.owner):
        made = tensor.InsertSliceOp(row, whole, [at], [], [], *_bounds(shape)).result
    op.result.replace_all_uses_with(made)
    reshape = defining_op(op.row, ReshapeOp)
    op.operation.erase()
    if reshape is not None and not any(True for _ in reshape.result.uses):
        reshape.operation.erase()


def _before_reshape(row: ir.Value) -> ir.Value:
    """The input of a reshape that only drops a leading unit dimension, if nothing else reads the row; else the row."""
    reshape = defining_op(row, ReshapeOp)
    if reshape is None or not has_one_use(row) or shape_of(reshape.input) != (1, *shape_of(row)):
        return row
    return reshape.input


def _bounds(shape: Sequence[int]) -> tuple[list[int], list[int], list[int]]:
    """Offsets (the first is an operand), sizes and steps of a row."""
    offsets = [ir.ShapedType.get_dynamic_size(), *[0] * (len(shape) - 1)]
    return offsets, [1, *shape[1:]], [1] * len(shape)


def _is_exclusive(whole: ir.Value) -> bool:
    """Returns whether a tensor is carried by a loop or the result of a row insertion, and has no other reader."""
    owner = whole.owner
    if not has_one_use(whole):
        return False
    if isinstance(owner, ir.Block):
        return owner.owner.name in ("scf.for", "scf.while")
    return owner.name == "tensor.insert_slice"


def _may_be_computed_in_place(row: ir.Value, needed: list[ir.Value], op: WithRowOp) -> bool:
    """Returns whether a kernel of the same block computes the row after the index is known, and only `op` reads it."""
    owner, block = row.owner, op.operation.block
    if isinstance(owner, ir.Block) or kernel_class(owner) is None or not has_one_use(row):
        return False
    makers = [value.owner.operation for value in needed if not isinstance(value.owner, ir.Block)]
    inside = [maker for maker in makers if maker.block == block]
    return owner.operation.block == block and all(maker.is_before_in_block(owner.operation) for maker in inside)


def _is_overwritten(whole: ir.Value) -> bool:
    """Returns whether a loop with constant bounds overwrites every row of a tensor that it carries."""
    if not isinstance(whole.owner, ir.Block) or whole.owner.owner.name != "scf.for":
        return False
    lower, upper, step = (integer_of(bound) for bound in list(whole.owner.owner.operands)[:3])
    if lower is None or upper is None or step is None or len(range(lower, upper, step)) > shape_of(whole)[0]:
        return False
    number, rounds = whole.owner.arguments[0], np.arange(lower, upper, step)
    written: set[int] = set()
    value, use = whole, next(iter(whole.uses))
    while has_one_use(value) and use.owner.operation.name == WithRowOp.OPERATION_NAME:
        at = index_values(WithRowOp(use.owner).index, number, rounds)
        if at is None:
            return False
        written.update(np.clip(at, 0, shape_of(whole)[0] - 1).tolist())
        value = use.owner.results[0]
        use = next(iter(value.uses), use)
    # The next iteration writes other rows of the same tensor only if it is carried in the same place.
    place = ir.BlockArgument(whole).arg_number - 1
    is_carried = use.owner.operation.name == "scf.yield" and use.operand_number == place
    return is_carried and has_one_use(value) and len(written) == shape_of(whole)[0]


def _start_uninitialised(whole: ir.Value) -> None:
    """Makes a loop start with an uninitialised tensor for one that it carries."""
    argument, kind = ir.BlockArgument(whole), ir.RankedTensorType(whole.type)
    loop = argument.owner.owner.operation
    with loop.location, ir.InsertionPoint(loop):
        loop.operands[3 + argument.arg_number - 1] = tensor.EmptyOp(list(kind.shape), kind.element_type).result


def _copied(value: ir.Value) -> ir.Value:
    shape = tuple(shape_of(value))
    return SliceOp(value, starts=(0,) * len(shape), stops=shape, steps=(1,) * len(shape)).result
