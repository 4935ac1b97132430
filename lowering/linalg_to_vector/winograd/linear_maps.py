"""Products of small constant matrices and a few vectors; common parts of rows or columns are computed once.

Two columns that differ only in signs share the sum and the difference of their vectors:

    [1 1  1  1]       s = b + c; d = b - c
    [0 a -a  0]  -->  a + s + e; a * d

and two rows that differ only in signs are the sum and the difference of two parts:

    [0 p  q 1]        e = q c + d; o = b
    [0 -p q 1]   -->  e + p o; e - p o
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, vector

from ...builders.generics import splat

Term = tuple[float, ir.Value]


class LinearMap:
    """A matrix to apply to vectors; every row must have a nonzero element."""

    def __init__(self, matrix: np.ndarray) -> None:
        """Finds the common parts of rows and of columns of `matrix`."""
        self._matrix = matrix
        self._rows, self._columns = _pairs(matrix), dict(_pairs(matrix.T))

    def apply(self, values: Sequence[ir.Value]) -> list[ir.Value]:
        """Returns the matrix times the vectors `values`, as vectors."""
        terms = self._terms(values)
        results: dict[int, ir.Value] = {}
        for row, partner in self._rows:
            even = [term for term in terms[row] if term in terms[partner]]
            odd = [term for term in terms[row] if term not in even]
            scale = odd[-1][0]
            base, offset = _sum(even), _sum([(factor / scale, value) for factor, value in odd])
            results[row], results[partner] = _add(base, scale, offset), _add(base, -scale, offset)
        return [results[row] if row in results else _sum(terms[row]) for row in range(len(self._matrix))]

    def _terms(self, values: Sequence[ir.Value]) -> list[list[Term]]:
        """Returns the nonzero factors of each row with their vectors, which include common sums and differences."""
        rows: list[list[Term]] = [[] for _ in self._matrix]
        for column, value in enumerate(values):
            if column in self._columns.values():
                continue
            other = self._columns.get(column)
            combined = None if other is None else (arith.addf(value, values[other]), arith.subf(value, values[other]))
            for row, factor in enumerate(self._matrix[:, column]):
                if factor and (combined is None or other is None):
                    rows[row].append((float(factor), value))
                elif factor and combined is not None:
                    rows[row].append((float(factor), combined[int(self._matrix[row, other] != factor)]))
        return rows


def _pairs(matrix: np.ndarray) -> list[tuple[int, int]]:
    """Returns pairs of rows that are equal except for some signs."""
    found: list[tuple[int, int]] = []
    for first in range(len(matrix)):
        for second in range(first + 1, len(matrix)):
            left, right = matrix[first], matrix[second]
            is_free = not any({first, second} & set(pair) for pair in found)
            differ = (left != right) & (left == -right)
            same = (left == right) & (left != 0)
            if is_free and (abs(left) == abs(right)).all() and differ.any() and same.any():
                found.append((first, second))
    return found


def _sum(terms: Sequence[Term]) -> ir.Value:
    """Returns the sum of the products; a term that needs no multiplication comes first."""
    first = next((term for term in terms if term[0] == 1), terms[0])
    factor, value = first
    total = value if factor == 1 else arith.mulf(splat(factor, value.type), value)
    for term in terms:
        if term is not first:
            total = _add(total, *term)
    return total


def _add(total: ir.Value, factor: float, value: ir.Value) -> ir.Value:
    """Returns `total + factor * value`."""
    if factor in (1, -1):
        return arith.addf(total, value) if factor == 1 else arith.subf(total, value)
    return vector.fma(splat(factor, value.type), value, total)
