"""Operands of a contraction: their memory, if they are in memory, and their zero padding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from .....lowering.builders.strides import reassociation
from ...emission.launch import Memory
from ...emission.views import memory_of
from .access import Dim, IndexGuard, OperandAccess
from .matching import Contraction, maps_of, weights_of


@dataclass(frozen=True)
class ContractionOperand:
    """An operand that is in memory or a view of memory, possibly padded with zeros.

    Attributes:
        memory: layout of the unpadded operand.
        access: access function of the operand.
    """

    memory: Memory
    access: OperandAccess


def operand_of(
    contraction: Contraction, side: int, known: Mapping[ir.Value, Memory], windows: bool = False
) -> ContractionOperand | None:
    """Returns the left-hand side (0) or right-hand side (1); None if it is computed.

    Args:
        contraction: the contraction.
        side: 0 or 1.
        known: layout of the tensors in memory.
        windows: whether to add guards for dimensions that several loops index, as for padded ones, though they are not
            needed for bounds checks.
    """
    position = contraction.sides[side]
    tensor, low = contraction.op.operands[position], None
    memory = memory_of(tensor, known)
    if memory is None:
        padding = _zeros_around(tensor, known)
        if padding is None:
            return None
        memory, low = padding
    weights = [weights_of(expression) for expression in maps_of(contraction.op)[position].results]
    low = low or [0] * len(weights)
    padded = contraction.op.operands[position].type
    extents = ir.RankedTensorType(padded).shape
    guarded = [axis for axis, extent in enumerate(extents) if extent != memory.shape[axis]]
    if windows:
        several = [axis for axis, parts in enumerate(weights) if sum(dim >= 0 for dim in parts or {}) > 1]
        guarded = sorted({*guarded, *several})
    start = memory.offset
    guards = []
    for axis, (parts, stride) in enumerate(zip(weights, memory.strides, strict=True)):
        assert parts is not None
        first = parts.get(-1, 0) - low[axis]
        start += first * stride
        if axis in guarded:
            guards.append(IndexGuard(first, memory.shape[axis]))

    def dims(numbers: Sequence[int]) -> tuple[Dim, ...]:
        return tuple(_dim(contraction.extents[number], number, weights, memory.strides, guarded) for number in numbers)

    rows = contraction.columns if side else contraction.rows
    batch, outer, depth = (dims(numbers) for numbers in (contraction.batch, rows, contraction.depth))
    access = OperandAccess(memory.element_bytes, batch, outer, depth, start, tuple(guards), memory.alignment)
    return ContractionOperand(memory, access.simplified())


def _dim(
    size: int, number: int, weights: Sequence[dict[int, int] | None], strides: Sequence[int], guarded: Sequence[int]
) -> Dim:
    moves = [(parts or {}).get(number, 0) for parts in weights]
    stride = sum(move * step for move, step in zip(moves, strides, strict=True))
    return Dim(size, stride, tuple(moves[axis] for axis in guarded))


def computed_access(contraction: Contraction, side: int) -> OperandAccess:
    """Returns the access to a computed operand, whose offsets are row-major positions."""
    position = contraction.sides[side]
    kind = ir.RankedTensorType(contraction.op.operands[position].type)
    strides = [1] * kind.rank
    for axis in reversed(range(kind.rank - 1)):
        strides[axis] = strides[axis + 1] * kind.shape[axis + 1]
    weights = [weights_of(expression) for expression in maps_of(contraction.op)[position].results]
    start = sum((parts or {}).get(-1, 0) * stride for parts, stride in zip(weights, strides, strict=True))

    def dims(numbers: Sequence[int]) -> tuple[Dim, ...]:
        return tuple(_dim(contraction.extents[number], number, weights, strides, ()) for number in numbers)

    rows = contraction.columns if side else contraction.rows
    return OperandAccess(
        _bytes(kind.element_type), dims(contraction.batch), dims(rows), dims(contraction.depth), start
    ).simplified()


def _bytes(element: ir.Type) -> int:
    if isinstance(element, ir.IntegerType):
        return max(8, element.width) // 8
    return ir.FloatType(element).width // 8


def _zeros_around(tensor: ir.Value, known: Mapping[ir.Value, Memory]) -> tuple[Memory, list[int]] | None:
    """Returns the memory inside a zero-padded tensor and the low padding; dimensions of size 1 may be collapsed."""
    if isinstance(tensor.owner, ir.Block):
        return None
    op = tensor.owner.operation
    if op.name == "tensor.collapse_shape":
        padding = _zeros_around(op.operands[0], known)
        return None if padding is None else _without_units(op, *padding)
    if op.name != "tensor.pad":
        return None
    low = list(ir.DenseI64ArrayAttr(op.attributes["static_low"]))
    if len(op.operands) != 1 or ir.ShapedType.get_dynamic_size() in low:
        return None
    yielded = op.regions[0].blocks[0].operations[len(op.regions[0].blocks[0].operations) - 1].operands[0]
    if isinstance(yielded.owner, ir.Block) or yielded.owner.name != "arith.constant":
        return None
    value = yielded.owner.attributes["value"]
    if not isinstance(value, ir.FloatAttr | ir.IntegerAttr) or value.value != 0:
        return None
    memory = memory_of(op.operands[0], known)
    return None if memory is None else (memory, low)


def _without_units(op: ir.Operation, memory: Memory, low: list[int]) -> tuple[Memory, list[int]] | None:
    """Drops the dimensions of size 1 that a collapse removes; None if it merges other dimensions."""
    padded, kept = ir.RankedTensorType(op.operands[0].type).shape, []
    for run in reassociation(op):
        longer = [axis for axis in run if padded[axis] != 1] or run[-1:]
        if len(longer) > 1:
            return None
        kept += longer
    shape, strides = (tuple(items[axis] for axis in kept) for items in (memory.shape, memory.strides))
    return replace(memory, shape=shape, strides=strides), [low[axis] for axis in kept]
