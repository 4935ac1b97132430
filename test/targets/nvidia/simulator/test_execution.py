"""Control flow, memory, barriers and warps of the simulator, and the faults that it finds."""

from collections.abc import Sequence

import numpy as np
import pytest
from stepwell.runtime.cuda.errors import PtxError, SimulationError
from stepwell.targets.nvidia.simulator.batch import Checks, GridGeometry
from stepwell.targets.nvidia.simulator.harness import simulate

from .conftest import kernel

U32, I32, F32 = np.uint32, np.int32, np.float32


def run(
    body: str,
    threads: int = 64,
    blocks: int = 2,
    words: int | None = None,
    given: Sequence[np.ndarray] = (),
    checks: Checks | None = None,
    shared: int = 0,
) -> np.ndarray:
    """Runs a body with an output after the given arrays; %r1 is the block, %rd9 points to the thread's output word."""
    output = np.zeros(words if words is not None else threads * blocks, U32)
    place = len(given)
    head = f"""mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
        mad.wide.u32 %rd9, %r3, 4, %rd{place};"""
    outside = ".extern .shared .align 16 .b8 dynamic[];\n.const .align 4 .b32 table[4] = {10, 0x20, -1, 7};"
    geometry = GridGeometry((blocks, 1, 1), (threads, 1, 1), shared_bytes=shared)
    ptx = kernel(head + body, place + 1, outside=outside)
    simulate(ptx, "k", geometry, [*given, output], [place], checks)
    return output


