"""Resampling of dimensions by tables that are computed in f64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir

from ....dialects.stepwell.movement import ResampleOp
from ....dialects.stepwell.resampling import transposed_taps
from ...build import dtype, emit, rank
from ..node import AtenNode

IntervalTable = tuple[np.ndarray, np.ndarray]
"""Indices and weights of the elements that each result along a dimension consists of: [term, result]."""


def by_tables(node: AtenNode, input: ir.Value, tables: Sequence[IntervalTable]) -> ir.Value:
    """Resamples the last dimensions."""
    for axis, table in enumerate(tables, rank(input) - len(tables)):
        kinds = np.int64, np.float64 if dtype(input) == np.float64 else np.float32
        stored = (
            node.importer.weight(f"{node.name}.{name}.{axis}", part.astype(kind))
            for name, part, kind in zip(("indices", "weights"), table, kinds, strict=True)
        )
        input = emit(ResampleOp, input, *stored, axis=axis)
    return input


def transposed_tables(tables: Sequence[IntervalTable], extents: Sequence[int]) -> list[IntervalTable]:
    """Returns the tables by which gradients of results become those of dimensions of the given extents."""
    return [transposed_taps(*table, extent) for table, extent in zip(tables, extents, strict=True)]
