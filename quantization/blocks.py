"""Weights in blocks along the reduction, as MatMulNBits takes them: to nearest, or by GPTQ or AWQ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_DAMPING = 0.01
"""Fraction of the mean of the diagonal that GPTQ adds to the diagonal, as in the reference implementation."""
_GPTQ_COLUMNS = 128
"""Rows whose errors are collected, as in the reference implementation (`blocksize`): a matter of speed only."""
_SHRINKS = np.linspace(0.95, 0.6, 8)
"""Fractions of a block's range that `by_least_error` tries."""
_AWQ_EXPONENTS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True)
class BlockWeights:
    """A matrix [reduction, channels] in few bits.

    Attributes:
        codes: unsigned numbers [blocks * block, channels]; rows beyond the reduction stand for 0.
        scales: the scale of each block [blocks, channels].
        zero_points: the zero point of each block [blocks, channels].
        bits: width of a number.
        block: rows in a block.
        rows: the reduction.
    """

    codes: np.ndarray
    scales: np.ndarray
    zero_points: np.ndarray
    bits: int
    block: int
    rows: int

    @property
    def values(self) -> np.ndarray:
        """The matrix that the numbers stand for."""
        each = (np.repeat(item, self.block, axis=0) for item in (self.scales, self.zero_points))
        scales, zero_points = each
        return ((self.codes.astype(np.float32) - zero_points) * scales)[: self.rows]

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers, the scales and the zero points."""
        return (self.codes.size * self.bits + self.zero_points.size * self.bits) // 8 + self.scales.nbytes


@dataclass(frozen=True)
class _Grid:
    """The numbers that weights are rounded to."""

    bits: int
    is_symmetric: bool

    @property
    def most(self) -> int:
        return (1 << self.bits) - 1

    def scales(self, block: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns scale and zero point of each column of a block."""
        middle = 1 << (self.bits - 1)
        if self.is_symmetric:
            # The greatest magnitude is mapped to the end of the grid that has one more number.
            largest = np.take_along_axis(block, np.abs(block).argmax(axis=0)[None], axis=0)[0]
            scale = -largest / middle
            return np.where(scale == 0, 1.0, scale).astype(np.float32), np.full(block.shape[1], float(middle))
        low, high = np.minimum(block.min(axis=0), 0.0), np.maximum(block.max(axis=0), 0.0)
        scale = ((high - low) / self.most).astype(np.float32)
        scale = np.where(scale == 0, np.float32(1.0), scale)
        return scale, np.clip(np.rint(-low / scale), 0, self.most)

    def codes(self, values: np.ndarray, scale: np.ndarray, zero_point: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(values / scale) + zero_point, 0, self.most)


