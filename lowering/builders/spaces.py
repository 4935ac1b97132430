"""Index space of a contraction kernel's result, and the views of tensors in it.

A contraction's result [.., columns] is written panel by panel; its index space is (outer.., group?, panel, lane),
where the outer dimensions are those of the result, merged if every operand allows it. Epilogue operands, the weight
and the destination are read and written through views in this space, so that one tile of it is a block of
registers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from mlir import ir
from mlir.dialects import tensor

from ...dialects.stepwell.panels import ColumnGroup
from ...passes.ir.values import Shape, shape_of


def collapse(value: ir.Value, runs: Sequence[Sequence[int]]) -> ir.Value:
    """Merges each run of neighbouring dimensions of `value` into one; other dimensions must be 1 and are removed."""
    shape = shape_of(value)
    if [list(run) for run in runs] == [[axis] for axis in range(len(shape))]:
        return value
    ends = [run[0] for run in runs[1:]] + [len(shape)]
    starts = [0, *ends[:-1]]
    reassociation = [list(range(start, end)) for start, end in zip(starts, ends, strict=True)] if runs else []
    sizes = [math.prod(shape[axis] for axis in run) for run in runs]
    kind = ir.RankedTensorType.get(sizes, ir.RankedTensorType(value.type).element_type)
    return tensor.collapse_shape(kind, value, reassociation)


def expand(value: ir.Value, axis: int, sizes: Sequence[int]) -> ir.Value:
    """Returns `value` with dimension `axis` split into dimensions of `sizes`."""
    if len(sizes) == 1:
        return value
    shape = shape_of(value)
    target = [*shape[:axis], *sizes, *shape[axis + 1 :]]
    extra = len(sizes) - 1
    reassociation = [
        list(range(position + extra * (position > axis), position + extra * (position >= axis) + 1))
        for position in range(len(shape))
    ]
    kind = ir.RankedTensorType.get(target, ir.RankedTensorType(value.type).element_type)
    return tensor.expand_shape(kind, value, reassociation, [], target)


def slice_axis(value: ir.Value, axis: int, start: int, size: int) -> ir.Value:
    """Returns the part [start, start + size) of one dimension of `value`."""
    shape = shape_of(value)
    if start == 0 and size == shape[axis]:
        return value
    offsets = [start if position == axis else 0 for position in range(len(shape))]
    sizes = [size if position == axis else dim for position, dim in enumerate(shape)]
    kind = ir.RankedTensorType.get(sizes, ir.RankedTensorType(value.type).element_type)
    return tensor.extract_slice(kind, value, [], [], [], offsets, sizes, [1] * len(shape))


def insert_axis(part: ir.Value, into: ir.Value, axis: int, start: int) -> ir.Value:
    """Returns `into` with the slice that begins at `start` of dimension `axis` replaced by `part`."""
    if shape_of(part) == shape_of(into):
        return part
    sizes = list(shape_of(part))
    offsets = [start if position == axis else 0 for position in range(len(sizes))]
    return tensor.insert_slice(part, into, [], [], [], offsets, sizes, [1] * len(sizes))


class ResultSpace:
    """The index space (outer.., feature group?, panel, lane) of a result [.., columns].

    Attributes:
        runs: for every outer dimension of the space, the result's dimensions merged into it.
        count: number of feature groups (1: no such dimension).
        rank: number of (parallel) dimensions.
    """

    def __init__(
        self, shape: Shape, operands: Sequence[Shape], *, count: int = 1, separate: Iterable[int] = ()
    ) -> None:
        """Merges the outer dimensions as far as possible.

        Args:
            shape: the result's shape.
            operands: sizes of other tensors along the result's outer dimensions, 1 if they are broadcast;
                dimensions merge only if the same tensors are broadcast along them.
            count: number of feature groups that the columns are divided into.
            separate: dimensions that are kept as they are, even those of size 1.
        """
        self.shape, self.count = shape, count
        outer = len(shape) - 1
        kept = set(separate)
        signature = [tuple(other[axis] == shape[axis] for other in operands) for axis in range(outer)]
        self.runs: list[list[int]] = []
        for axis in range(outer):
            if shape[axis] == 1 and axis not in kept:
                continue
            last = self.runs[-1][-1] if self.runs else None
            if last is None or {last, axis} & kept or signature[last] != signature[axis]:
                self.runs.append([axis])
            else:
                self.runs[-1].append(axis)
        self.rank = len(self.runs) + (3 if count > 1 else 2)

    @property
    def columns(self) -> int:
        """Number of columns of one feature group."""
        return self.shape[-1] // self.count

    def sizes(self, group: ColumnGroup) -> list[int]:
        """Returns the extents of the dimensions, for one column group."""
        outer = [math.prod(self.shape[axis] for axis in run) for run in self.runs]
        return [*outer, *([self.count] if self.count > 1 else []), group.panels, group.width]

    def flatten(self, value: ir.Value, trailing: int) -> tuple[ir.Value, list[int]]:
        """Merges the outer dimensions of `value` as in this space; returns it, and the dimensions of the space that it
        has.

        Args:
            value: a tensor whose dimensions before the last `trailing` ones are broadcastable to the result's.
            trailing: number of dimensions to leave unchanged; with 2, the last outer one and the columns.
        """
        shape = shape_of(value)
        outer = len(shape) - trailing
        shift = len(self.shape) - trailing - outer
        dims, runs = [], []
        for position, run in enumerate(self.runs):
            own = [axis - shift for axis in run if shift <= axis < shift + outer]
            if own and all(shape[axis] == self.shape[axis + shift] for axis in own):
                dims.append(position)
                runs.append(own)
        return collapse(value, [*runs, *([axis] for axis in range(outer, len(shape)))]), dims

    def view(self, value: ir.Value, group: ColumnGroup) -> tuple[ir.Value, list[int]]:
        """Returns the part of `value` that belongs to `group`, and the space's dimension of each of its dimensions."""
        flat, dims = self.flatten(value, 1) if shape_of(value) else (value, [])
        if shape_of(flat)[len(dims) :] != self.shape[-1:]:
            return collapse(flat, [[axis] for axis in range(len(dims))]), dims
        return self.split_columns(flat, len(dims), group), [*dims, *range(len(self.runs), self.rank)]

    def split_columns(self, flat: ir.Value, axis: int, group: ColumnGroup) -> ir.Value:
        """Returns `flat` with dimension `axis`, which counts columns, as (feature group?, panel, lane) of `group`."""
        if self.count > 1:
            flat = expand(flat, axis, [self.count, self.columns])
            axis += 1
        return expand(slice_axis(flat, axis, group.start, group.size), axis, [group.panels, group.width])

    def write(self, part: ir.Value, into: ir.Value, group: ColumnGroup) -> ir.Value:
        """Returns the result tensor `into` with the columns of `group` replaced by `part`, which is in this space."""
        flat, dims = self.flatten(into, 1)
        axis = len(dims)
        grouped = expand(flat, axis, [self.count, self.columns]) if self.count > 1 else flat
        column_axis = axis + (self.count > 1)
        rank = len(shape_of(part))
        merged = collapse(part, [*([dim] for dim in range(rank - 2)), [rank - 2, rank - 1]])
        updated = insert_axis(merged, grouped, column_axis, group.start)
        if self.count > 1:
            updated = collapse(updated, [*([dim] for dim in range(axis)), [axis, axis + 1]])
        return self._unflatten(updated)

    def _unflatten(self, flat: ir.Value) -> ir.Value:
        """Restores the result's shape; the inverse of `flatten`."""
        if shape_of(flat) == self.shape:
            return flat
        starts = [run[0] for run in self.runs] + [len(self.shape) - 1]
        bounds = [0, *starts[1:], len(self.shape)]
        reassociation = [list(range(begin, end)) for begin, end in itertools.pairwise(bounds)]
        kind = ir.RankedTensorType.get(list(self.shape), ir.RankedTensorType(flat.type).element_type)
        return tensor.expand_shape(kind, flat, reassociation, [], list(self.shape))
