"""Strides of tensors in a kernel: an argument may be a part of a larger tensor."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mlir import ir

from ...passes.ir.functions import dictionaries
from ...passes.ir.values import shape_of
from ...passes.kernel.views import argument_strides, row_major


def add_destination_strides(kernel: ir.Operation) -> None:
    """Moves the attributes of the kernel's result to the destination, which becomes its last argument."""
    known = [*dictionaries(kernel, "arg_attrs"), *dictionaries(kernel, "res_attrs")]
    for name in ("arg_attrs", "res_attrs"):
        if name in kernel.attributes:
            del kernel.attributes[name]
    if any(len(entry) for entry in known):
        kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(known)


def strides_of(value: ir.Value) -> list[int]:
    """Returns the distance, in elements, from one index of each dimension to the next."""
    shape = shape_of(value)
    if isinstance(value.owner, ir.Block):
        return _argument(ir.BlockArgument(value)) or row_major(shape)
    op = value.owner.operation
    if op.name == "tensor.extract_slice" and len(shape) == len(shape_of(op.operands[0])):
        steps = ir.DenseI64ArrayAttr(op.attributes["static_strides"])
        return [stride * step for stride, step in zip(strides_of(op.operands[0]), steps, strict=True)]
    if op.name == "tensor.collapse_shape":
        return collapsed(strides_of(op.operands[0]), shape_of(op.operands[0]), reassociation(op))
    if op.name == "tensor.expand_shape":
        return expanded(strides_of(op.operands[0]), shape, reassociation(op))
    return row_major(shape)


def strides_of_made(kernel: ir.Operation) -> dict[ir.Value, list[int]]:
    """Returns the strides of the tensors that are computed in a kernel's destination, the returned one first."""
    block = kernel.regions[0].blocks[0]
    value = block.operations[len(block.operations) - 1].operands[0]
    strides = strides_of(block.arguments[len(block.arguments) - 1])
    found = {value: strides}
    while not isinstance(value.owner, ir.Block):
        op = value.owner.operation
        if op.name == "tensor.expand_shape":
            strides = collapsed(strides, shape_of(value), reassociation(op))
        elif op.name == "tensor.collapse_shape":
            strides = expanded(strides, shape_of(op.operands[0]), reassociation(op))
        else:
            break
        value = op.operands[0]
        found[value] = strides
    return found


def breaks(shape: Sequence[int], strides: Sequence[int]) -> list[int]:
    """Returns the dimensions that cannot be merged with the next one, as they are not contiguous."""
    # Dimensions of size 1 never prevent merging.
    real = [axis for axis, extent in enumerate(shape) if extent != 1]
    return [first for first, second in itertools.pairwise(real) if strides[first] != strides[second] * shape[second]]


def breaks_of(value: ir.Value) -> list[int]:
    """Returns `breaks` of a tensor."""
    return breaks(shape_of(value), strides_of(value))


def _argument(value: ir.BlockArgument) -> list[int] | None:
    kernel = value.owner.owner.operation
    return argument_strides(kernel)[value.arg_number] if "arg_attrs" in kernel.attributes else None


def collapsed(strides: Sequence[int], shape: Sequence[int], runs: Sequence[Sequence[int]]) -> list[int]:
    """Returns the strides after collapsing runs of dimensions: those of the last one with more than one index."""
    real = [[axis for axis in run if shape[axis] != 1] or run for run in runs]
    return [strides[run[-1]] for run in real]


def expanded(strides: Sequence[int], shape: Sequence[int], runs: Sequence[Sequence[int]]) -> list[int]:
    """Returns the strides of the dimensions of `shape` after expanding one dimension per run."""
    if not runs:
        return row_major(shape)
    pairs = zip(strides, runs, strict=True)
    return [stride * math.prod(shape[axis + 1 : run[-1] + 1]) for stride, run in pairs for axis in run]


def reassociation(op: ir.Operation) -> list[list[int]]:
    """Returns the runs of dimensions that a reshaping op collapses, or expands into."""
    runs = ir.ArrayAttr(op.attributes["reassociation"])
    return [[ir.IntegerAttr(axis).value for axis in ir.ArrayAttr(run)] for run in runs]