def to_nearest(matrix: np.ndarray, bits: int, block: int, is_symmetric: bool) -> BlockWeights:
    """Rounds each weight to the nearest number of its block's grid."""
    grid, rows = _Grid(bits, is_symmetric), len(matrix)
    blocks = -(-rows // block)
    padded = np.zeros((blocks * block, matrix.shape[1]), np.float32)
    padded[:rows] = matrix
    scales, zero_points = (np.empty((blocks, matrix.shape[1]), np.float32) for _ in range(2))
    codes = np.empty(padded.shape, np.uint8)
    for index in range(blocks):
        part = slice(index * block, (index + 1) * block)
        scales[index], zero_points[index] = grid.scales(padded[part])
        codes[part] = grid.codes(padded[part], scales[index], zero_points[index])
    return BlockWeights(codes, scales, zero_points, bits, block, rows)


def by_least_error(matrix: np.ndarray, bits: int, block: int, is_symmetric: bool) -> BlockWeights:
    """Rounds each weight to the nearest number of a grid that may clip: the one with the least square error."""
    grid, found = _Grid(bits, is_symmetric), to_nearest(matrix, bits, block, is_symmetric)
    padded = np.zeros((len(found.scales) * block, matrix.shape[1]), np.float32)
    padded[: len(matrix)] = matrix
    parts = padded.reshape(len(found.scales), block, -1)
    codes = found.codes.reshape(parts.shape).copy()
    scales, zero_points = found.scales.copy(), found.zero_points.copy()
    least = _square_errors(parts, codes, scales, zero_points)
    for shrink in _SHRINKS:
        smaller = (found.scales * shrink).astype(np.float32)
        points = found.zero_points
        if not is_symmetric:
            low, high = (item * shrink for item in (parts.min(axis=1), parts.max(axis=1)))
            middle = grid.most / 2 - (low + high) / (2 * smaller)
            points = np.clip(np.rint(middle), 0, grid.most).astype(np.float32)
        tried = grid.codes(parts, smaller[:, None], points[:, None])
        error = _square_errors(parts, tried, smaller, points)
        is_better = error < least
        codes = np.where(is_better[:, None], tried, codes)
        scales, zero_points = np.where(is_better, smaller, scales), np.where(is_better, points, zero_points)
        least = np.minimum(least, error)
    return BlockWeights(codes.reshape(padded.shape).astype(np.uint8), scales, zero_points, bits, block, len(matrix))


def _square_errors(parts: np.ndarray, codes: np.ndarray, scales: np.ndarray, zero_points: np.ndarray) -> np.ndarray:
    values = (codes.astype(np.float32) - zero_points[:, None]) * scales[:, None]
    return ((values - parts) ** 2).sum(axis=1)


def by_gptq(matrix: np.ndarray, gram: np.ndarray, bits: int, block: int, is_symmetric: bool) -> BlockWeights:
    """Rounds row after row, and compensates each row's error in the rows after it (GPTQ, algorithm 1).

    Args:
        matrix: the weights [reduction, channels].
        gram: sum of products of activations, x^T x [reduction, reduction].
        bits: width of a number.
        block: rows in a block.
        is_symmetric: whether blocks have no zero point.
    """
    grid, rows = _Grid(bits, is_symmetric), len(matrix)
    result = to_nearest(matrix, bits, block, is_symmetric)
    left = matrix.astype(np.float64).copy()
    hessian = gram.astype(np.float64).copy()
    dead = np.diag(hessian) <= 0
    hessian[dead, dead] = 1.0
    left[dead] = 0.0
    hessian[np.diag_indices(rows)] += _DAMPING * np.diag(hessian).mean()
    factor = np.linalg.cholesky(np.linalg.inv(hessian)).T  # upper: inverse = factor^T factor
    codes, scales, zero_points = result.codes.copy(), result.scales.copy(), result.zero_points.copy()
    for start in range(0, rows, _GPTQ_COLUMNS):
        end = min(start + _GPTQ_COLUMNS, rows)
        errors = np.zeros((end - start, matrix.shape[1]))
        for row in range(start, end):
            index = row // block
            if row % block == 0:
                scales[index], zero_points[index] = grid.scales(left[row : row + block])
            codes[row] = grid.codes(left[row], scales[index], zero_points[index])
            value = (codes[row] - zero_points[index]) * scales[index]
            error = (left[row] - value) / factor[row, row]
            left[row + 1 : end] -= np.outer(factor[row, row + 1 : end], error)
            errors[row - start] = error
        left[end:] -= factor[start:end, end:].T @ errors
    last = zero_points[-1].astype(np.uint8)
    codes[rows:] = last
    return BlockWeights(codes, scales, zero_points, bits, block, rows)


def awq_factors(matrix: np.ndarray, gram: np.ndarray, means: np.ndarray, bits: int, block: int) -> np.ndarray:
    """Searches the factor of each row with the least error of the product (AWQ).

    Args:
        matrix: the weights [reduction, channels].
        gram: sum of products of activations, x^T x.
        means: mean magnitude of each channel of the activation.
        bits: width of a number.
        block: rows in a block.

    Returns:
        The factors [reduction]; the activation is divided by them.
    """
    known = np.maximum(means, 1e-6).astype(np.float64)
    best, least = np.ones(len(matrix)), np.inf
    for exponent in _AWQ_EXPONENTS:
        factors = known**exponent
        factors /= np.sqrt(factors.max() * factors.min())
        rounded = to_nearest(matrix * factors[:, None], bits, block, is_symmetric=False).values / factors[:, None]
        loss = product_error(rounded - matrix, gram)
        if loss < least:
            best, least = factors, loss
    return best.astype(np.float32)


def product_error(difference: np.ndarray, gram: np.ndarray) -> float:
    """Returns the sum of squares of x @ difference, from x^T x."""
    return float((difference * (gram @ difference)).sum())
