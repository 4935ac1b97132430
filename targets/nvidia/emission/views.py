"""Memory of tensors that are reshapes or slices of tensors in memory."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from ....dialects import discardable
from ....lowering.builders.strides import breaks, collapsed, expanded, reassociation
from ....passes.ir.functions import body_of, dictionaries
from ....passes.kernel.record_alignment import WHOLE
from ....passes.kernel.views import argument_strides, box_of, is_contiguous, kept_dims, row_major
from .launch import Memory


def memories(function: ir.Operation) -> dict[ir.Value, Memory]:
    """Returns the memory of a function's arguments, as their attributes describe it."""
    found: dict[ir.Value, Memory] = {}
    entries = zip(
        body_of(function).arguments, dictionaries(function, "arg_attrs"), argument_strides(function), strict=True
    )
    for argument, attributes, strides in entries:
        shape = tuple(ir.RankedTensorType(argument.type).shape)
        alignment = discardable.ALIGNMENT.read(attributes, WHOLE)
        found[argument] = Memory(
            argument, shape, tuple(strides or row_major(shape)), alignment, discardable.OFFSET.read(attributes, 0)
        )
    return found


def row_major_memory(tensor: ir.Value) -> Memory:
    """Returns the layout of a tensor that has memory of its own."""
    shape = tuple(ir.RankedTensorType(tensor.type).shape)
    return Memory(tensor, shape, tuple(row_major(shape)), WHOLE)


def attributes_of(memory: Memory) -> ir.DictAttr:
    """Returns the argument attributes that `memories` reads."""
    entries: dict[str, ir.Attribute] = {}
    if not is_contiguous(memory.shape, memory.strides):
        entries |= discardable.STRIDES.entry(memory.strides)
    if memory.alignment != WHOLE:
        entries |= discardable.ALIGNMENT.entry(memory.alignment)
    if memory.offset:
        entries |= discardable.OFFSET.entry(memory.offset)
    return ir.DictAttr.get(entries)


def memory_of(tensor: ir.Value, known: Mapping[ir.Value, Memory]) -> Memory | None:
    """Returns the memory of a tensor, or of a view of a tensor in memory; None if it must be computed."""
    if tensor in known:
        return known[tensor]
    if isinstance(tensor.owner, ir.Block):
        return None
    op = tensor.owner.operation
    if op.name not in ("tensor.collapse_shape", "tensor.expand_shape", "tensor.extract_slice"):
        return None
    source = memory_of(op.operands[0], known)
    if source is None:
        return None
    shape = tuple(ir.RankedTensorType(tensor.type).shape)
    if op.name == "tensor.extract_slice":
        return _part(source, op, shape)
    runs = reassociation(op)
    if op.name == "tensor.expand_shape":
        return _reshaped(source, shape, expanded(source.strides, shape, runs))
    for run in runs:  # a collapsed dimension must have a single stride
        if breaks([source.shape[axis] for axis in run], [source.strides[axis] for axis in run]):
            return None
    return _reshaped(source, shape, collapsed(source.strides, source.shape, runs))


def _part(source: Memory, op: ir.Operation, shape: tuple[int, ...]) -> Memory | None:
    offsets, sizes, steps = box_of(op)
    if ir.ShapedType.get_dynamic_size() in (*offsets, *sizes, *steps):
        return None
    first = sum(start * stride for start, stride in zip(offsets, source.strides, strict=True))
    strides = tuple(source.strides[axis] * steps[axis] for axis in kept_dims(sizes, shape))
    return Memory(source.base, shape, strides, source.alignment, source.offset + first)


def _reshaped(source: Memory, shape: tuple[int, ...], strides: list[int]) -> Memory:
    return Memory(source.base, shape, tuple(strides), source.alignment, source.offset)
