"""Products with weights of few bits in blocks: native code gives the results of the reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from stepwell.dialects.stepwell.blocks import PackedBlockMatmulOp

RNG = np.random.default_rng(0)


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("bits", "block", "rows", "columns", "panel", "rounds_input", "has_zeros"),
    [
        (2, 32, 1, 24, 16, False, True),
        (2, 32, 5, 16, 16, True, False),
        (4, 16, 9, 21, 24, True, True),
        (4, 16, 1, 17, 24, False, False),
        (4, 32, 5, 35, 48, True, False),
        (4, 32, 1, 70, 64, True, False),
        (4, 64, 5, 1, 1, True, True),
        (4, 32, 2, 33, 16, True, False),
        (2, 64, 6, 34, 16, False, True),
        (4, 32, 2, 16, 16, False, False),
        (4, 32, 4, 40, 16, False, True),
        (4, 128, 5, 24, 16, True, False),
        (8, 32, 1, 16, 16, True, True),
        (8, 32, 6, 16, 16, True, False),
        (8, 32, 3, 16, 16, False, True),
    ],
)
def test_every_number_of_bits(
    check_op: Callable,
    bits: int,
    block: int,
    rows: int,
    columns: int,
    panel: int,
    rounds_input: bool,
    has_zeros: bool,
) -> None:
    blocks = 3
    weight = RNG.integers(0, 256, blocks * block * columns * bits // 8, np.uint8)
    scales = RNG.random(blocks * columns).astype(np.float32)
    zeros = RNG.integers(0, 1 << bits, blocks * columns, np.uint8) if has_zeros else None
    if rounds_input:
        values = RNG.integers(-127, 128, (rows, blocks * block), np.int8)
        factors = RNG.random((rows, blocks)).astype(np.float32)
    else:
        values, factors = RNG.standard_normal((rows, blocks * block)).astype(np.float32), None
    sums = values.reshape(rows, blocks, block).sum(axis=-1, dtype=np.float32)
    sums = sums if factors is None else sums * factors
    operands = (values, sums, weight, scales, zeros, factors)
    size = np.abs(values.astype(np.float64)).sum(axis=-1).max() * (1 << bits)
    check_op(PackedBlockMatmulOp, *operands, columns=columns, panel=panel, bits=bits, tolerance=1e-6 * float(size))


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_zeros_of_floats(check_op: Callable, rows: int, kind: type) -> None:
    values = RNG.integers(-127, 128, (rows, 64), np.int8)
    factors, zeros = RNG.random((rows, 2)).astype(np.float32), (15 * RNG.random(2 * 40)).astype(kind)
    weight, scales = RNG.integers(0, 256, 64 * 40 // 2, np.uint8), RNG.random(2 * 40).astype(np.float32)
    sums = values.reshape(rows, 2, 32).sum(axis=-1, dtype=np.float32) * factors
    operands = (values, sums, weight, scales, zeros, factors)
    check_op(PackedBlockMatmulOp, *operands, columns=40, panel=16, bits=4, tolerance=0.1)


def test_scales_of_16_bits(check_op: Callable) -> None:
    values = RNG.standard_normal((2, 64)).astype(np.float32)
    weight, scales = RNG.integers(0, 256, 64 * 24 // 2, np.uint8), RNG.random(2 * 24).astype(np.float16)
    sums = values.reshape(2, 2, 32).sum(axis=-1)
    check_op(
        PackedBlockMatmulOp, values, sums, weight, scales, None, None, columns=24, panel=24, bits=4, tolerance=1e-4
    )
