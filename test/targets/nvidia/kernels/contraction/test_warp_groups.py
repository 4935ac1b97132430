"""Products by wgmma on the simulator: the copy engine's boxes, the ring of barriers, and blocks of several tiles."""

import numpy as np
import pytest
from stepwell.runtime.cuda.errors import PtxError, SimulationError
from stepwell.targets.nvidia.kernels.contraction.tiles import Problem, Tiling

from .conftest import Product, run

F16, BF16, F32, I8 = ("f16", "f16", "f32"), ("bf16", "bf16", "bf16"), ("f32",) * 3, ("i8", "i8", "i32")
WAYS = [(False, False), (False, True), (True, False), (True, True)]


def error(product):
    got, want = run(product, "sm_90a")
    return np.abs(got - want).max() / np.abs(want).max()


@pytest.mark.few(2)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
def test_short_floats(lhs_transposed, rhs_transposed):
    tiling = Tiling("wgmma", 128, 64, 64, 64, 64, 3)
    assert error(Product(Problem(1, 128, 64, 192), tiling, "f16", F16, lhs_transposed, rhs_transposed)) < 1e-6


@pytest.mark.few(2)
@pytest.mark.parametrize(("lhs_transposed", "rhs_transposed"), WAYS)
def test_remainders_batches_and_blocks_of_several_tiles(lhs_transposed, rhs_transposed):
    tiling = Tiling("wgmma", 128, 64, 64, 64, 64, 3)
    product = Product(Problem(2, 136, 72, 104), tiling, "f16", F16, lhs_transposed, rhs_transposed, blocks=3)
    assert error(product) < 1e-6


def test_the_largest_tiles():
    tiling = Tiling("wgmma", 128, 256, 64, 64, 256, 4)
    assert error(Product(Problem(1, 128, 256, 320), tiling, "bf16", BF16, rhs_transposed=False)) < 5e-3


def test_tf32():
    tiling = Tiling("wgmma", 64, 64, 32, 64, 64, 3)
    assert error(Product(Problem(1, 64, 64, 96), tiling, "tf32", F32, rhs_transposed=False)) < 2e-3


def test_bytes():
    tiling = Tiling("wgmma", 64, 128, 128, 64, 128, 3)
    got, want = run(Product(Problem(1, 64, 128, 256), tiling, "s8.s8", I8, rhs_transposed=False), "sm_90a")
    assert (got == want).all()


@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2"])
def test_floats_of_8_bits(kind):
    tiling = Tiling("wgmma", 64, 64, 128, 64, 64, 3)
    assert error(Product(Problem(1, 72, 48, 160), tiling, kind, (kind, kind, "f32"), rhs_transposed=False)) < 1e-6


@pytest.mark.parametrize(
    ("without", "error", "reason"),
    [
        ("wgmma.wait_group.sync.aligned 0;", PtxError, "may be incomplete: wgmma.wait_group is missing"),
        (
            "wgmma.wait_group.sync.aligned 1;",
            SimulationError,
            "may still read, with no wgmma.wait_group",
        ),
        ("wgmma.fence.sync.aligned;", PtxError, "wgmma.fence is missing"),
        ("wgmma.commit_group.sync.aligned;", PtxError, "may be incomplete"),
        ("fence.mbarrier_init.release.cluster;", SimulationError, "no fence.mbarrier_init follows"),
    ],
)
def test_missing_instructions_are_found(without, error, reason):
    product = Product(Problem(1, 64, 64, 320), Tiling("wgmma", 64, 64, 64, 64, 64, 3), "f16", F16)
    with pytest.raises(error, match=reason):
        run(product, "sm_90a", lambda text: text.replace(without, ""))
