"""Views: tensors of `@main` that are parts of other tensors, and their strides.

A `tensor.extract_slice` is a view of its operand. The operand of a `tensor.insert_slice` is computed in place: its
producer writes directly into the part of the larger tensor. Kernels that work on views record strides, in elements, in
the attributes of their arguments and results:

    func.func private @k(%x: tensor<8x8x16xf32> {stepwell.strides = array<i64: 240, 24, 1>}) -> ...
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from ...dialects import discardable
from ...dialects.registry import OPS
from ..infra.base import PassError
from ..ir.functions import dictionaries

INSERT, EXTRACT = "tensor.insert_slice", "tensor.extract_slice"


Box = tuple[list[int], list[int], list[int]]


def works_on_views(op: ir.Operation | ir.OpView) -> bool:
    """Returns whether the kernel of an op reads and writes parts of larger tensors as fast as whole tensors."""
    kind = OPS.get(op.operation.name)
    return op.operation.name == EXTRACT if kind is None else kind.KERNEL is not None and kind.KERNEL.works_on_views


def row_major(shape: Sequence[int]) -> list[int]:
    """The strides of a contiguous tensor."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return strides[::-1]


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Returns whether strides are those of a contiguous tensor; strides of dimensions of size 1 do not matter."""
    pairs = zip(shape, strides, row_major(shape), strict=True)
    return 0 in shape or all(extent == 1 or stride == wanted for extent, stride, wanted in pairs)


def box_of(op: ir.Operation | ir.OpView) -> Box:
    """The offsets, sizes and steps of a slicing op; computed ones are the dynamic size of `ShapedType`."""
    names = ("static_offsets", "static_sizes", "static_strides")
    offsets, sizes, steps = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in names)
    return offsets, sizes, steps


def row_index(op: ir.Operation | ir.OpView) -> ir.Value | None:
    """The row index operand of a slicing op; None if all its bounds are constant.

    Raises:
        PassError: the op computes more than the index of a row.
    """
    sources = 2 if op.operation.name == INSERT else 1
    computed = list(op.operation.operands)[sources:]
    if not computed:
        return None
    offsets, sizes, steps = box_of(op)
    dynamic = ir.ShapedType.get_dynamic_size()
    if len(computed) > 1 or offsets[0] != dynamic or sizes[0] != 1 or dynamic in (*offsets[1:], *sizes, *steps):
        raise PassError(f"'{op.operation.name}' op computes more than the index of a row", op.operation.location)
    return computed[0]


def kept_dims(sizes: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The dimensions of a box that a tensor of `shape` keeps; the dropped ones have size 1."""
    kept: list[int] = []
    for axis, size in enumerate(sizes):
        if len(kept) < len(shape) and size == shape[len(kept)]:
            kept.append(axis)
    return kept


def insertion_of(value: ir.Value) -> ir.Operation | None:
    """The op that inserts `value` into a larger tensor, if there is one."""
    for use in value.uses:
        if use.owner.operation.name == INSERT and use.operand_number == 0:
            return use.owner.operation
    return None


def strides_of(value: ir.Value) -> list[int] | None:
    """The strides of a view in `@main`; None for a contiguous tensor."""
    shape = list(ir.RankedTensorType(value.type).shape)
    strides = _strides(value)
    return None if is_contiguous(shape, strides) else normal_strides(shape, strides)


def normal_strides(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """The same strides, except that dimensions of size 1 get the strides that a reshape would give them."""
    normal = list(strides)
    for axis in reversed(range(len(shape) - 1)):
        if shape[axis] == 1:
            normal[axis] = normal[axis + 1] * shape[axis + 1]
    return normal


def _strides(value: ir.Value) -> list[int]:
    shape = list(ir.RankedTensorType(value.type).shape)
    insertion = insertion_of(value)
    if insertion is not None:
        whole = list(ir.RankedTensorType(insertion.operands[1].type).shape)
        return [row_major(whole)[axis] for axis in kept_dims(box_of(insertion)[1], shape)]
    if isinstance(value.owner, ir.Block) or value.owner.name != EXTRACT:
        return row_major(shape)
    _, sizes, steps = box_of(value.owner)
    outer = _strides(value.owner.operands[0])
    return [outer[axis] * steps[axis] for axis in kept_dims(sizes, shape)]


def annotate(kernel: ir.Operation, inputs: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
    """Writes the strides of a call's operands and results into the attributes of the called kernel."""
    for name, values in (("arg_attrs", inputs), ("res_attrs", results)):
        strides = [strides_of(value) for value in values]
        if any(strides):
            kernel.attributes[name] = ir.ArrayAttr.get([_attribute(item) for item in strides])


def argument_strides(function: ir.Operation | ir.OpView) -> list[list[int] | None]:
    """The strides written by `annotate`, for each argument; None for contiguous ones."""
    found = (discardable.STRIDES.read(entry) for entry in dictionaries(function, "arg_attrs"))
    return [None if strides is None else list(strides) for strides in found]


def _attribute(strides: Sequence[int] | None) -> ir.DictAttr:
    return ir.DictAttr.get(discardable.STRIDES.entry(strides) if strides else {})
