"""Attention on Hopper's warp groups: simulated at small sizes; code and registers at real sizes."""

import re
import subprocess

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.attention import UNBOUNDED
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.runtime.cuda.assembler import find_assembler
from stepwell.targets.nvidia.ptx import emit_ptx
from stepwell.targets.nvidia.target import GpuTarget

from .test_attention import RNG, TOLERANCE, TYPES, attention, check, drawn, expected, near

HOPPER = "cuda:sm_90a"
SHAPES = [
    [(1, 2, 70, 64), (1, 1, 150, 64), (1, 1, 150, 64)],
    [(1, 1, 130, 128), (1, 1, 256, 128), (1, 1, 256, 128)],
    [(2, 1, 200, 40), (2, 1, 330, 40), (2, 1, 330, 72)],
    [(1, 5, 70, 64), (1, 5, 200, 64), (1, 5, 200, 64)],
]


@pytest.fixture
def on_hopper(simulated):
    def run(text, *arrays, **numbers):
        made = simulated(text, *arrays, start="graph", target=HOPPER, numbers=numbers)
        assert "wgmma.mma_async" in made.ptx
        return made

    return run


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("element", "shapes", "numbers"),
    [
        ("f16", SHAPES[0], {"down": 1, "keys": 64, "stages": 2}),
        ("bf16", SHAPES[1], {"down": 2, "keys": 128, "stages": 2}),
        ("f16", SHAPES[2], {"down": 3, "keys": 64, "stages": 3}),
        ("f16", SHAPES[3], {"down": 2, "keys": 64, "stages": 2, "blocks": 2}),
    ],
)
def test_sizes_and_shared_heads(on_hopper, element, shapes, numbers):
    arrays = drawn(shapes, element)
    made = on_hopper(attention(shapes, element), *arrays, **numbers)
    check(made, element, expected(arrays))


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("before", "after"), [(UNBOUNDED, 0), (UNBOUNDED, 70), (20, 10), (0, 0)], ids=["causal", "ahead", "near", "own"]
)
def test_bands_hide_distant_keys(on_hopper, before, after):
    """Two warp groups and several tiles, some of which lie completely inside the band."""
    shapes = [(1, 2, 200, 64), (1, 1, 300, 64), (1, 1, 300, 64)]
    arrays = drawn(shapes, "f16")
    made = on_hopper(attention(shapes, "f16", before=before, after=after), *arrays, down=2, keys=64)
    check(made, "f16", expected(arrays, near(200, 300, before, after)))


@pytest.mark.parametrize("before", [20, 80])
def test_queries_past_the_keys_attend_to_nothing(on_hopper, before):
    shapes = [(1, 1, 260, 64), (1, 1, 70, 64), (1, 1, 70, 64)]
    arrays = drawn(shapes, "f16")
    made = on_hopper(attention(shapes, "f16", before=before, after=0, zero_empty=True), *arrays, down=1)
    check(made, "f16", np.nan_to_num(expected(arrays, near(260, 70, before, 0))))


def test_a_causal_kernel_skips_the_keys_that_a_block_does_not_see(on_hopper):
    """A NaN in a skipped key would show in the result."""
    shapes = [(1, 1, 128, 128), (1, 1, 256, 128), (1, 1, 256, 128)]
    query, key, value = drawn(shapes, "f16")
    key[:, :, 128:] = np.nan
    value[:, :, 128:] = np.nan
    made = on_hopper(attention(shapes, "f16", after=0), query, key, value, down=2, keys=128)
    check(made, "f16", expected([query, key[:, :, :128], value[:, :, :128]], near(128, 128, 128, 0)))


def test_a_mask_of_bits(on_hopper):
    shapes, element = SHAPES[0], "f16"
    arrays, mask = drawn(shapes, element), (RNG.random((1, 1, 70, 150)) < 0.5).astype(np.int8)
    mask[0, 0, :, 3], mask[0, 0, 7] = 1, 0
    text = attention(shapes, element, "tensor<1x1x70x150xi1>", zero_empty=True)
    check(on_hopper(text, *arrays, mask), element, np.nan_to_num(expected(arrays, mask)))


def test_numbers_added(on_hopper):
    shapes, element = SHAPES[0], "bf16"
    arrays, mask = drawn(shapes, element), RNG.standard_normal((1, 2, 70, 150)).astype(TYPES[element])
    made = on_hopper(attention(shapes, element, "tensor<1x2x70x150xbf16>"), *arrays, mask)
    np.testing.assert_allclose(
        made.result.astype(np.float32), expected(arrays, mask.astype(np.float32)), atol=TOLERANCE[element]
    )


def code(length: int, depth: int, element: str, target: str = HOPPER, batch: int = 4, **attributes: int) -> str:
    """Returns the code of an attention of 16 heads."""
    shapes = [(batch, 16, length, depth)] * 3
    with compiler_context() as context:
        load_dialects(context)
        module = ir.Module.parse(attention(shapes, element, None, **attributes))
        route.run(module, state_for(target), "graph", "nvvm")
        (text,) = emit_ptx(module, GpuTarget.parse(target)).values()
    return text.decode()


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("length", "depth", "element", "attributes"),
    [
        (2048, 64, "bf16", {"after": 0}),
        (16384, 64, "f16", {}),
        (2048, 128, "f16", {}),
        (16384, 128, "bf16", {"after": 0}),
    ],
)
def test_code(length, depth, element, attributes, tmp_path):
    text = code(length, depth, element, **attributes)
    groups, registers = (3, 160) if depth == 64 else (2, 232)
    wanted = [
        f"wgmma.mma_async.sync.aligned.m64n128k16.f32.{element}.{element}",
        f".maxntid {128 * (groups + 1)}, 1, 1",
    ]
    wanted += [f"wgmma.mma_async.sync.aligned.m64n{depth}k16.f32.{element}.{element}", "mbarrier.try_wait.parity"]
    wanted += [f"setmaxnreg.inc.sync.aligned.u32 {registers};", "setmaxnreg.dec.sync.aligned.u32"]
    wanted += ["cp.async.bulk.tensor.", "mbarrier.arrive.expect_tx", "ex2.approx", "wgmma.wait_group.sync.aligned 1;"]
    for instruction in wanted:
        assert instruction in text
    for instruction in ("ldmatrix", "mma.sync", "cp.async.cg"):
        assert instruction not in text
    tool = find_assembler()
    if tool is None:
        pytest.skip("there is no ptxas to ask: install nvidia-cuda-nvcc")
    (tmp_path / "k.ptx").write_text(text)
    command = [str(tool), "-v", "-arch=sm_90a", str(tmp_path / "k.ptx"), "-o", str(tmp_path / "k.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True)
    said = report.stdout + report.stderr
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "serialized" not in said
    assert "setmaxnreg" not in said


@pytest.mark.parametrize("target", ["cuda:sm_89", "cuda:sm_100a"])
def test_other_gpus_have_no_warp_groups(target):
    text = code(2048, 64, "f16", target)
    assert "mma.sync.aligned.m16n8k16" in text
    assert "wgmma" not in text


def test_more_elements_than_32_bits_count():
    """The copy engine takes coordinates, and results are written to 64-bit addresses."""
    text = code(16384, 128, "bf16", batch=128)
    assert "wgmma.mma_async" in text
    assert re.search(r"mad\.wide\.u32|mul\.wide\.u32|mul\.lo\.s64", text)
