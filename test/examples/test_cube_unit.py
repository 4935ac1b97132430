"""The cube unit of the example package: its instructions, its simulator and the streams for contractions, in numpy."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "plugins"))

from cube_target.assembly import AssemblyError, assemble, disassemble
from cube_target.blocking import CubeContraction, best, candidates, fits, is_worthwhile
from cube_target.emit import emit, emit_best
from cube_target.encoding import EncodingError, decode, encode
from cube_target.hazards import StreamError, check
from cube_target.isa import ELEMENTS, Box, Counter, CubeProgram, Engine, Load, MemoryView, Multiply
from cube_target.machine import TILE, V1
from cube_target.simulator import Simulator
from cube_target.timeline import beats, cycles_of, timeline

SMALL = replace(V1, operand_bytes=16 * 1024, sum_bytes=8 * 1024)
"""A unit whose scratchpads hold 32 tiles of f16 and 8 tiles of sums, so that small products need many blocks."""
KINDS = (("f16", "f16", "f16"), ("f16", "f16", "f32"), ("u8", "i8", "i32"), ("i8", "i8", "i32"), ("u8", "u8", "i32"))


def line(*loops: tuple[int, int]) -> Counter:
    return Counter(loops)


def product(batch: int, m: int, k: int, n: int, kinds=("f16", "f16", "f32"), transposed=False) -> CubeContraction:
    """A batch of products of contiguous matrices, the right ones transposed or not."""
    counts = (batch * m * k, batch * k * n, batch * m * n)
    sizes = tuple(count * ELEMENTS[kind].itemsize for count, kind in zip(counts, kinds, strict=True))
    right = (line((batch, k * n), (k, 1)), line((n, k))) if transposed else (line((batch * k, n)), line((n, 1)))
    return CubeContraction(
        sizes,
        MemoryView(0, kinds[0], 0, line((batch * m, k)), line((k, 1))),
        MemoryView(1, kinds[1], 0, *right),
        MemoryView(2, kinds[2], 0, line((batch * m, n)), line((n, 1))),
        batch,
    )


def numbers(kind: str, count: int) -> np.ndarray:
    """Small integers, of which sums of products are exact."""
    low = 0 if kind == "u8" else -4
    return np.random.default_rng(count).integers(low, 5, count).astype(ELEMENTS[kind])


def executed(program: CubeProgram, contraction: CubeContraction, machine=SMALL) -> tuple[np.ndarray, ...]:
    """Runs a stream; returns the elements of its arguments."""
    views = contraction.left, contraction.right, contraction.result
    counts = (size // ELEMENTS[view.element].itemsize for size, view in zip(contraction.sizes, views, strict=True))
    arrays = [numbers(view.element, count) for view, count in zip(views, counts, strict=True)]
    Simulator(program, machine).run([array.view(np.uint8) for array in arrays])
    return tuple(arrays)


extents = st.integers(1, 70)
contractions = st.builds(product, st.integers(1, 3), extents, extents, extents, st.sampled_from(KINDS), st.booleans())


@st.composite
def streams(draw) -> tuple[CubeContraction, CubeProgram]:
    """A contraction, and the stream for any blocks that fit."""
    contraction = draw(contractions)
    blocks = draw(st.sampled_from(list(candidates(contraction, SMALL))))
    assert fits(blocks, contraction, SMALL)
    return contraction, emit(contraction, blocks, SMALL)


@given(streams())
@settings(max_examples=40)
def test_streams_compute_products(drawn) -> None:
    contraction, program = drawn
    left, right, result = executed(program, contraction)
    batch, m, k, n = contraction.batch, contraction.m, contraction.k, contraction.n
    is_transposed = contraction.right.columns.loops[0][1] == k and k > 1
    matrices = right.reshape(batch, n, k).swapaxes(1, 2) if is_transposed else right.reshape(batch, k, n)
    expected = left.reshape(batch, m, k).astype(np.int64) @ matrices.astype(np.int64)
    np.testing.assert_array_equal(result.reshape(batch, m, n).astype(np.int64), expected)


@given(streams())
@settings(max_examples=20)
def test_both_forms_of_a_stream_are_read_back(drawn) -> None:
    _, program = drawn
    program = replace(program, instructions=tuple(program.instructions))
    assert decode(encode(program)) == program
    lines = disassemble(program)
    assert assemble(lines) == replace(program, instructions=assemble(lines).instructions)
    assert tuple(assemble(lines).instructions) == program.instructions


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(1, 3),
    st.integers(1, 2),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
    st.integers(1, 20),
    st.integers(1, 20),
)
@settings(max_examples=30)
def test_convolutions_read_their_windows_in_place(window, stride, dilation, size, channels, outputs) -> None:
    (kh, kw), (oh, ow) = window, size
    height, width = ((out - 1) * stride + (k - 1) * dilation + 1 for out, k in ((oh, kh), (ow, kw)))
    rows = line((oh, stride * width * channels), (ow, stride * channels))
    columns = line((kh, dilation * width * channels), (kw, dilation * channels), (channels, 1))
    contraction = CubeContraction(
        (2 * height * width * channels, 2 * kh * kw * channels * outputs, 4 * oh * ow * outputs),
        MemoryView(0, "f16", 0, rows, columns),
        MemoryView(1, "f16", 0, line((kh * kw * channels, outputs)), line((outputs, 1))),
        MemoryView(2, "f32", 0, line((oh * ow, outputs)), line((outputs, 1))),
    )
    _, program = emit_best(contraction, SMALL)
    image, weight, result = executed(program, contraction)
    image, weight = image.reshape(height, width, channels), weight.reshape(kh, kw, channels, outputs)
    expected = np.zeros((oh, ow, outputs), np.float32)
    for y in range(kh):
        for x in range(kw):
            part = image[y * dilation :: stride, x * dilation :: stride][:oh, :ow].astype(np.float32)
            expected += part @ weight[y, x].astype(np.float32)
    np.testing.assert_array_equal(result.reshape(expected.shape), expected)


@given(streams(), st.data())
@settings(max_examples=40)
def test_a_missing_token_is_found(drawn, data) -> None:
    _, program = drawn
    pairs = sorted({(other, item.engine) for item in program.instructions for other in item.wait})
    first, second = data.draw(st.sampled_from(pairs))

    def without(item):
        wait = tuple(engine for engine in item.wait if (engine, item.engine) != (first, second))
        signal = tuple(engine for engine in item.signal if (item.engine, engine) != (first, second))
        return replace(item, wait=wait, signal=signal)

    with pytest.raises(StreamError, match=r"instruction [0-9]+, '.*': it .*(token is missing|that no instruction)"):
        check(replace(program, instructions=[*map(without, program.instructions)]), SMALL)


@given(streams())
@settings(max_examples=20)
def test_engines_overlap_but_do_not_work_faster(drawn) -> None:
    _, program = drawn
    cycles = timeline(program, SMALL)
    busy = dict.fromkeys(Engine, 0)
    for item in program.instructions:
        busy[item.engine] += cycles_of(item, program.views, SMALL)
    assert (cycles.load, cycles.compute, cycles.store) == tuple(busy.values())
    latency = V1.load_latency + V1.compute_latency + V1.store_latency
    assert max(busy.values()) < cycles.cycles <= sum(busy.values()) + latency * len(program.instructions)
    assert 0 < cycles.utilisation < 1


def test_double_buffering_hides_loads() -> None:
    contraction = product(1, 256, 512, 256)
    _, program = emit_best(contraction, V1)
    cycles = timeline(program, V1)
    assert cycles.cycles < 0.75 * (cycles.load + cycles.compute + cycles.store)
    assert cycles.compute == (256 * 512 * 256) // TILE**3


@pytest.mark.parametrize("shape", [(1, 48, 80, 33), (1, 200, 40, 24), (2, 64, 64, 64)])
def test_the_chosen_blocks_are_near_the_best(shape) -> None:
    contraction = product(*shape)
    all_cycles = [timeline(emit(contraction, blocks, SMALL), SMALL).cycles for blocks in candidates(contraction, SMALL)]
    chosen = timeline(emit_best(contraction, SMALL)[1], SMALL).cycles
    assert chosen <= 1.15 * min(all_cycles)
    assert max(all_cycles) > 1.5 * chosen
    assert len(best(contraction, SMALL, count=3)) == 3


def test_lines_of_memory_are_moved_once() -> None:
    view = MemoryView(0, "f16", 0, line((64, 1024)), line((64, 1)))
    assert beats(view, Box(0, 0, 64, 0, 64), 64) == 128
    # The same elements, transposed.
    assert beats(replace(view, rows=view.columns, columns=view.rows), Box(0, 0, 64, 0, 64), 64) == 128
    # The windows of a convolution overlap.
    windows = MemoryView(0, "f16", 0, line((30, 8)), line((3, 8), (8, 1)))
    assert beats(windows, Box(0, 0, 30, 0, 24), 64) == 8


LEGAL = assemble(
    [
        "machine v1, arguments of 1024, 1024, 1024 bytes",
        "%0 = f16 argument 0 + 0, rows 32:16, columns 16:1",
        "%1 = f16 argument 1 + 0, rows 16:32, columns 32:1",
        "%2 = f16 argument 2 + 0, rows 32:16, columns 16:1",
        "load %0[0:16, 0:16] -> 0x0",
        "load %1[0:16, 0:16] -> 0x200 | signal compute",
        "multiply 0x0 * 0x200 -> 0x0, 1x1x1 f16*f16, start | wait load | signal store",
        "store 0x0 -> %2[0:16, 0:16] | wait compute",
    ]
)


@pytest.mark.parametrize(
    ("number", "line", "message"),
    [
        (0, "load %0[0:16, 0:16] -> 0x10", "address 0x10 is no multiple of 256"),
        (0, "load %0[0:16, 0:16] -> 0x80000", "it uses operands up to 0x80200, but there are 0x80000 bytes"),
        (0, "load %0[24:40, 0:16] -> 0x0", "view %0 has only 32 rows and 16 columns"),
        (0, "load %7[0:16, 0:16] -> 0x0", "there is no view %7"),
        (0, "load %0[0:0, 0:16] -> 0x0", "it moves nothing"),
        (0, "load %0[0:16, 0:16] -> 0x0 | signal load", "an engine needs no token of itself"),
        (2, "multiply 0x0 * 0x400 -> 0x0, 1x1x1 f16*f16, start | wait load", "it reads operands at 0x400 that no"),
        (2, "multiply 0x0 * 0x200 -> 0x0, 1x1x1 f16*f16, start", "it reads operands at 0x0 that may not be written"),
        (2, "multiply 0x0 * 0x200 -> 0x0, 1x1x1 f16*f16 | wait load", "it reads sums at 0x0 that no instruction"),
        (2, "multiply 0x0 * 0x200 -> 0x0, 1x1x0 f16*f16, start | wait load", "it multiplies no tiles"),
        (2, "multiply 0x0 * 0x200 -> 0x0, 1x1x1 f16*i8, start | wait load", "it multiplies floats by bytes"),
        (3, "store 0x0 -> %2[0:16, 0:16] | wait compute+load", "it waits for a token that no earlier load"),
        (3, "load %0[0:16, 0:16] -> 0x0", "it overwrites operands at 0x0 that may still be read"),
    ],
)
def test_illegal_instructions_are_named(number, line, message) -> None:
    check(LEGAL, V1)
    lines = disassemble(LEGAL)
    lines[4 + number] = line
    with pytest.raises(StreamError) as caught:
        check(assemble(lines), V1)
    assert str(caught.value).startswith(f"instruction {number}, '{line}': {message}")


def test_memory_out_of_bounds_is_found() -> None:
    with pytest.raises(StreamError, match="argument 1 has 256 elements, but it accesses 0 to 495"):
        check(replace(LEGAL, sizes=(1024, 512, 1024)), V1)


def test_sums_beyond_f16_become_infinite() -> None:
    contraction = product(1, 16, 16, 16, ("f16", "f16", "f16"))
    arrays = [np.full(256, 250, np.float16), np.full(256, 250, np.float16), np.zeros(256, np.float16)]
    Simulator(emit_best(contraction, V1)[1], V1).run([array.view(np.uint8) for array in arrays])
    assert np.isinf(arrays[2]).all()


def test_damaged_streams_are_one_error() -> None:
    data = encode(LEGAL)
    for damaged in (b"", data[:-1], data + b"\0", b"ELF" + data[3:], data[:-28] + b"\x07" + data[-27:]):
        with pytest.raises(EncodingError, match="not an instruction stream of the cube unit"):
            decode(damaged)
    for line in ("jump 0x0", "load %0[0:16] -> 0x0", "store 0x0 -> %0[0:1, 0:1] | wait me"):
        with pytest.raises(AssemblyError, match=re.escape(f"'{line}")):
            assemble([*disassemble(LEGAL), line])


def test_products_of_mostly_padding_stay_on_the_host() -> None:
    assert is_worthwhile(2304, 8, 8) and is_worthwhile(16, 16, 16)
    assert not is_worthwhile(1, 384, 384)
    assert not is_worthwhile(64, 1, 64)


def test_instructions_have_their_engines() -> None:
    assert [item.engine for item in LEGAL.instructions] == [Engine.LOAD, Engine.LOAD, Engine.COMPUTE, Engine.STORE]
    assert isinstance(LEGAL.instructions[0], Load) and isinstance(LEGAL.instructions[2], Multiply)
