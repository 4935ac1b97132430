"""Matrix instructions of a warp, compared element by element with the layouts in the PTX ISA."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from stepwell.runtime.cuda.errors import SimulationError
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate

from .conftest import kernel

Place = Callable[[int, int, int], tuple[int, int]]
WARPS = 2


def a_of_16_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i % 4 < 2 else g + 8), t * 2 + (i & 1) + (0 if i < 4 else 8)


def a_of_32_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i in (0, 2) else g + 8), (t if i in (0, 1) else t + 4)


def a_of_8_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 4 or 8 <= i < 12 else g + 8), t * 4 + (i & 3) + (0 if i < 8 else 16)


def b_of_16_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return t * 2 + (i & 1) + (0 if i < 2 else 8), g


def b_of_32_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return (t if i == 0 else t + 4), g


def b_of_8_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return t * 4 + (i & 3) + (0 if i < 4 else 16), g


def c_of_32_bits(g: int, t: int, i: int) -> tuple[int, int]:
    return (g if i < 2 else g + 8), t * 2 + (i & 1)


PLACES = {8: (a_of_8_bits, b_of_8_bits), 16: (a_of_16_bits, b_of_16_bits), 32: (a_of_32_bits, b_of_32_bits)}


def fragments(matrices: np.ndarray, place: Place, per_lane: int) -> np.ndarray:
    """Returns the fragment of each warp's matrix that each lane holds, as 32-bit registers."""
    held = np.empty((len(matrices), 32, per_lane), matrices.dtype)
    for lane in range(32):
        for i in range(per_lane):
            row, column = place(lane >> 2, lane & 3, i)
            held[:, lane, i] = matrices[:, row, column]
    return held.view(np.uint32)


