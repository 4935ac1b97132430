"""Bounds on the machine code of the most important kernels, for the host and other machines.

The inner loops are analysed, not timed: their multiply-adds per iteration, instructions that access the stack or
shuffle, and cycles per iteration as llvm-mca estimates them for data in the cache. A failure prints a table of the
kernel's loops.
"""

from __future__ import annotations

import functools
import math
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.lowering import llvm
from stepwell.lowering.llvm_to_object import codegen
from stepwell.lowering.target import Target

# The modelled processor of each target, and the minimum number of cycles per vector multiply-add on it.
CPUS = {"x86-64-v3": "znver3", "x86-64-v4": "skylake-avx512", "aarch64": "neoverse-v1"}
BEST = {"x86-64-v3": 0.5, "x86-64-v4": 0.5, "aarch64": 0.25}
ROUNDS = 100

PRODUCT = r"\b(vfn?madd|fmla)"
SHUFFLE = r"\b(vperm|vshuf|vinsert|vextract|vunpck|zip|uzp|trn|ext)"
STACK = r"\(%rsp|\[sp"
JUMP = r"\s+(?:j\w+|b\.\w+|cbn?z\s+\w+,|b)\s+(\.LBB\w+)"

MATMUL = """
  %0 = "stepwell.packed_matmul"(%x, %w) {columns = 384 : i64, panel = PANEL : i64}
    : (tensor<128x384xf32>, tensor<147456xf32>) -> tensor<128x384xf32>
  %1 = "stepwell.gelu"(%0) : (tensor<128x384xf32>) -> tensor<128x384xf32>"""
UNPACKED = """
  %1 = "stepwell.matmul"(%x, %w) : (tensor<4x128x64xf32>, tensor<4x64x128xf32>) -> tensor<4x128x128xf32>"""
CONV_1X1 = """
  %1 = "stepwell.packed_conv"(%x, %w) {columns = 128 : i64, panel = PANEL : i64, kernel = array<i64: 1, 1>,
    strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x28x28x64xf32>, tensor<8192xf32>) -> tensor<1x28x28x128xf32>"""
CONV_3X3 = """
  %1 = "stepwell.packed_conv"(%x, %w) {columns = 64 : i64, panel = PANEL : i64, kernel = array<i64: 3, 3>,
    strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x30x30x64xf32>, tensor<36864xf32>) -> tensor<1x28x28x64xf32>"""
STRIDED = CONV_3X3.replace("1, 1>, dil", "2, 2>, dil").replace("30x30", "57x57")
DEPTHWISE = """
  %1 = "stepwell.packed_depthwise_conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}
    : (tensor<1x42x42x64xf32>, tensor<3x3x64xf32>) -> tensor<1x40x40x64xf32>"""
WINOGRAD = """
  %1 = "stepwell.winograd_conv"(%x, %w) {columns = 64 : i64, panel = PANEL : i64, tile = 4 : i64,
    pads = array<i64: 1, 1, 1, 1>} : (tensor<1x56x56x64xf32>, tensor<147456xf32>) -> tensor<1x56x56x64xf32>"""
ATTENTION = """
  %1 = "stepwell.attention"(%q, %k, %v) {scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>}
    : (tensor<1x4x128x64xf32>, tensor<1x4x128x64xf32>, tensor<1x4x128x64xf32>) -> tensor<1x4x128x64xf32>"""
SOFTMAX = """
  %1 = "stepwell.softmax"(%x) : (tensor<64x512xf32>) -> tensor<64x512xf32>"""
LAYER_NORM = """
  %1 = "stepwell.layer_norm"(%x, %w, %w) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<64x384xf32>, tensor<384xf32>, tensor<384xf32>) -> tensor<64x384xf32>"""
GELU = """
  %1 = "stepwell.gelu"(%x) : (tensor<64x512xf32>) -> tensor<64x512xf32>"""


KERNELS = {
    "matmul": MATMUL,
    "unpacked matmul": UNPACKED,
    "conv 1x1": CONV_1X1,
    "conv 3x3": CONV_3X3,
    "strided conv": STRIDED,
    "depthwise": DEPTHWISE,
    "winograd": WINOGRAD,
    "attention": ATTENTION,
    "softmax": SOFTMAX,
    "layer norm": LAYER_NORM,
    "gelu": GELU,
}


@dataclass(frozen=True)
class Loop:
    """An inner loop.

    Attributes:
        instructions: number of instructions per iteration.
        products: number of vector multiply-adds among them.
        stack: number of instructions that read or write the stack.
        shuffles: number of instructions that move elements within or between vectors.
        cycles: duration of an iteration in cycles.
    """

    instructions: int
    products: int
    stack: int
    shuffles: int
    cycles: float

    @property
    def cycles_per_product(self) -> float:
        """Number of cycles per multiply-add, including the instructions that it needs."""
        return self.cycles / self.products if self.products else math.inf

    def __str__(self) -> str:
        counts = f"{self.instructions:12d} {self.products:8d} {self.stack:5d} {self.shuffles:8d}"
        return f"{counts} {self.cycles:6.1f} {self.cycles_per_product:18.2f}"


HEADING = "instructions products stack shuffles cycles cycles per product"


