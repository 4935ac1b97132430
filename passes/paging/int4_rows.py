"""Rows of keys and values as numbers of four bits, two in a byte, with a scale for each row.

Rows are rotated first: in a rotated row, an element that is much greater than the others is spread over all of them, so
that few bits hold the row (Ashkboos et al., "QuaRot", NeurIPS 2024). Products of rotated queries with rotated keys are
those of queries with keys, and the weighted sum of rotated values is rotated back.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from ...dialects.core import spec_of
from ...dialects.stepwell.contraction import MatmulOp
from ...dialects.stepwell.elementwise import AddOp, CastOp, DivOp, FloorOp, MulOp
from ...dialects.stepwell.movement import SliceOp
from ...dialects.stepwell.paging import MIDDLE
from ..graph.values import constant, dtype_of, scalar_like
from .int8_rows import wide


def rotation_of(depth: int) -> np.ndarray:
    """Returns an orthogonal matrix f64[depth, depth], whose elements have about the same magnitude.

    It is a Hadamard matrix of the greatest power of 2 that divides the depth, times a cosine transform of the rest. Its
    rows have random signs, as else a row whose elements are equal would become one great element.
    """
    power = depth & -depth
    made = np.ones((1, 1))
    while len(made) < power:
        made = np.block([[made, made], [made, -made]]) / np.sqrt(2)
    rest = depth // power
    places = np.arange(rest)
    cosines = np.cos(np.pi * (places + 0.5) * places[:, None] / rest) * np.sqrt(2 / rest)
    cosines[0] /= np.sqrt(2)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (depth, 1))
    return signs * np.kron(cosines, made)


def rotated(rows: ir.Value, depth: int, back: bool = False) -> ir.Value:
    """Returns rows [.., depth] times the rotation, or times its inverse."""
    matrix = rotation_of(depth).astype(dtype_of(rows))
    return MatmulOp(rows, constant(np.ascontiguousarray(matrix.T if back else matrix))).result


def in_int4(rows: ir.Value, scales: ir.Value, depth: int) -> ir.Value:
    """Returns `round(rows / scales + 7.5)`, ui8[.., depth / 2]: the first half of a row is in the lower bits."""
    quotient = DivOp(wide(rows), scales).result
    # The sum with 8 is between 0.5 and 15.5 but for an error of rounding, and floor rounds what is between them.
    numbers = FloorOp(AddOp(quotient, scalar_like(MIDDLE + 0.5, quotient))).result
    low, high = (_half(numbers, start, start + depth // 2) for start in (0, depth // 2))
    return CastOp(AddOp(low, MulOp(high, scalar_like(16, high))), dtype=np.dtype(np.uint8)).result


def _half(rows: ir.Value, start: int, stop: int) -> ir.Value:
    *outer, _ = spec_of(rows).shape
    starts, stops = (*[0] * len(outer), start), (*outer, stop)
    return SliceOp(rows, starts=starts, stops=stops, steps=(1,) * len(starts)).result