def multiplied(instruction: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Runs one instruction on fragments, one warp per fragment, and returns the registers of D."""
    counts = [array.shape[2] for array in (a, b, c)]
    names = [[f"%{letter}{place}" for place in range(count)] for letter, count in zip("abc", counts, strict=True)]
    body = "".join(f".reg .b32 {', '.join(group)};\n" for group in names)
    for place, group in enumerate(names):
        body += f"mad.wide.u32 %rd{place}, %r0, {4 * len(group)}, %rd{place};\n"
        body += "".join(f"ld.global.b32 {name}, [%rd{place}+{4 * at}];\n" for at, name in enumerate(group))
    listed = [f"{{{', '.join(group)}}}" for group in names]
    body += f"{instruction} {listed[2]}, {listed[0]}, {listed[1]}, {listed[2]};\n"
    body += f"mad.wide.u32 %rd3, %r0, {4 * counts[2]}, %rd3;\n"
    body += "".join(f"st.global.b32 [%rd3+{4 * at}], {name};\n" for at, name in enumerate(names[2]))
    output = np.zeros_like(c)
    simulate(kernel(body, 4), "k", GridGeometry((1, 1, 1), (32 * WARPS, 1, 1)), [a, b, c, output], [3])
    return output


@pytest.mark.parametrize(
    ("shape", "kinds", "dtype", "result"),
    [
        ("m16n8k16", "f32.f16.f16.f32", np.float16, np.float32),
        ("m16n8k16", "f16.f16.f16.f16", np.float16, np.float16),
        ("m16n8k8", "f32.f16.f16.f32", np.float16, np.float32),
        ("m16n8k16", "f32.bf16.bf16.f32", ml_dtypes.bfloat16, np.float32),
        ("m16n8k8", "f32.tf32.tf32.f32", np.float32, np.float32),
        ("m16n8k4", "f32.tf32.tf32.f32", np.float32, np.float32),
        ("m16n8k32", "s32.s8.s8.s32", np.int8, np.int32),
        ("m16n8k32", "s32.u8.u8.s32", np.uint8, np.int32),
        ("m16n8k16", "s32.s8.s8.s32", np.int8, np.int32),
        ("m16n8k32", "f32.e4m3.e4m3.f32", ml_dtypes.float8_e4m3fn, np.float32),
        ("m16n8k32", "f32.e5m2.e5m2.f32", ml_dtypes.float8_e5m2, np.float32),
    ],
)
def test_a_product_of_fragments(shape: str, kinds: str, dtype: type, result: type) -> None:
    random = np.random.default_rng(5)
    inner, low = int(shape.split("k")[1]), 0 if dtype is np.uint8 else -8
    a = random.integers(low, 9, (WARPS, 16, inner)).astype(dtype)
    b = random.integers(low, 9, (WARPS, inner, 8)).astype(dtype)
    c = random.integers(-50, 50, (WARPS, 16, 8)).astype(result)
    place_a, place_b = PLACES[8 * a.dtype.itemsize]
    got = multiplied(
        f"mma.sync.aligned.{shape}.row.col.{kinds}",
        fragments(a, place_a, 16 * inner // 32),
        fragments(b, place_b, inner * 8 // 32),
        fragments(c, c_of_32_bits, 4),
    )
    product = a.astype(np.float64) @ b.astype(np.float64) + c
    np.testing.assert_array_equal(got, fragments(product.astype(result), c_of_32_bits, 4))


def test_a_tensor_core_reads_ten_bits_of_mantissa() -> None:
    a = np.full((WARPS, 16, 8), 1 + 2.0**-11, np.float32)
    b, c = np.ones((WARPS, 8, 8), np.float32), np.zeros((WARPS, 16, 8), np.float32)
    parts = fragments(a, a_of_32_bits, 4), fragments(b, b_of_32_bits, 2), fragments(c, c_of_32_bits, 4)
    got = multiplied("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", *parts)
    assert (got.view(np.float32) == 8).all()


MOVE = """
.shared .align 16 .b8 tile[512];
mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 16, %r1;
mad.wide.u32 %rd0, %r0, 16, %rd0; mad.wide.u32 %rd1, %r0, 16, %rd1;
ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%rd0];
{}
st.global.v4.b32 [%rd1], {{%r4, %r5, %r6, %r7}};
"""


def moved(text: str, source: np.ndarray) -> np.ndarray:
    output = np.zeros_like(source)
    simulate(kernel(MOVE.format(text), 2), "k", GridGeometry((1, 1, 1), (32, 1, 1)), [source, output], [1])
    return output


@pytest.mark.parametrize("transposed", [False, True])
def test_ldmatrix_gives_each_lane_its_pair(transposed: bool) -> None:
    # Lane l stores row l % 8 of matrix l / 8, and passes its address.
    tiles = np.arange(4 * 64, dtype=np.uint16).reshape(4, 8, 8)
    modifier = ".trans" if transposed else ""
    got = moved(
        f"""st.shared.v4.b32 [%r2], {{%r4, %r5, %r6, %r7}}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4{modifier}.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2];""",
        tiles.reshape(32, 8).view(np.uint32).reshape(-1),
    )
    pairs = got.reshape(32, 4).view(np.uint16).reshape(32, 4, 2)
    for lane in range(32):
        for number in range(4):
            row, column = lane // 4, 2 * (lane % 4)
            tile = tiles[number].T if transposed else tiles[number]
            np.testing.assert_array_equal(pairs[lane, number], tile[row, column : column + 2])


def test_ldmatrix_of_two_reads_the_addresses_of_sixteen_lanes() -> None:
    tiles = np.arange(4 * 64, dtype=np.uint16)
    got = moved(
        """st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;
        setp.ge.u32 %p1, %r0, 16; @%p1 mov.u32 %r2, 3;
        ldmatrix.sync.aligned.m8n8.x2.shared::cta.b16 {%r4, %r5}, [%r2];""",
        tiles.view(np.uint32),
    )
    first = tiles[:64].reshape(8, 8)
    assert got.reshape(32, 4)[5, 0] == int(first[1, 2]) | int(first[1, 3]) << 16


def test_stmatrix_is_the_inverse() -> None:
    tiles = np.random.default_rng(1).integers(0, 1 << 16, 256).astype(np.uint16)
    text = """st.shared.v4.b32 [%r2], {{%r4, %r5, %r6, %r7}}; bar.warp.sync -1;
        ldmatrix.sync.aligned.m8n8.x4{0}.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r2]; bar.warp.sync -1;
        stmatrix.sync.aligned.m8n8.x4{0}.shared.b16 [%r2], {{%r4, %r5, %r6, %r7}}; bar.warp.sync -1;
        ld.shared.v4.b32 {{%r4, %r5, %r6, %r7}}, [%r2];"""
    source = tiles.view(np.uint32)
    np.testing.assert_array_equal(moved(text.format(""), source), source)
    np.testing.assert_array_equal(moved(text.format(".trans"), source), source)


def test_reading_a_tile_that_other_warps_write_is_a_race() -> None:
    body = MOVE.format("""and.b32 %r3, %r0, 31; mad.lo.u32 %r2, %r3, 16, %r1; setp.lt.u32 %p1, %r0, 32;
        @%p1 st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7};
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];""")
    arrays = np.zeros(256, np.uint32), np.zeros(256, np.uint32)
    with pytest.raises(SimulationError, match="race in shared memory: a read, and a write by thread 0"):
        simulate(kernel(body, 2), "k", GridGeometry((1, 1, 1), (64, 1, 1)), arrays)


COPY = """
.shared .align 16 .b8 tile[2048];
mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 16, %r1; xor.b32 %r3, %r0, 1; mad.lo.u32 %r3, %r3, 16, %r1;
mad.wide.u32 %rd0, %r0, 16, %rd0; mad.wide.u32 %rd1, %r0, 16, %rd1;
cp.async.cg.shared.global.L2::128B [%r2], [%rd0], 16; cp.async.commit_group;
cp.async.ca.shared.global [%r2+1024], [%rd0], 16, %r9; cp.async.commit_group;
{}
st.global.v4.b32 [%rd1], {{%r4, %r5, %r6, %r7}};
"""


def copied(text: str) -> tuple[np.ndarray, np.ndarray]:
    source, output = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    ptx = kernel("mov.b32 %r9, 4;" + COPY.format(text), 2)
    simulate(ptx, "k", GridGeometry((1, 1, 1), (64, 1, 1)), [source, output], [1])
    return source.reshape(64, 4), output.reshape(64, 4)


def test_copies_arrive_in_groups() -> None:
    source, got = copied(
        """cp.async.wait_group 1; bar.sync 0; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];
        cp.async.wait_all; bar.sync 0; ld.shared.v2.b32 {%r5, %r6}, [%r3+1024];"""
    )
    other = source[np.arange(64) ^ 1]
    np.testing.assert_array_equal(got[:, [0, 3]], other[:, [0, 3]])
    np.testing.assert_array_equal(got[:, 1], other[:, 0])
    assert not got[:, 2].any()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("bar.sync 0; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3];", "asynchronous copy has not finished"),
        ("cp.async.wait_group 1; bar.sync 0; ld.shared.b32 %r4, [%r3+1024];", "asynchronous copy has not finished"),
        ("cp.async.wait_group 0; ld.shared.b32 %r4, [%r3];", "race in shared memory"),
        ("bar.sync 0; cp.async.wait_group 0; ld.shared.b32 %r4, [%r3];", "race in shared memory"),
        ("cp.async.cg.shared.global [%r2], [%rd0], 16;", "asynchronous copy has not finished"),
    ],
)
def test_copies_without_a_wait_are_found(text: str, reason: str) -> None:
    with pytest.raises(SimulationError, match=reason):
        copied(text)
