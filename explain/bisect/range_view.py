"""A module for a range of sizes, seen at some sizes in the range: padded inputs, cropped outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from ...driver.compile.ranges import RangedModel
from ...driver.setup import Setup
from ...driver.sources.source import ModelSource
from ...passes.ir.functions import body_of, main_function
from ...passes.kernel.demand import read_table
from ...sizes.buckets import parse_dims
from ...sizes.dims_option import resolve_dims
from ...sizes.expressions import Expression, evaluate
from ...sizes.ranges import Range
from ...support.errors import InputError


@dataclass(frozen=True)
class RangeView:
    """Sizes at which a module for a range is evaluated.

    Attributes:
        sizes: the sizes of the symbolic dimensions, by name.
        extents: the shapes of the outputs, as expressions over the sizes.
    """

    sizes: Mapping[str, int]
    extents: Sequence[Sequence[Expression]]

    def inputs(self, module: ir.Operation, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the inputs of a module's @main: the model's, padded with zeros, and the table of extents."""
        *wide, last = [ir.RankedTensorType(value.type).shape for value in body_of(main_function(module)).arguments]
        found = []
        for array, shape in zip(arrays, wide, strict=True):
            whole = np.zeros(shape, array.dtype)
            whole[tuple(map(slice, array.shape))] = array
            found.append(whole)
        table = np.zeros(last, np.int64)
        values = [evaluate(item, self.sizes) for item in read_table(module)]
        table[: len(values)] = values
        return [*found, table]

    def outputs(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Returns the model's outputs: the parts of those of @main that hold data."""
        shapes = [[evaluate(item, self.sizes) for item in shape] for shape in self.extents]
        return [array[tuple(map(slice, shape))] for array, shape in zip(arrays, shapes, strict=True)]


@dataclass(frozen=True)
class ChosenRange:
    """A bucket of sizes, and sizes in it.

    Attributes:
        model: the model.
        bucket: the ranges of the bucket.
        sizes: the sizes of the symbolic dimensions.
    """

    model: RangedModel
    bucket: Mapping[str, Range]
    sizes: Mapping[str, int]


def range_of(
    source: ModelSource, dims: Mapping[str, Any], inputs: Mapping[str, np.ndarray], target: str
) -> ChosenRange | None:
    """Returns the bucket of the inputs' sizes that is compiled for a target; None if no size varies.

    Raises:
        InputError: a range is wrong, or no bucket contains the sizes.
    """
    if not dims:
        return None
    resolved = resolve_dims(dims, source.interface()[0])
    _, buckets = parse_dims(resolved.dims, resolved.inputs, resolved.derived, Setup(target).divides_ranges)
    if not buckets:
        return None
    named = {
        dim: size
        for info in resolved.inputs
        for dim, size in zip(info.shape, inputs[info.name].shape, strict=True)
        if isinstance(dim, str)
    }
    sizes = {name: named[name] for name in buckets[0]}
    for bucket in buckets:
        if all(size in bucket[name] for name, size in sizes.items()):
            return ChosenRange(RangedModel(source, resolved.inputs, resolved.derived), bucket, sizes)
    listed = ", ".join(f"{name}={size}" for name, size in sizes.items())
    raise InputError(f"no range of `dims` contains the sizes of the inputs: {listed}")
