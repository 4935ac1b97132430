"""Tensors that are memory: an argument of a kernel seen through reshapes and slices, as an offset and strides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mlir import ir


@dataclass(frozen=True)
class Strided:
    """A view of one argument; everything is counted in elements.

    Attributes:
        base: the argument.
        offset: where the first element lies.
        shape: the sizes of the view.
        strides: how far apart neighbours lie, for every dimension.
    """

    base: ir.Value
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @staticmethod
    def whole(base: ir.Value) -> Strided:
        """All of an argument, which lies row by row."""
        shape = tuple(ir.RankedTensorType(base.type).shape)
        return Strided(base, 0, shape, row_major(shape))

    def before(self, op: ir.Operation) -> Strided | None:
        """This view, of the result of a reshape, as a view of what is reshaped."""
        shape = tuple(ir.RankedTensorType(op.operands[0].type).shape)
        if op.name == "tensor.collapse_shape":
            return _expanded(self, op, shape)
        return _collapsed(self, op)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a tensor that lies row by row."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def whole_arguments(function: ir.Operation) -> dict[ir.Value, Strided]:
    """The arguments of a function, each row by row in memory of its own."""
    return {argument: Strided.whole(argument) for argument in function.regions[0].blocks[0].arguments}


def strided(value: ir.Value, known: Mapping[ir.Value, Strided]) -> Strided | None:
    """`value` as a view of what is in memory; None where it is computed, or lies in no regular way."""
    if value in known:
        return known[value]
    if isinstance(value.owner, ir.Block):
        return None
    op = value.owner.operation
    if op.name not in _VIEWS:
        return None
    source = strided(op.operands[0], known)
    if source is None:
        return None
    return _VIEWS[op.name](source, op)


def groups(op: ir.Operation) -> list[list[int]]:
    """Which dimensions of the longer shape make one of the shorter, of a collapse_shape or expand_shape."""
    runs = ir.ArrayAttr(op.attributes["reassociation"])
    return [[ir.IntegerAttr(axis).value for axis in ir.ArrayAttr(run)] for run in runs]


def _collapsed(source: Strided, op: ir.Operation) -> Strided | None:
    shape, strides = [], []
    for group in groups(op):
        dims = [(source.shape[axis], source.strides[axis]) for axis in group if source.shape[axis] > 1]
        if any(outer[1] != inner[0] * inner[1] for outer, inner in itertools.pairwise(dims)):
            return None
        shape.append(math.prod(size for size, _ in dims))
        strides.append(dims[-1][1] if dims else 1)
    return Strided(source.base, source.offset, tuple(shape), tuple(strides))


def _expanded(source: Strided, op: ir.Operation, shape: tuple[int, ...]) -> Strided:
    strides = [0] * len(shape)
    for group, stride in zip(groups(op), source.strides, strict=True):
        for axis, inner in zip(group, row_major([shape[axis] for axis in group]), strict=True):
            strides[axis] = inner * stride
    return Strided(source.base, source.offset, shape, tuple(strides))


def _sliced(source: Strided, op: ir.Operation) -> Strided | None:
    starts, steps = (list(ir.DenseI64ArrayAttr(op.attributes[name])) for name in ("static_offsets", "static_strides"))
    shape = tuple(ir.RankedTensorType(op.results[0].type).shape)
    if len(op.operands) > 1 or len(shape) != len(source.shape):
        return None
    offset = source.offset + sum(start * stride for start, stride in zip(starts, source.strides, strict=True))
    strides = tuple(step * stride for step, stride in zip(steps, source.strides, strict=True))
    return Strided(source.base, offset, shape, strides)


def _expansion(source: Strided, op: ir.Operation) -> Strided:
    return _expanded(source, op, tuple(ir.RankedTensorType(op.results[0].type).shape))


_VIEWS = {"tensor.collapse_shape": _collapsed, "tensor.expand_shape": _expansion, "tensor.extract_slice": _sliced}
