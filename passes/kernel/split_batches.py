"""The pass `stepwell-split-batches`: runs the first ops of `@main` image by image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, tensor

from ...dialects import discardable
from ...dialects.registry import view_of
from ...dialects.stepwell.movement import PadOp, ReshapeOp, RowOp, WithRowOp
from ...machines.caches import cached_bytes
from ...machines.machine import Machine
from ...machines.paces import paces_of
from ..infra.base import Pass, register
from ..infra.machine_option import machine_of
from ..infra.state import CompileState
from ..ir.functions import body_of, main_function
from ..ir.kernel_classes import kernel_class
from ..ir.memory_layout import byte_size
from ..ir.values import shape_if_tensor
from .image_wise import Attributes, for_one_image

# Minimum fraction of the cache that an image must fill: kernels on smaller images are too short for several threads.
_LEAST_FILLED = 0.25
# Minimum estimated saving in nanoseconds for which a loop is written.
_LEAST_NS = 50_000.0

_HEAVY = ("contraction", "convolution", "depthwise", "pooling", "reduction", "winograd")


@register
@dataclass(frozen=True)
class SplitBatchesPass(Pass):
    """Run the first ops of `@main` image by image, if the activations of the whole batch leave the cache.

    The ops before one position in `@main` move into a loop over the images of the batch. Each op must compute an image
    of its result from the same image of its operands. Only one tensor may be read after the position. The position with
    the largest saving is chosen: activations stay in the cache, but every image reads the weights again.

    ```mlir
    %1 = "stepwell.packed_conv"(%x, %w) {...} : (tensor<4x226x226x3xf32>, ...) -> tensor<4x224x224x32xf32>
    %2 = "stepwell.max_pool"(%1) {...} : (tensor<4x224x224x32xf32>) -> tensor<4x112x112x32xf32>
    // -->
    %2 = scf.for %i = %c0 to %c4 step %c1 iter_args(%s = %empty) -> (tensor<4x112x112x32xf32>) {
      %image = "stepwell.row"(%x, %i) : (tensor<4x226x226x3xf32>, ...) -> tensor<226x226x3xf32>
      %in = "stepwell.reshape"(%image) {shape = array<i64: 1, 226, 226, 3>} : ...
      %a = "stepwell.packed_conv"(%in, %w) {...} : (tensor<1x226x226x3xf32>, ...) -> tensor<1x224x224x32xf32>
      %b = "stepwell.max_pool"(%a) {...} : (tensor<1x224x224x32xf32>) -> tensor<1x112x112x32xf32>
      %out = "stepwell.reshape"(%b) {shape = array<i64: 112, 112, 32>} : ...
      %r = "stepwell.with_row"(%s, %out, %i) : ...
      scf.yield %r
    }
    ```

    Attributes:
        machine: description of another machine than the target's.

    Preconditions: phase `graph`, static shapes. Programs with symbolic sizes stay unchanged.
    """

    name = "stepwell-split-batches"
    machine: str = ""

    def run(self, op: ir.Operation, state: CompileState) -> None:
        """Rewrites @main."""
        main = main_function(op)
        batch = 0 if discardable.TABLE.is_on(op) else _batch(body_of(main))
        if batch < 2:
            return
        region = _image_wise_ops(body_of(main), batch)
        end = _best_end(region, batch, machine_of(self.machine, state))
        if end is not None:
            _Splitter(region[: end + 1], batch).run()


@dataclass(frozen=True)
class _Member:
    """An image-wise op, and its attributes that change when it computes one image."""

    op: ir.Operation
    changed: Attributes


def _batch(body: ir.Block) -> int:
    """The number of images that `@main` takes: the first extent of its first input of rank 3 or more; 0 without one."""
    return next((shape_if_tensor(value)[0] for value in body.arguments if len(shape_if_tensor(value)) > 2), 0)


def _image_wise_ops(body: ir.Block, batch: int) -> list[_Member]:
    """The ops of `@main` that depend on inputs with images, in order, up to the first one that is not image-wise."""
    images = {
        value for value in body.arguments if len(shape_if_tensor(value)) > 2 and shape_if_tensor(value)[0] == batch
    }
    region: list[_Member] = []
    for item in list(body.operations)[:-1]:
        op = item.operation
        if len(op.regions):
            break
        if not any(value in images for value in op.operands):
            continue
        changed = for_one_image(op, images, batch)
        if changed is None:
            break
        region.append(_Member(op, changed))
        images.add(op.results[0])
    return region


def _best_end(region: Sequence[_Member], batch: int, machine: Machine) -> int | None:
    """The position of the last op of a region to run image by image; None if that saves too little."""
    order: dict[ir.Value, int] = {member.op.results[0]: index for index, member in enumerate(region)}
    last_use = [_last_use(member.op.results[0], order) for member in region]
    best, most, saved, written = None, _LEAST_NS, 0.0, 0.0
    open_until: list[int] = []
    for index, member in enumerate(region):
        if kernel_class(member.op) in _HEAVY:  # other ops are mostly fused into the kernels of these
            times = _times(member.op, batch, machine)
            saved += written + (times.read if member.op.operands[0] in order else 0.0) - times.lost
            written = times.written
        open_until = [last for last in (*open_until, last_use[index]) if last > index]
        if len(open_until) != 1 or last_use[index] <= index:
            continue
        copied = _copied_bytes(member.op)
        # The copied elements would otherwise be computed in place.
        gain = 0.0 if copied is None else saved - copied / paces_of(machine).copied_bytes
        if gain > most:
            best, most = index, gain
    return best


def _last_use(value: ir.Value, order: dict[ir.Value, int]) -> int:
    """The position of the last op of a region that reads a value; the region's length if an op after it does."""
    readers = [_order_of(use.owner.operation, order) for use in value.uses]
    return max(readers, default=-1)


