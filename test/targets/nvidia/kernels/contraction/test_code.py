"""The code of contractions: it has the intended instructions, ptxas accepts it, and no registers spill."""

import pytest
from stepwell.targets.nvidia.kernels.contraction.tiles import Problem, Tiling

from .conftest import Product, ptx, spills

LARGE = Problem(1, 1024, 1024, 1024)
F32, F16, BF16, I8 = ("f32",) * 3, ("f16",) * 3, ("bf16",) * 3, ("i8", "i8", "i32")
E4M3, E5M2 = ("f8E4M3FN", "f8E4M3FN", "f32"), ("f8E5M2", "f8E5M2", "f32")
FMA = Tiling("fma", 128, 128, 16, 32, 64, 3)
MMA = Tiling("mma", 128, 128, 32, 64, 32, 3)
WGMMA = Tiling("wgmma", 128, 128, 64, 64, 128, 4)
BYTES = Tiling("wgmma", 128, 128, 128, 64, 128, 4)
LARGEST = Tiling("wgmma", 128, 256, 64, 64, 256, 4)
PRODUCTS = {
    "fma": Product(LARGE, FMA, "f32", F32),
    "fma by depth": Product(LARGE, FMA, "f32", F32, rhs_transposed=False),
    "fma of one tile": Product(Problem(1, 1000, 60, 27), Tiling("fma", 16, 64, 32, 16, 32, 3), "f32", F32),
    "mma f16": Product(LARGE, Tiling("mma", 128, 256, 64, 64, 64, 3), "f16", F16),
    "mma tf32": Product(LARGE, MMA, "tf32", F32),
    "mma i8": Product(LARGE, Tiling("mma", 128, 128, 64, 64, 32, 3), "s8.s8", I8),
    "mma e4m3": Product(LARGE, Tiling("mma", 128, 128, 64, 64, 32, 3), "f8E4M3FN", E4M3),
    "mma e5m2": Product(LARGE, Tiling("mma", 128, 128, 64, 64, 32, 3), "f8E5M2", E5M2, rhs_transposed=False),
    "wgmma bf16": Product(LARGE, LARGEST, "bf16", BF16, rhs_transposed=False, blocks=32),
    "wgmma bf16 by rows": Product(LARGE, LARGEST, "bf16", BF16, blocks=32),
    "wgmma f16 by rows": Product(LARGE, WGMMA, "f16", F16, lhs_transposed=True, blocks=64),
    "wgmma tf32": Product(LARGE, Tiling("wgmma", 128, 128, 32, 64, 128, 4), "tf32", F32, rhs_transposed=False),
    "wgmma i8": Product(LARGE, BYTES, "s8.s8", I8, rhs_transposed=False),
    "wgmma e4m3": Product(LARGE, BYTES, "f8E4M3FN", E4M3, rhs_transposed=False),
    "wgmma e5m2": Product(LARGE, BYTES, "f8E5M2", E5M2, rhs_transposed=False),
}
INSTRUCTIONS = {
    "fma": ["cp.async.cg.shared.global", "ld.shared.v4", "fma.rn.f32", "st.global.v4"],
    "fma by depth": ["cp.async.cg.shared.global", "ld.shared.v4", "fma.rn.f32"],
    "fma of one tile": ["cp.async.cg.shared.global", "fma.rn.f32"],
    "mma f16": [
        "cp.async.cg.shared.global",
        "cp.async.wait_group 1",
        "ldmatrix.sync.aligned.m8n8.x4.shared",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
        "st.global.v4",
    ],
    "mma tf32": ["cvt.rna.tf32.f32", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"],
    "mma i8": ["mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"],
    "mma e4m3": [".version 8.4", "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32"],
    "mma e5m2": ["mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"],
    "wgmma bf16": [
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
        "mbarrier.try_wait.parity",
        "setmaxnreg.dec.sync.aligned.u32 40",
        "setmaxnreg.inc.sync.aligned.u32 232",
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16",
        "wgmma.wait_group.sync.aligned 1",
        "st.global.v4",
    ],
    "wgmma bf16 by rows": ["wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", "p, 1, 1, 0, 1;"],
    "wgmma f16 by rows": ["wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", "p, 1, 1, 1, 1;"],
    "wgmma tf32": ["wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32"],
    "wgmma i8": ["wgmma.mma_async.sync.aligned.m64n128k32.s32.s8.s8"],
    "wgmma e4m3": [".version 8.0", "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3"],
    "wgmma e5m2": ["wgmma.mma_async.sync.aligned.m64n128k32.f32.e5m2.e5m2"],
}


@pytest.mark.few(6)
@pytest.mark.parametrize("name", PRODUCTS)
def test_code(name, assembled, tmp_path):
    product = PRODUCTS[name]
    architecture = "sm_90a" if product.tiling.method == "wgmma" else "sm_89" if "f8" in product.compute else "sm_80"
    text = ptx(product, architecture)
    for instruction in INSTRUCTIONS[name]:
        assert instruction in text
    report = assembled(text, architecture, tmp_path)
    assert spills(report) == 0
    # ptxas reports if it has to wait for every product separately.
    assert "serialized" not in report