def test_threads_that_diverge_come_together_again() -> None:
    # Each thread loops as often as its index says; the shuffle after the loop needs the whole warp.
    result = run(
        """mov.b32 %r4, 0; mov.b32 %r5, %r0;
        LOOP: setp.eq.u32 %p1, %r5, 0; @%p1 bra DONE;
        add.u32 %r4, %r4, %r5; sub.u32 %r5, %r5, 1; bra LOOP;
        DONE: shfl.sync.bfly.b32 %r6, %r4, 1, 31, -1; st.global.u32 [%rd9], %r6;"""
    )
    numbers = np.arange(64) ^ 1
    np.testing.assert_array_equal(result, np.tile(numbers * (numbers + 1) // 2, 2))


def test_a_jump_table_and_nested_branches() -> None:
    result = run(
        """and.b32 %r4, %r0, 3; mov.b32 %r5, 0;
        TABLE: .branchtargets A, B, C, D;
        brx.idx %r4, TABLE;
        A: mov.b32 %r5, 5; bra END;
        B: setp.lt.u32 %p1, %r0, 32; @%p1 bra C; mov.b32 %r5, 7; bra END;
        C: mov.b32 %r5, 9; D: add.u32 %r5, %r5, 1;
        END: st.global.u32 [%rd9], %r5;"""
    )
    thread = np.arange(64)
    expected = np.select([thread % 4 == 0, (thread % 4 == 1) & (thread >= 32), thread % 4 == 3], [5, 7, 1], 10)
    np.testing.assert_array_equal(result, np.tile(expected, 2))


def test_memory_of_all_spaces() -> None:
    source = np.arange(128, dtype=U32)
    result = run(
        """.shared .align 16 .b8 tile[1024]; .local .align 8 .b8 own[16];
        mad.wide.u32 %rd5, %r3, 4, %rd0; ld.global.nc.L1::no_allocate.b32 %r4, [%rd5];
        shl.b32 %r5, %r0, 2; mov.u32 %r6, tile; add.u32 %r6, %r6, %r5; st.shared.u32 [%r6], %r4;
        bar.sync 0;
        xor.b32 %r7, %r5, 252; mov.u32 %r6, tile; add.u32 %r6, %r6, %r7;
        cvt.u64.u32 %rd6, %r6; cvta.shared.u64 %rd6, %rd6; ld.u32 %r8, [%rd6];
        mov.u64 %rd7, own; cvta.local.u64 %rd7, %rd7; st.u32 [%rd7+4], %r8; ld.local.u32 %r8, [own+4];
        and.b32 %r9, %r0, 3; shl.b32 %r9, %r9, 2; mov.u64 %rd8, table; cvt.u64.u32 %rd10, %r9;
        add.u64 %rd8, %rd8, %rd10; ld.const.u32 %r10, [%rd8]; add.u32 %r8, %r8, %r10; st.global.u32 [%rd9], %r8;""",
        given=[source],
    )
    table = np.array([10, 0x20, 0xFFFFFFFF, 7], U32)
    np.testing.assert_array_equal(result, source.reshape(2, 64)[:, ::-1].reshape(-1) + np.tile(table, 32))


def test_vectors_and_narrow_elements() -> None:
    source = np.arange(256, dtype=np.uint8)
    result = run(
        """mad.wide.u32 %rd5, %r0, 16, %rd0; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd5];
        ld.global.s8 %r8, [%rd5+15]; st.shared.v2.b32 [dynamic], {%r7, %r4};
        ld.shared.u8 %r9, [dynamic+1]; add.u32 %r8, %r8, %r9; st.global.u32 [%rd9], %r8;""",
        threads=1,
        blocks=1,
        given=[source[240:].copy()],
        shared=8,
    )
    np.testing.assert_array_equal(result, [252])


@pytest.mark.parametrize(
    ("opcode", "change", "total"),
    [("add.u32", 3, 384), ("max.s32", 90, 90), ("inc.u32", 6, 2), ("or.b32", 12, 12), ("add.f32", "0f3F000000", 64.0)],
)
def test_atomics_of_many_threads_all_count(opcode: str, change: int | str, total: float) -> None:
    counter = np.zeros(1, U32)
    run(f"atom.global.{opcode} %r4, [%rd0], {change}; st.global.u32 [%rd9], %r4;", given=[counter])
    assert counter.view(F32 if isinstance(total, float) else U32)[0] == total


def test_compare_and_swap_counts() -> None:
    counter = np.zeros(1, U32)
    run(
        """AGAIN: ld.volatile.global.u32 %r4, [%rd0]; add.u32 %r5, %r4, 1;
        atom.global.cas.b32 %r6, [%rd0], %r4, %r5; setp.ne.u32 %p1, %r6, %r4; @%p1 bra AGAIN;
        st.global.u32 [%rd9], 0;""",
        given=[counter],
        threads=32,
    )
    assert counter[0] == 64


def test_polling_does_not_starve_the_thread_it_waits_for() -> None:
    flag = np.zeros(1, U32)
    result = run(
        """setp.ge.u32 %p1, %r0, 32; @%p1 bra SET;
        POLL: ld.volatile.global.u32 %r4, [%rd0]; setp.eq.u32 %p2, %r4, 0; @%p2 bra POLL; bra END;
        SET: mov.b32 %r4, 5; st.volatile.global.u32 [%rd0], %r4;
        END: st.global.u32 [%rd9], %r4;""",
        given=[flag],
        blocks=1,
    )
    assert (result == 5).all()


def test_named_barriers_pair_producers_with_consumers() -> None:
    result = run(
        """mov.u32 %r4, dynamic; and.b32 %r6, %r0, 31; mad.lo.u32 %r4, %r6, 4, %r4;
        setp.ge.u32 %p1, %r0, 32; @%p1 bra CONSUME;
        st.shared.u32 [%r4], %r0; bar.arrive 1, 64; bra END;
        CONSUME: bar.sync 1, 64; ld.shared.u32 %r5, [%r4]; add.u32 %r0, %r5, 100;
        END: st.global.u32 [%rd9], %r0;""",
        shared=128,
    )
    np.testing.assert_array_equal(result, np.tile(np.r_[np.arange(32), np.arange(100, 132)], 2))


def test_warp_wide_instructions() -> None:
    result = run(
        """setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r4, %p1, -1; redux.sync.add.u32 %r5, %r0, -1;
        shfl.sync.up.b32 %r6|%p2, %r0, 1, 0, -1; selp.b32 %r7, 1000, 0, %p2;
        shfl.sync.idx.b32 %r8, %r0, 9, 0x1c1f, -1; elect.sync %r9|%p3, -1; @%p3 add.u32 %r8, %r8, 5000;
        add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; add.u32 %r4, %r4, %r8;
        st.global.u32 [%rd9], %r4;""",
        threads=32,
        blocks=1,
    )
    lane = np.arange(32)
    # Segments of four lanes: lane 9 means the second one of each.
    idx = (lane & 0x1C) | (9 & 3)
    up = np.where(lane == 0, 0, lane - 1)
    np.testing.assert_array_equal(
        result, 31 + 496 + up + np.where(lane > 0, 1000, 0) + idx + np.where(lane == 0, 5000, 0)
    )


FAULTS = [
    ("ld.global.u32 %r4, [%rd0+4096];", "out of bounds"),
    ("ld.global.u32 %r4, [%rd0+2];", "not a multiple"),
    ("ld.global.u32 %r4, [%rd9];", "read of undefined memory"),
    ("ld.shared.u32 %r4, [dynamic];", "read of undefined memory"),
    ("st.shared.u32 [dynamic+256], %r4;", "out of bounds"),
    ("st.shared.u32 [dynamic], %r0;", "race in shared memory: another write by the same"),
    ("""mov.u32 %r4, dynamic; mad.lo.u32 %r4, %r0, 4, %r4; st.shared.u32 [%r4], %r0; xor.b32 %r5, %r4, 128;
     ld.shared.u32 %r6, [%r5];""", "race in shared memory: a read, and a write by thread"),
    ("""mov.u32 %r4, dynamic; mad.lo.u32 %r4, %r0, 4, %r4; st.shared.u32 [%r4], %r0; bar.sync 0;
     xor.b32 %r5, %r4, 4; ld.shared.u32 %r6, [%r5]; st.shared.u32 [%r4], %r0;""", "a write, and a read by thread"),
    ("st.global.u32 [%rd1], %r0;", "two threads of the launch write the same byte"),
    ("setp.eq.u32 %p1, %r0, 3; @%p1 bra END; bar.sync 1, 64; END: bar.sync 0;", "deadlock"),
    ("setp.lt.u32 %p1, %r0, 3; @%p1 bra END; shfl.sync.idx.b32 %r4, %r0, 0, 31, -1; END: bar.sync 0;", "deadlock"),
    ("bar.sync 1, 40;", "not a multiple of a warp"),
    ("L: bra L;", "has not ended"),
    ("frobnicate.b32 %r1, %r2;", "not an instruction that the simulator supports"),
    ("add.wonderful.s32 %r1, %r2, %r3;", "modifier that the simulator does not support"),
    ("add.s32 %r1, %r999, %r3;", "not declared"),
    ("add.s32 %r1, %r2;", "takes 2 sources"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "reason"), FAULTS, ids=[reason for _, reason in FAULTS])
def test_faults_are_found_and_named(body: str, reason: str) -> None:
    with pytest.raises(SimulationError, match=reason) as caught:
        run(body, given=[np.zeros(4, U32)], shared=256, checks=Checks(step_limit=1000))
    assert caught.value.line > 0 or "deadlock" in reason or "ended" in reason


def test_an_output_that_is_not_written_whole_is_a_fault() -> None:
    with pytest.raises(SimulationError, match="leaves 4 of 516 bytes of output 0 unwritten, the first at byte 512"):
        run("st.global.u32 [%rd9], %r0;", words=129)


def test_faults_report_the_thread_and_the_line() -> None:
    with pytest.raises(
        SimulationError, match=r"PTX line 1\d: ld.shared.u32 at address 0x100 by thread 7 of block \(1, 0"
    ):
        run("setp.eq.u32 %p1, %r3, 71;\n@%p1 ld.shared.u32 %r4, [dynamic+256]; st.global.u32 [%rd9], 0;", shared=64)


@pytest.mark.parametrize(("target", "count"), [("sm_80", 108), ("sm_90a", 132), ("sm_100a", 148)])
def test_the_number_of_multiprocessors_is_the_target_s(target: str, count: int) -> None:
    output = np.zeros(32, U32)
    body = "mul.wide.u32 %rd1, %r0, 4; add.u64 %rd0, %rd0, %rd1; mov.u32 %r1, %nsmid; st.global.u32 [%rd0], %r1;"
    ptx = kernel(body, 1).replace("sm_90a", target)
    simulate(ptx, "k", GridGeometry((1, 1, 1), (32, 1, 1)), [output], [0])
    np.testing.assert_array_equal(output, count)


def test_unknown_targets_are_refused() -> None:
    ptx = kernel("", 1).replace("sm_90a", "sm_20")
    with pytest.raises(PtxError, match="unknown target 'sm_20'; known are sm_80, "):
        simulate(ptx, "k", GridGeometry((1, 1, 1), (32, 1, 1)), [np.zeros(32, U32)], [0])