def _order_of(op: ir.Operation, order: dict[ir.Value, int]) -> int:
    return order.get(op.results[0], len(order)) if len(op.results) else len(order)


@dataclass(frozen=True)
class _Times:
    """The change in time when an op runs image by image, in nanoseconds.

    Attributes:
        read: time saved if its input is computed in the same loop.
        written: time saved if its result is read in the same loop.
        lost: time lost by reading the weights for every image.
    """

    read: float
    written: float
    lost: float


def _times(op: ir.Operation, batch: int, machine: Machine) -> _Times:
    paces, cache_bytes = paces_of(machine), cached_bytes(machine)
    read, written = byte_size(op.operands[0].type), byte_size(op.results[0].type)
    beyond = [math.log2(max(1.0, size / cache_bytes)) for size in (read + written, (read + written) / batch)]
    is_large = (read + written) / batch >= _LEAST_FILLED * cache_bytes
    saved = paces.spilled_ns * (beyond[0] - beyond[1]) if is_large else 0.0
    weights = sum(byte_size(value.type) for value in list(op.operands)[1:])
    return _Times(read * saved, written * saved, (batch - 1) * (weights * paces.reread_ns + machine.call_ns))


def _copied_bytes(last: ir.Operation) -> int | None:
    """The bytes copied if the loop ends with the op `last`; None if that would split a kernel."""
    value = last.results[0]
    readers = [_in_block(use.owner.operation, last.block) for use in value.uses]
    first = readers[0]
    for reader in readers[1:]:
        if reader.is_before_in_block(first):
            first = reader
    if first.name == PadOp.OPERATION_NAME:
        return byte_size(value.type)
    is_heavy = kernel_class(first) in _HEAVY or first.name == "func.return"
    return 0 if is_heavy and not any(op.name == PadOp.OPERATION_NAME for op in readers) else None


def _in_block(op: ir.Operation, block: ir.Block) -> ir.Operation:
    """The op of a block that is an op or contains it."""
    while op.block != block and op.parent is not None:
        op = op.parent.operation
    return op


class _Splitter:
    """Moves ops into a loop over the images of a batch."""

    def __init__(self, region: Sequence[_Member], batch: int) -> None:
        self._region, self._batch = region, batch
        self._image: dict[ir.Value, ir.Value] = {}

    def run(self) -> None:
        """Writes the loop after the last op, and erases the ops."""
        last = self._region[-1].op
        result = last.results[0]
        kind = ir.RankedTensorType(result.type)
        with last.location, ir.InsertionPoint.after(last):
            zero, batch, one = (arith.ConstantOp(ir.IndexType.get(), number).result for number in (0, self._batch, 1))
            empty = tensor.EmptyOp(list(kind.shape), kind.element_type).result
            loop = scf.ForOp(zero, batch, one, [empty])
        with last.location, ir.InsertionPoint(loop.body):
            i64 = ir.IntegerType.get_signless(64)
            number = arith.IndexCastOp(i64, loop.induction_variable).result
            index = tensor.FromElementsOp(ir.RankedTensorType.get([], i64), [number]).result
            for member in self._region:
                self._add(member, index)
            row = ReshapeOp(self._image[result], shape=shape_if_tensor(result)[1:]).result
            whole = WithRowOp(loop.inner_iter_args[0], row, index).result
            scf.YieldOp([whole])
        result.replace_all_uses_with(loop.results[0])
        for member in reversed(self._region):
            member.op.erase()

    def _add(self, member: _Member, index: ir.Value) -> None:
        """Adds an op that computes one image."""
        op, view = member.op, view_of(member.op)
        assert view is not None
        attributes = {name: op.attributes[name] for name in op.attributes}
        for field in view.attribute_fields():
            if field.name in member.changed:
                attributes[field.name] = field.write(member.changed[field.name])
        kind = ir.RankedTensorType(op.results[0].type)
        one = ir.RankedTensorType.get([1, *kind.shape[1:]], kind.element_type, kind.encoding)
        with op.location:
            operands = [self._of(value, index) for value in op.operands]
            made = ir.Operation.create(op.name, results=[one], operands=operands, attributes=attributes)
        self._image[op.results[0]] = made.results[0]

    def _of(self, value: ir.Value, index: ir.Value) -> ir.Value:
        """One image of an operand; the operand itself if all images share it."""
        if value not in self._image:
            is_input = isinstance(value.owner, ir.Block) and shape_if_tensor(value)[:1] == (self._batch,)
            if not is_input or len(shape_if_tensor(value)) < 3:
                return value
            row = RowOp(value, index).result
            self._image[value] = ReshapeOp(row, shape=(1, *shape_if_tensor(value)[1:])).result
        return self._image[value]
