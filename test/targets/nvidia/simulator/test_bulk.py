"""Barriers in shared memory, the copy engine, clusters, and products of warp groups."""

import re

import numpy as np
import pytest
from stepwell.runtime.cuda.errors import SimulationError
from stepwell.runtime.launch_plan import BufferSlice, TensorMap
from stepwell.targets.nvidia.simulator.batch import GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate

HEAD = ".version 8.3\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 tile[];\n"
REGISTERS = """.reg .pred %p<16>; .reg .b16 %h<8>; .reg .b32 %r<64>; .reg .f32 %f<256>; .reg .b64 %rd<32>;
mov.u32 %r0, %tid.x; mov.u32 %r1, tile; setp.eq.u32 %p1, %r0, 0;
"""
WAIT = "{{ WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [{0}], {1}; @!%p2 bra WAIT; }}\n"


def entry(parameters: str, body: str) -> str:
    return f"{HEAD}.visible .entry k({parameters})\n{{\n{REGISTERS}{body}\nret;\n}}\n"


def tensor_map(array: np.ndarray, box: tuple[int, ...], swizzle: int = 0, position: int = 0) -> TensorMap:
    """A tensor map of a two-dimensional array that is an argument of the kernel."""
    strides = (array.strides[0],)
    return TensorMap(
        array.dtype.name,
        array.shape[::-1],
        strides,
        box,
        swizzle,
        buffer=BufferSlice("input", position, 0, array.nbytes),
    )


LOAD = """
@!%p1 bra READY; mbarrier.init.shared::cta.b64 [tile+16384], 1; fence.mbarrier_init.release.cluster;
READY: bar.sync 0; @!%p1 bra LOADED;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [tile+16384], %r9;
mov.u64 %rd0, map; cvta.param.u64 %rd0, %rd0; mov.u32 %r2, tile; add.u32 %r3, %r2, 16384;
cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd0, {%r10, %r11}], [%r3];
LOADED:
""" + WAIT.format("tile+16384", 0)
STORE_TILE = """
ld.param.u64 %rd1, [out]; mad.lo.u32 %r4, %r0, 16, %r1; mad.wide.u32 %rd1, %r0, 16, %rd1;
ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r4]; st.global.v4.b32 [%rd1], {%r5, %r6, %r7, %r8};
"""
WITH_MAP = ".param .u64 source, .param .align 64 .b8 map[128], .param .u64 out"


