"""Temporaries stored in the memory of the result: softmax keeps its exponentials in the row that it scales at the end.

%p = generic outs(%temporary)                     %p = generic outs(%out)
%s = generic {reduces} ins(%p)              -->   %s = generic {reduces} ins(%p)
%r = generic ins(%p, %s) outs(%out)               %r = generic ins(%s) outs(%p)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlir import ir

from .generic import Generic, as_generic, sliced
from .groups import LoopGroup


def make_in_place(groups: Sequence[LoopGroup]) -> None:
    """Lets an op overwrite an input of the same type and indexing that is not read later."""
    for group in groups:
        if group.reductions:
            continue
        for last in group.members:
            if len(last.results) == 1 and not _is_read(last, last.num_inputs):
                _reuse_input(group, last)


def update_slices(groups: Sequence[LoopGroup]) -> None:
    """Lets an op that reads a slice and replaces it by its result write into that slice.

    %s = tensor.extract_slice %t[%i] ...                     %s = tensor.extract_slice %t[%i] ...
    %r = generic ins(%x, %s) outs(%empty)             -->    %r = generic ins(%x) outs(%s)
    %u = tensor.insert_slice %r into %t[%i] ...              %u = tensor.insert_slice %r into %t[%i] ...
    """
    for group in groups:
        if group.reductions or len(group.members) != 1:
            continue
        (only,) = group.members
        if len(only.results) == 1 and not _is_read(only, only.num_inputs):
            _update_slice(only)


def _update_slice(generic: Generic) -> None:
    uses = [use.owner.operation for use in generic.results[0].uses]
    if len(uses) != 1 or uses[0].name != "tensor.insert_slice" or not _is_temporary(generic, 0):
        return
    inserted = uses[0]
    for position, value in enumerate(generic.operands[: generic.num_inputs]):
        taken = value.owner
        if isinstance(taken, ir.Block) or taken.name != "tensor.extract_slice":
            continue
        # tensor.insert_slice has the inserted tensor as its first operand.
        is_same = list(taken.operands) == list(inserted.operands)[1:] and all(
            taken.attributes[name] == inserted.attributes[name]
            for name in ("static_offsets", "static_sizes", "static_strides")
        )
        if is_same and generic.maps[position] == generic.output_maps[0] and value.type == generic.results[0].type:
            if generic.operands.count(value) > 1:
                continue
            _overwrite(generic, position)
            return


def _overwrite(generic: Generic, position: int) -> None:
    """Makes an input the destination."""
    generic.op.operands[generic.num_inputs] = generic.operands[position]
    arguments = generic.block.arguments
    arguments[position].replace_all_uses_with(arguments[generic.num_inputs])


def _reuse_input(group: LoopGroup, last: Generic) -> None:
    inside = {member.op for member in group.members}
    for position, maker in _makers(last):
        value = last.operands[position]
        if maker.op in inside or last.maps[position] != last.output_maps[0] or value.type != last.results[0].type:
            continue
        number = list(maker.op.results).index(value)
        if _is_free(value, last) and _is_temporary(maker, number) and _move_before(last.outputs[0], maker.op):
            maker.op.operands[maker.num_inputs + number] = last.outputs[0]
            _overwrite(last, position)
            return


def _makers(generic: Generic) -> Iterator[tuple[int, Generic]]:
    """Yields the inputs that are made by other ops of the same block."""
    for position, value in enumerate(generic.operands[: generic.num_inputs]):
        maker = as_generic(value)
        if maker is not None and maker.op.block == generic.op.block and not maker.reductions:
            yield position, maker


def _is_read(generic: Generic, position: int) -> bool:
    return any(True for _ in generic.block.arguments[position].uses)


def _is_free(value: ir.Value, last: Generic) -> bool:
    """Returns whether `last` is the last op to read `value`, and reads it once."""
    readers = [use.owner.operation for use in value.uses]
    if readers.count(last.op) > 1 or any(reader.block != last.op.block for reader in readers):
        return False
    return not any(reader != last.op and last.op.is_before_in_block(reader) for reader in readers)


def _is_temporary(maker: Generic, number: int) -> bool:
    """Returns whether a result is written to an empty tensor of its own."""
    target = maker.outputs[number]
    source = sliced(target).owner
    is_empty = not isinstance(source, ir.Block) and source.name == "tensor.empty"
    return is_empty and not _is_read(maker, maker.num_inputs + number)


def _move_before(target: ir.Value, op: ir.Operation) -> bool:
    """Moves the slice that makes a destination before `op` if needed and possible; returns whether it is there."""
    owner = target.owner
    if isinstance(owner, ir.Block) or owner.operation.block != op.block or owner.operation.is_before_in_block(op):
        return True
    slicing = owner.operation
    if slicing.name != "tensor.extract_slice":
        return False
    makers = [value.owner.operation for value in slicing.operands if not isinstance(value.owner, ir.Block)]
    if not all(maker.block != op.block or maker.is_before_in_block(op) for maker in makers):
        return False
    slicing.move_before(op)
    return True
