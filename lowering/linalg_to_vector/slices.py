"""Resolves slices of slices to offsets in the original tensor."""

from __future__ import annotations

from mlir import ir

from ...passes.ir.values import shape_of
from ..builders.linear_forms import LinearForm, linear_index


def whole(part: ir.Value) -> tuple[ir.Value, list[LinearForm]]:
    """Returns the tensor that `part` is a (nested) slice of, and the offsets of `part` in it."""
    offsets: list[LinearForm] = [(0, ())] * len(shape_of(part))
    while not isinstance(part.owner, ir.Block) and part.owner.name == "tensor.extract_slice":
        op = part.owner
        strides = ir.DenseI64ArrayAttr(op.attributes["static_strides"])
        if len(strides) != len(offsets) or set(strides) != {1}:
            break
        dynamic = iter(list(op.operands)[1:])
        for axis, static in enumerate(ir.DenseI64ArrayAttr(op.attributes["static_offsets"])):
            base, terms = linear_index(static if static >= 0 else next(dynamic))
            offsets[axis] = (offsets[axis][0] + base, (*offsets[axis][1], *terms))
        part = op.operands[0]
    return part, offsets