def loaded(
    source: np.ndarray, box: tuple[int, int], swizzle: int, corner: tuple[int, int], text: str = LOAD
) -> np.ndarray:
    """Returns the contents of shared memory after the copy of a box."""
    nbytes = box[0] * box[1] * source.itemsize
    output = np.zeros(nbytes, np.uint8)
    body = f"mov.u32 %r9, {nbytes}; mov.u32 %r10, {corner[0]}; mov.u32 %r11, {corner[1]};" + text + STORE_TILE
    geometry = GridGeometry((1, 1, 1), (nbytes // 16, 1, 1), shared_bytes=16384 + 64)
    simulate(entry(WITH_MAP, body), "k", geometry, [source, tensor_map(source, box, swizzle), output], [2])
    return output.view(source.dtype)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_a_box_lies_in_shared_memory_as_it_swizzles(swizzle: int) -> None:
    source = np.arange(96 * 128, dtype=np.uint16).reshape(96, 128)
    columns = swizzle // 2 or 24
    got = loaded(source, (columns, 32), swizzle, (8, 16)).reshape(-1, 8)
    for row in range(32):
        for piece in range(columns // 8):
            # Chunks of 16 bytes are permuted by the index of their line of 128 bytes.
            line = row * columns * 2 // 128
            place = row * columns // 8 + (piece ^ line % (swizzle // 16) if swizzle else piece)
            np.testing.assert_array_equal(got[place], source[16 + row, 8 + 8 * piece : 16 + 8 * piece])


def test_elements_outside_the_tensor_are_zero() -> None:
    source = np.ones((10, 16), np.float32)
    got = loaded(source, (16, 16), 0, (-4, 2)).reshape(16, 16)
    expected = np.zeros((16, 16), np.float32)
    expected[:8, 4:] = 1
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ((WAIT.format("tile+16384", 0), "bar.sync 0;"), "asynchronous copy has not finished"),
        (("add.u32 %r3, %r2, 16384;", "add.u32 %r3, %r2, 16384; add.u32 %r2, %r2, 64;"), "not a multiple of 128"),
        (("mbarrier.init.shared::cta.b64 [tile+16384], 1;", ""), "there is no barrier"),
        (("READY: bar.sync 0;", "READY:"), "race in shared memory|there is no barrier"),
        (("_, [tile+16384], %r9;", "_, [tile+16384], 4096;"), r"deadlock(.|\n)*bytes are missing"),
        (("[tile+16384], 1;", "[tile+16384], 2;"), r"deadlock(.|\n)*1 of 2 arrivals"),
        (("fence.mbarrier_init.release.cluster;", ""), "no fence.mbarrier_init follows"),
    ],
)
def test_a_copy_without_a_correct_wait_is_found(change: tuple[str, str], reason: str) -> None:
    source = np.zeros((32, 64), np.float16)
    with pytest.raises(SimulationError, match=reason):
        loaded(source, (64, 16), 128, (0, 0), LOAD.replace(*change))


def test_stores_in_bulk_are_read_as_late_as_the_wait() -> None:
    body = """
    ld.param.u64 %rd1, [out]; mad.lo.u32 %r4, %r0, 16, %r1;
    st.shared.v4.b32 [%r4], {%r0, %r0, %r0, %r0}; fence.proxy.async.shared::cta; bar.sync 0;
    @!%p1 bra END; mov.u64 %rd0, map; mov.u32 %r5, 8; mov.u32 %r6, -1;
    cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {%r5, %r6}], [tile];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; END:
    """
    source = np.zeros((16, 16), np.uint32)
    parameters = ".param .u64 out, .param .align 64 .b8 map[128]"
    args, geometry = [source, tensor_map(source, (8, 8))], GridGeometry((1, 1, 1), (16, 1, 1), shared_bytes=256)
    simulate(entry(parameters, body), "k", geometry, args)
    expected = np.zeros((16, 16), np.uint32)
    expected[:7, 8:] = np.repeat(np.arange(16), 4).reshape(8, 8)[1:]
    np.testing.assert_array_equal(source, expected)
    unwaited = body.replace("cp.async.bulk.wait_group 0;", "")
    with pytest.raises(SimulationError, match="without waiting"):
        simulate(entry(parameters, unwaited), "k", geometry, args)
    unfenced = body.replace("fence.proxy.async.shared::cta;", "")
    with pytest.raises(SimulationError, match=r"a write by thread 2 of the block, with no fence\.proxy\.async between"):
        simulate(entry(parameters, unfenced), "k", geometry, args)
    late = unfenced.replace("@!%p1 bra END;", "@!%p1 bra END; fence.proxy.async;")
    simulate(entry(parameters, late), "k", geometry, args)
    source[...] = 0
    overwritten = body.replace("cp.async.bulk.wait", "st.shared.u32 [tile+64], 77; cp.async.bulk.wait")
    simulate(entry(parameters, overwritten), "k", geometry, args)
    assert source[1, 8] == 77


PIPELINE = """
@!%p1 bra READY; mbarrier.init.shared::cta.b64 [tile+1024], 32; mbarrier.init.shared::cta.b64 [tile+1032], 32;
READY: bar.sync 0; mov.b32 %r10, 0; ld.param.u64 %rd1, [out]; and.b32 %r12, %r0, 31; mov.b32 %r13, 0;
mad.lo.u32 %r14, %r12, 4, %r1; setp.ge.u32 %p3, %r0, 32; @%p3 bra CONSUME;
PRODUCE: and.b32 %r11, %r10, 1; xor.b32 %r11, %r11, 1;
{ WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+1032], %r11; @!%p2 bra WAIT; }
add.u32 %r15, %r12, %r10; st.shared.u32 [%r14], %r15; mbarrier.arrive.shared::cta.b64 %rd9, [tile+1024];
add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 10; @%p4 bra PRODUCE; bra END;
CONSUME: and.b32 %r11, %r10, 1;
{ WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [tile+1024], %r11; @!%p2 bra WAIT; }
xor.b32 %r16, %r14, 4; ld.shared.u32 %r15, [%r16]; add.u32 %r13, %r13, %r15;
mbarrier.arrive.shared::cta.b64 _, [tile+1032];
add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 10; @%p4 bra CONSUME;
mad.wide.u32 %rd1, %r12, 4, %rd1; st.global.u32 [%rd1], %r13;
END:
"""


def test_a_pipeline_of_producers_and_consumers() -> None:
    output = np.zeros(32, np.uint32)
    geometry = GridGeometry((1, 1, 1), (64, 1, 1), shared_bytes=1040)
    simulate(entry(".param .u64 out", PIPELINE), "k", geometry, [output], [0])
    np.testing.assert_array_equal(output, 10 * (np.arange(32) ^ 1) + 45)


def test_a_consumer_that_does_not_wait_races() -> None:
    first, second = PIPELINE.split("CONSUME: ")
    hasty = first + "CONSUME: " + re.sub(r"{ WAIT.*}", "", second)
    geometry = GridGeometry((1, 1, 1), (64, 1, 1), shared_bytes=1040)
    with pytest.raises(SimulationError, match="race in shared memory: a read, and a write by thread 1 of the block"):
        simulate(entry(".param .u64 out", hasty), "k", geometry, [np.zeros(32, np.uint32)])


def test_blocks_of_a_cluster_read_each_other() -> None:
    body = """
    ld.param.u64 %rd1, [out]; mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %ctaid.x; mad.lo.u32 %r4, %r0, 4, %r1;
    mad.lo.u32 %r5, %r3, 100, %r0; st.shared.u32 [%r4], %r5;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %r6, %r2, 1; mapa.shared::cluster.u32 %r7, %r4, %r6; ld.shared::cluster.u32 %r8, [%r7];
    barrier.cluster.arrive; barrier.cluster.wait;
    mad.lo.u32 %r9, %r3, 32, %r0; mad.wide.u32 %rd1, %r9, 4, %rd1; st.global.u32 [%rd1], %r8;
    """
    output = np.zeros(128, np.uint32)
    geometry = GridGeometry((4, 1, 1), (32, 1, 1), (2, 1, 1), 128)
    simulate(entry(".param .u64 out", body), "k", geometry, [output], [0])
    expected = np.array([1, 0, 3, 2])[:, None] * 100 + np.arange(32)
    np.testing.assert_array_equal(output.reshape(4, 32), expected)


def products(columns: int, transposed: bool, in_registers: bool) -> tuple[np.ndarray, np.ndarray]:
    """Returns a 64 x 16 matrix times the transpose of a `columns` x 16 one, by one `wgmma`, and the expected result."""
    random = np.random.default_rng(0)
    a = random.integers(-4, 5, (64, 64)).astype(np.float16)
    b = random.integers(-4, 5, (64, columns) if transposed else (columns, 64)).astype(np.float16)
    count = columns // 2
    d = ", ".join(f"%f{place}" for place in range(count))
    stored = "".join(f"st.global.f32 [%rd1+{4 * place}], %f{place};\n" for place in range(count))
    zero = "".join(f"mov.f32 %f{place}, 0f40000000;\n" for place in range(count))
    # A row of 64 halves is a line of 128 bytes, and groups of eight lines are 1024 bytes apart. The second step in k is
    # 32 bytes further along the lines, or 16 lines of 128 bytes below if the lines run along n.
    descriptor = (1 << 62) | (64 << 32) | ((8192 >> 4) << 16)
    further = 16 * 128 if transposed else 32
    left, second = ("{%r20, %r21, %r22, %r23}", "{%r24, %r25, %r26, %r27}") if in_registers else ("%rd5", "%rd5")
    body = f"""
    @!%p1 bra READY; mbarrier.init.shared::cta.b64 [tile+49152], 1; fence.mbarrier_init.release.cluster;
    READY: bar.sync 0; @!%p1 bra LOADED; mov.u32 %r2, tile; add.u32 %r3, %r2, 8192; add.u32 %r4, %r2, 49152;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {a.nbytes + b.nbytes}; mov.u32 %r5, 0; mov.u32 %r6, 64;
    mov.u64 %rd2, map_a; mov.u64 %rd3, map_b;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2, {{%r5, %r5}}], [%r4];
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd3, {{%r5, %r5}}], [%r4];
    {
        ""
        if not transposed or columns == 64
        else '''add.u32 %r3, %r3, 8192;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd3, {%r6, %r5}], [%r4];'''
    }
    LOADED: {WAIT.format("tile+49152", 0)}
    mov.u64 %rd4, {descriptor}; cvt.u64.u32 %rd5, %r1; shr.u64 %rd5, %rd5, 4; or.b64 %rd5, %rd5, %rd4;
    add.u64 %rd6, %rd5, {8192 >> 4}; {zero}
    shr.u32 %r7, %r0, 2; and.b32 %r8, %r0, 3; shr.u32 %r9, %r0, 5; and.b32 %r10, %r7, 7;
    mad.lo.u32 %r11, %r9, 16, %r10; mad.lo.u32 %r12, %r11, 128, 0; ld.param.u64 %rd7, [a];
    mad.lo.u32 %r12, %r8, 4, %r12; cvt.u64.u32 %rd8, %r12; add.u64 %rd7, %rd7, %rd8;
    ld.global.b32 %r20, [%rd7]; ld.global.b32 %r21, [%rd7+1024];
    ld.global.b32 %r22, [%rd7+16]; ld.global.b32 %r23, [%rd7+1040];
    wgmma.fence.sync.aligned; setp.ne.u32 %p5, %r0, %r0;
    wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{d}}}, {left}, %rd6, %p5, 1, 1,
      {"" if in_registers else "0,"} {int(transposed)};
    add.u64 %rd5, %rd5, 2; add.u64 %rd6, %rd6, {further >> 4};
    ld.global.b32 %r24, [%rd7+32]; ld.global.b32 %r25, [%rd7+1056];
    ld.global.b32 %r26, [%rd7+48]; ld.global.b32 %r27, [%rd7+1072]; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 {{{d}}}, {second}, %rd6, 1, 1, 1,
      {"" if in_registers else "0,"} {int(transposed)};
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;
    ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r0, {4 * count}, %rd1; {stored}
    """
    maps = ".param .align 64 .b8 map_a[128], .param .align 64 .b8 map_b[128]"
    parameters = f".param .u64 a, .param .u64 b, {maps}, .param .u64 out"
    box = (64, 64 if transposed else columns)
    output = np.zeros((128, count), np.float32)
    arguments = [a, b, tensor_map(a, (64, 64), 128), tensor_map(b, box, 128, 1), output]
    geometry = GridGeometry((1, 1, 1), (128, 1, 1), shared_bytes=49152 + 64)
    simulate(entry(parameters, body), "k", geometry, arguments, [4])
    wide = b.astype(np.float32) if transposed else b.astype(np.float32).T
    return output, a[:, :32].astype(np.float32) @ wide[:32]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("in_registers", [False, True])
@pytest.mark.parametrize("columns", [64, 128])
def test_a_product_of_a_warp_group(columns: int, transposed: bool, in_registers: bool) -> None:
    got, wanted = products(columns, transposed, in_registers)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for place in range(columns // 2):
            row = 16 * warp + lane // 4 + 8 * (place // 2 % 2)
            column = 8 * (place // 4) + 2 * (lane % 4) + place % 2
            assert got[thread, place] == wanted[row, column]
