"""Products with weights of few bits: references, and the operands that are refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from stepwell.dialects.core import OpError
from stepwell.dialects.stepwell.blocks import BlockMatmulOp, PackedBlockMatmulOp, numbers_of
from stepwell.dialects.types import TensorSpec

F32, U8, I8 = np.dtype(np.float32), np.dtype(np.uint8), np.dtype(np.int8)
BRAIN = np.dtype(ml_dtypes.bfloat16)


def test_numbers_are_stored_lowest_bits_first() -> None:
    data = np.array([[0x21, 0x43]], np.uint8)
    np.testing.assert_array_equal(numbers_of(data, 4), [[1, 2, 3, 4]])
    np.testing.assert_array_equal(numbers_of(data, 2), [[1, 0, 2, 0, 3, 0, 0, 1]])
    np.testing.assert_array_equal(numbers_of(data, 8), data)


def test_product_of_every_element() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((3, 40)).astype(np.float32), rng.integers(0, 256, (5, 2, 16), np.uint8)
    scales, zeros = rng.random((5, 2)).astype(np.float32), rng.integers(0, 16, (5, 2), np.uint8)
    want = np.zeros((3, 5))
    for row, column, k in np.ndindex(3, 5, 40):
        byte = weight[column, k // 32, k % 32 // 2]
        number = float(byte >> 4 if k % 2 else byte & 15) - zeros[column, k // 32]
        want[row, column] += x[row, k] * number * scales[column, k // 32]
    got = BlockMatmulOp.reference(x, weight, scales, zeros, bits=4, rounds_input=False)
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_rounded_rows_are_near() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((3, 64)).astype(np.float32), rng.integers(0, 256, (5, 2, 16), np.uint8)
    x[1] = 0
    scales = np.ones((5, 2), np.float32)
    near, exact = (
        BlockMatmulOp.reference(x, weight, scales, None, bits=4, rounds_input=rounds) for rounds in (True, False)
    )
    np.testing.assert_allclose(near, exact, atol=0.02 * np.abs(exact).max())
    assert (near != exact).any()
    assert (near[1] == 0).all()


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("must be one of 2, 4, 8", {"bits": 3}),
        ("2 blocks of 32 elements do not hold 100 elements", {"input": TensorSpec((3, 100), F32)}),
        ("operand 'scales' must be floats", {"scales": TensorSpec((5, 3), F32)}),
        ("operand 'zeros' must be", {"zeros": TensorSpec((5,), U8)}),
    ],
)
def test_operands_that_do_not_match(message: str, changed: dict) -> None:
    given = {"input": TensorSpec((3, 64), F32), "weight": TensorSpec((5, 2, 16), U8)}
    given |= {"scales": TensorSpec((5, 2), F32), "zeros": None, "bits": 4, "rounds_input": False}
    with pytest.raises(OpError, match=message):
        BlockMatmulOp.infer(**(given | changed))


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        ("operand 'sums' belongs to rows of f32 or i8", {"sums": None}),
        ("operand 'sums' belongs to rows of f32 or i8", {"input": TensorSpec((3, 64), BRAIN), "factors": None}),
        ("the operands of rows do not match", {"factors": TensorSpec((3, 1), F32)}),
        ("attribute 'spread' belongs to rows of i8", {"spread": True, "factors": None}),
        ("attribute 'spread' belongs to rows of i8", {"spread": True, "bits": 8}),
    ],
)
def test_packed_operands_that_do_not_match(message: str, changed: dict) -> None:
    rows = {"input": TensorSpec((3, 64), I8), "sums": TensorSpec((3, 2), F32), "factors": TensorSpec((3, 2), F32)}
    weight = {"weight": TensorSpec((64 * 16 // 2,), U8), "scales": TensorSpec((32,), F32), "zeros": None}
    given = rows | weight | {"columns": 16, "panel": 16, "bits": 4, "spread": False}
    assert PackedBlockMatmulOp.infer(**given) == TensorSpec((3, 16), F32)
    with pytest.raises(OpError, match=message):
        PackedBlockMatmulOp.infer(**(given | changed))
