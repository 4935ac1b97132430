"""Sequential loops on tensors, for ops whose steps depend on the results of earlier steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, scf, tensor

from ...passes.ir.values import element_type_of
from ..builders.indices import Index, value_of

Elements = list[ir.Value]


def where(condition: ir.Value, value: ir.Value, body: Callable[[], ir.Value]) -> ir.Value:
    """Returns the result of `body` if the condition holds, else `value`."""
    op = scf.IfOp(condition, [value.type], has_else=True)
    with ir.InsertionPoint(op.thenRegion.blocks[0]):
        scf.YieldOp([body()])
    with ir.InsertionPoint(op.elseRegion.blocks[0]):
        scf.YieldOp([value])
    return op.results[0]


def when(condition: ir.Value, values: Elements, body: Callable[[], Elements]) -> Elements:
    """Returns the results of `body` if the condition holds, else `values`."""
    op = scf.IfOp(condition, [value.type for value in values], has_else=True)
    with ir.InsertionPoint(op.thenRegion.blocks[0]):
        scf.YieldOp(body())
    with ir.InsertionPoint(op.elseRegion.blocks[0]):
        scf.YieldOp(values)
    return list(op.results)


def repeat(
    start: Index, stop: Index, carried: Sequence[ir.Value], body: Callable[[ir.Value, Elements], Sequence[ir.Value]]
) -> Elements:
    """Emits `for i in range(start, stop): carried = body(i, carried)`."""
    op = scf.ForOp(value_of(start), value_of(stop), value_of(1), list(carried))
    with ir.InsertionPoint(op.body):
        scf.YieldOp(list(body(op.induction_variable, list(op.inner_iter_args))))
    return list(op.results)


def as_long_as(
    condition: Callable[[Elements], ir.Value], carried: Sequence[ir.Value], body: Callable[[Elements], Elements]
) -> Elements:
    """Emits `while condition(carried): carried = body(carried)`."""
    start = list(carried)
    kinds = [value.type for value in start]
    op = scf.WhileOp(kinds, start)
    places = [op.location] * len(kinds)
    before, after = (region.blocks.append(*kinds, arg_locs=places) for region in (op.before, op.after))
    with ir.InsertionPoint(before):
        scf.ConditionOp(condition(list(before.arguments)), list(before.arguments))
    with ir.InsertionPoint(after):
        scf.YieldOp(body(list(after.arguments)))
    return list(op.results)


def in_parallel(
    steps: Sequence[int], out: ir.Value, body: Callable[[Sequence[ir.Value], ir.Value], ir.Value]
) -> ir.Value:
    """Returns `out`, cut into blocks of `steps` elements that `body(offsets, block)` computes in any order.

    The blocks divide the dimensions of `out`.
    """
    kind = ir.RankedTensorType(out.type)
    if list(kind.shape) == list(steps):
        return body([value_of(0)] * kind.rank, out)
    op = scf.ForallOp([0] * kind.rank, list(kind.shape), list(steps), [out])
    with ir.InsertionPoint(op.body):
        offsets, target = list(op.induction_variables), op.inner_iter_args[0]
        made = body(offsets, part(target, offsets, steps))
        end = scf.InParallelOp()
        with ir.InsertionPoint(end.block):
            tensor.parallel_insert_slice(made, target, *_box(offsets, steps))
    return op.results[0]


def part(value: ir.Value, offsets: Sequence[Index], sizes: Sequence[int], rank: int | None = None) -> ir.Value:
    """Returns the elements of `value` in a box, without its first dimensions (of extent 1) if `rank` is less."""
    shape = list(sizes)[len(sizes) - rank if rank is not None else 0 :]
    kind = ir.RankedTensorType.get(shape, element_type_of(value))
    return tensor.ExtractSliceOp(kind, value, *_box(offsets, sizes)).result


def put(value: ir.Value, into: ir.Value, offsets: Sequence[Index], sizes: Sequence[int]) -> ir.Value:
    """Returns `into` with `value` in the box."""
    return tensor.InsertSliceOp(value, into, *_box(offsets, sizes)).result


def _box(offsets: Sequence[Index], sizes: Sequence[int]) -> tuple[list[ir.Value], list, list, list[int], list, list]:
    marker = ir.ShapedType.get_dynamic_stride_or_offset()
    dynamic = [offset for offset in offsets if not isinstance(offset, int)]
    static = [offset if isinstance(offset, int) else marker for offset in offsets]
    return dynamic, [], [], static, list(sizes), [1] * len(sizes)


def clamped(count: ir.Value, most: int) -> ir.Value:
    """Returns a number of elements, an i64 scalar tensor, as an index from 0 to `most`."""
    index = arith.index_cast(ir.IndexType.get(), tensor.extract(count, []))
    return arith.maxsi(arith.minsi(index, value_of(most)), value_of(0))


def from_front(index: ir.Value, extent: int) -> tuple[ir.Value, ir.Value]:
    """Converts an integer that may count from the end to an index clamped to `extent`, and whether it was inside."""
    index = arith.index_cast(ir.IndexType.get(), index)
    zero, last = value_of(0), value_of(max(extent - 1, 0))
    is_negative = arith.cmpi(arith.CmpIPredicate.slt, index, zero)
    wrapped = arith.select(is_negative, arith.addi(index, value_of(extent)), index)
    inside = arith.minsi(arith.maxsi(wrapped, zero), last)
    return inside, arith.cmpi(arith.CmpIPredicate.eq, inside, wrapped)
