"""Products of matrices on the simulator: every instruction, every layout of operands, every kind of remainder."""

import numpy as np
import pytest
from stepwell.targets.nvidia.kernels.contraction.tiles import Problem, Tiling

from .conftest import Product, run

FMA = Tiling("fma", 32, 64, 16, 16, 32, 3)
MMA = Tiling("mma", 32, 64, 32, 16, 32, 3)
WAYS = [(False, False), (False, True), (True, False), (True, True)]
F32, F16, BF16, I8 = ("f32",) * 3, ("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("i8", "i8", "i32")
# Whole tiles; remainders with 16-byte accesses; remainders without alignment.
SIZES = [Problem(1, 64, 64, 64), Problem(2, 24, 40, 40), Problem(1, 21, 27, 45)]


def error(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


@pytest.mark.few(4)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
@pytest.mark.parametrize("problem", SIZES, ids=str)
def test_exact_float32(problem, lhs_transposed, rhs_transposed):
    assert error(*run(Product(problem, FMA, "f32", F32, lhs_transposed, rhs_transposed))) < 1e-6


@pytest.mark.few(4)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
@pytest.mark.parametrize("problem", SIZES, ids=str)
def test_short_floats_are_summed_up_exactly(problem, lhs_transposed, rhs_transposed):
    assert error(*run(Product(problem, MMA, "f16", F16, lhs_transposed, rhs_transposed))) < 1e-6


def test_bfloat16():
    assert error(*run(Product(SIZES[1], MMA, "bf16", BF16))) < 1e-6


@pytest.mark.few(2)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
def test_float32_as_tf32(lhs_transposed, rhs_transposed):
    tiling = Tiling("mma", 32, 64, 16, 16, 32, 3)
    product = Product(SIZES[1], tiling, "tf32", F32, lhs_transposed, rhs_transposed)
    assert error(*run(product)) < 1e-3


@pytest.mark.few(2)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
def test_float32_is_rounded_on_its_way_to_shared_memory(lhs_transposed, rhs_transposed):
    assert error(*run(Product(SIZES[1], MMA, "bf16", F32, lhs_transposed, rhs_transposed))) < 1e-2


@pytest.mark.few(2)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
def test_bytes_are_multiplied_exactly_and_transposed_if_stored_along_rows(lhs_transposed, rhs_transposed):
    tiling = Tiling("mma", 32, 64, 64, 16, 32, 3)
    got, want = run(Product(SIZES[1], tiling, "s8.s8", I8, lhs_transposed, rhs_transposed))
    assert (got == want).all()


@pytest.mark.few(3)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_floats_of_8_bits_are_summed_up_exactly(kind, lhs_transposed, rhs_transposed):
    tiling = Tiling("mma", 32, 64, 64, 16, 32, 3)
    product = Product(SIZES[1], tiling, kind, (kind, kind, "f32"), lhs_transposed, rhs_transposed)
    assert error(*run(product, "sm_89")) < 1e-6


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "tiling",
    [
        Tiling("fma", 16, 64, 32, 16, 32, 3),
        Tiling("fma", 128, 128, 16, 32, 64, 3),
        Tiling("fma", 64, 128, 16, 32, 64, 2),
    ],
    ids=lambda tiling: f"{tiling.rows}x{tiling.columns}",
)
def test_tiles_of_fmas(tiling):
    assert error(*run(Product(Problem(1, 66, 132, 40), tiling, "f32", F32))) < 1e-6


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "tiling",
    [
        Tiling("mma", 16, 64, 64, 16, 32, 4),
        Tiling("mma", 128, 128, 64, 64, 64, 3),
        Tiling("mma", 128, 64, 32, 32, 32, 2),
    ],
    ids=lambda tiling: f"{tiling.rows}x{tiling.columns}",
)
def test_tiles_of_tensor_cores(tiling):
    assert error(*run(Product(Problem(1, 72, 136, 72), tiling, "f16", F16))) < 1e-6
