"""Binds the value that a kernel returns to the kernel's destination argument."""

from __future__ import annotations

import itertools

from mlir import ir
from mlir.dialects import tensor

from ...passes.ir.values import shape_of
from ..builders.tensors import copy, with_shape


def bind_destination(kernel: ir.Operation) -> None:
    """Rewires a kernel so that its result is computed in its last argument.

    %0 = tensor.empty()                                          %0 = linalg.generic outs(%out)
    %1 = linalg.generic outs(%0)          -->                    return %0
    return %1
    """
    block = kernel.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operation
    destination = block.arguments[len(block.arguments) - 1]
    value = returned.operands[0]
    if _is_made_in(value, destination) or _bind(value, destination) or _change_copy(value, destination):
        return
    with returned.location, ir.InsertionPoint(returned):
        returned.operands[0] = copy(value, destination)


def _change_copy(value: ir.Value, destination: ir.Value) -> bool:
    """Copies a tensor into `destination` before the loops that change it, not after, if they may not overwrite it.

    %0 = scf.for iter_args(%t = %x) { ... }                  %x' = linalg.generic {copy} ins(%x) outs(%out)
    %1 = linalg.generic {copy} ins(%0) outs(%out)    -->     %0 = scf.for iter_args(%t = %x') { ... }
    """
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        inner = op.operands[0]
        with op.location, _after(destination):
            return _change_copy(inner, with_shape(destination, shape_of(inner)))
    position = _target_position(op, value)
    if position is None or op.name not in ("scf.for", "scf.forall"):
        return False
    changed = op.operands[position]
    if not _change_copy(changed, destination):
        with op.location, ir.InsertionPoint(op):
            op.operands[position] = copy(changed, destination)
    return True


def copy_inserted(kernel: ir.Operation) -> None:
    """Makes the copy explicit wherever the inserted tensor was not computed in place.

    %1 = tensor.insert_slice %x into %0[0, 8] [4, 8] [1, 1]
    // -->
    %window = tensor.extract_slice %0[0, 8] [4, 8] [1, 1]
    %copied = linalg.generic {copy} ins(%x) outs(%window)
    %1 = tensor.insert_slice %copied into %0[0, 8] [4, 8] [1, 1]
    """
    for op in list(kernel.regions[0].blocks[0].operations):
        if op.operation.name != "tensor.insert_slice":
            continue
        source, into = op.operands[0], op.operands[1]
        if _is_window(source, into):
            continue
        offsets, sizes, strides = (
            list(ir.DenseI64ArrayAttr(op.attributes[name]))
            for name in ("static_offsets", "static_sizes", "static_strides")
        )
        # Dynamic values follow the source and the destination: offsets, sizes, strides.
        _, _, *counts = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])
        given = iter(list(op.operands)[2:])
        where, many, steps = (list(itertools.islice(given, count)) for count in counts)
        with op.location, ir.InsertionPoint(op):
            window = tensor.ExtractSliceOp(source.type, into, where, many, steps, offsets, sizes, strides).result
            op.operation.operands[0] = copy(source, window)


def _is_window(value: ir.Value, into: ir.Value) -> bool:
    """Returns whether `value` was computed in a slice of `into`."""
    if isinstance(value.owner, ir.Block):
        return False
    if value.owner.operation.name == "tensor.extract_slice":
        return value.owner.operands[0] == into
    target = _target(value)
    return target is not None and _is_window(target, into)


def _after(value: ir.Value) -> ir.InsertionPoint:
    owner = value.owner
    return ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)


def _is_made_in(value: ir.Value, destination: ir.Value) -> bool:
    """Returns whether `value` is `destination` after some ops wrote into it."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    target = _target(value)
    if target is None:
        return False
    return target == destination or _is_made_in(target, destination)


def _target(value: ir.Value) -> ir.Value | None:
    """Returns the tensor into which the op that makes `value` writes."""
    op = value.owner.operation
    position = _target_position(op, value)
    return None if position is None else op.operands[position]


def _target_position(op: ir.Operation, value: ir.Value) -> int | None:
    """Returns the number of the operand that the op overwrites to make its result `value`."""
    match op.name:
        case "linalg.generic":
            count = ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])[0]
            return count + list(op.results).index(value)
        case "linalg.fill" | "tensor.insert_slice" | "vector.transfer_write":
            return 1
        case "scf.forall":
            return list(op.results).index(value)
        case "scf.for":
            # After the bounds and the step.
            return 3 + list(op.results).index(value)
        case "tensor.expand_shape" | "tensor.collapse_shape":
            return 0
    return None


def _bind(value: ir.Value, destination: ir.Value) -> bool:
    """Follows `value` up to the tensor.empty in which it is computed, and replaces that by `destination`."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return False
    op = owner.operation
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        inner = op.operands[0]
        with op.location, _after(destination):
            return _bind(inner, with_shape(destination, shape_of(inner)))
    position = _target_position(op, value)
    if position is None:
        return False
    target = op.operands[position]
    if isinstance(target.owner, ir.Block):
        return False
    if not _is_empty(target):
        return _bind(target, destination)
    op.operands[position] = destination
    return True


def _is_empty(value: ir.Value) -> bool:
    """Returns whether `value` is a tensor without contents, or a view of one."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name in ("tensor.expand_shape", "tensor.collapse_shape"):
        return _is_empty(op.operands[0])
    return op.name == "tensor.empty"