@pytest.mark.few(10)
@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize(
    "kernel", ["matmul", "unpacked matmul", "conv 1x1", "conv 3x3", "strided conv", "winograd", "attention"]
)
def test_contractions_multiply_all_the_time(kernel: str, target: str) -> None:
    loops = loops_of(kernel, target)
    # Attention has two contractions; winograd's transforms are not contractions.
    wanted = 2 if kernel == "attention" else 1
    fast = [loop for loop in loops if loop.cycles_per_product <= 1.15 * BEST[target] and loop.products >= 10]
    assert len(fast) >= wanted and not any(loop.stack or loop.shuffles for loop in fast), table(kernel, target, loops)


@pytest.mark.parametrize("target", CPUS)
def test_depthwise_convolutions_read_neighbours_once(target: str) -> None:
    loops = loops_of("depthwise", target)
    best = loops[0]
    is_fast = best.products >= 30 and best.cycles_per_product <= 1.25 * BEST[target]
    assert is_fast and not best.shuffles and not best.stack, table("depthwise", target, loops)


@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize(("kernel", "most"), [("softmax", 18), ("layer norm", 8), ("gelu", 24)])
def test_rows_stay_in_registers(kernel: str, most: float, target: str) -> None:
    loops = loops_of(kernel, target)
    # One constant may be read from the stack.
    assert loops and all(loop.stack <= 1 and loop.cycles <= most for loop in loops), table(kernel, target, loops)


def test_exponentials_take_few_instructions_where_one_scales_and_selects() -> None:
    loops = loops_of("softmax", "x86-64-v4")
    # Two vectors per iteration, each with eight multiply-adds and sums, a bound, a comparison, and a scaling that
    # zeroes tiny results.
    assert loops[0].instructions <= 39 and loops[0].cycles <= 17, table("softmax", "x86-64-v4", loops)


def test_a_failure_shows_the_loops() -> None:
    text = table("gelu", "x86-64-v3", [Loop(12, 4, 1, 0, 3.0)])
    assert text == (
        "gelu for x86-64-v3, which takes 0.5 cycles per product at best:\n"
        f"{HEADING}\n          12        4     1        0    3.0               0.75"
    )


def test_loops_are_measured() -> None:
    body = ["\tvmovups\t(%rsp), %ymm1", *("\tvfmadd231ps\t%ymm1, %ymm1, %ymm2",) * 2, "\tvpermps\t%ymm1, %ymm1, %ymm3"]
    code = [".LBB0_1:", "\tvaddps\t%ymm0, %ymm0, %ymm0", ".LBB0_2:", *body, "\tjne\t.LBB0_2", "\tjne\t.LBB0_1"]
    (lines,) = inner_loops("\n".join(code))
    loop = measured(lines, "x86-64-v3")
    assert (loop.instructions, loop.products, loop.stack, loop.shuffles) == (5, 2, 1, 1)
    # Each product waits for the sum of the previous one.
    assert loop.cycles == pytest.approx(8, abs=0.5)


def table(kernel: str, target: str, loops: Sequence[Loop]) -> str:
    """Returns a table of a kernel's loops."""
    title = f"{kernel} for {target}, which takes {BEST[target]} cycles per product at best:"
    return "\n".join([title, HEADING, *map(str, loops)])


@functools.cache
def loops_of(kernel: str, name: str) -> Sequence[Loop]:
    """Returns the inner loops of a program's only kernel at the phase `graph`, those with most multiply-adds first."""
    target = Target.parse(name)
    text = KERNELS[kernel].replace("PANEL", str(2 * target.lanes(4)))
    kinds = dict(zip(re.findall(r"%[a-z]\b", text), re.findall(r"tensor<[^>]+>", text.split("} :")[-1]), strict=False))
    result = re.findall(r"-> (tensor<[^>]+>)", text)[-1]
    arguments = ", ".join(f"{value}: {kind}" for value, kind in kinds.items())
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parse(f"func.func @main({arguments}) -> {result} {{{text}\n  return %1 : {result}\n}}")
        route.run(module, state_for(name), start="graph", stop="llvm")
        symbol = next(symbol for symbol in codegen.exported(module) if "kernel" in symbol)
        assembly = codegen.assembly(module, symbol, target)
    return sorted((measured(lines, name) for lines in inner_loops(assembly)), key=lambda loop: -loop.products)


def inner_loops(assembly: str) -> Iterator[list[str]]:
    """Yields the instructions of every loop that contains no other loop."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    for number, line in enumerate(lines):
        if match := re.match(r"(\.LBB\w+):", line):
            labels[match[1]] = number
        if (match := re.match(JUMP, line)) and match[1] in labels:
            body = lines[labels[match[1]] + 1 : number + 1]
            if not any(line.startswith(".LBB") for line in body):
                yield [line for line in body if re.match(r"\s+[a-z]", line)]


def measured(lines: list[str], name: str) -> Loop:
    """Measures a loop with llvm-mca."""
    target = Target.parse(name)
    command = [str(llvm.tool("llvm-mca")), f"-mtriple={target.triple}", f"-mcpu={CPUS[name]}", f"-iterations={ROUNDS}"]
    comment = r"//.*" if name == "aarch64" else r"#.*"
    code = "\n".join(re.sub(comment, "", line) for line in lines if not re.match(JUMP, line))
    report = subprocess.run(command, input=code, capture_output=True, text=True, check=True).stdout
    cycles = re.search(r"Total Cycles:\s+(\d+)", report)
    assert cycles is not None
    products, stack, shuffles = (
        sum(re.search(pattern, line) is not None for line in lines) for pattern in (PRODUCT, STACK, SHUFFLE)
    )
    return Loop(len(lines), products, stack, shuffles, int(cycles[1]) / ROUNDS)
