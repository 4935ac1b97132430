"""The machine code of key kernels, read rather than timed: multiply-adds from registers, and no spills."""

from __future__ import annotations

import re

import pytest
from mlir import ir
from stepwell.dialects.stepwell import STEPWELL
from stepwell.lowering import phases
from stepwell.lowering.llvm_to_object import codegen
from stepwell.lowering.target import Target

MATMUL = """
func.func @main(%x: tensor<128x384xf32>, %w: tensor<147456xf32>, %b: tensor<384xf32>) -> tensor<128x384xf32> {{
  %0 = "stepwell.packed_matmul"(%x, %w) {{columns = 384 : i64, panel = {panel} : i64}}
    : (tensor<128x384xf32>, tensor<147456xf32>) -> tensor<128x384xf32>
  %1 = "stepwell.add"(%0, %b) : (tensor<128x384xf32>, tensor<384xf32>) -> tensor<128x384xf32>
  %2 = "stepwell.relu"(%1) : (tensor<128x384xf32>) -> tensor<128x384xf32>
  return %2 : tensor<128x384xf32>
}}
"""
CONV = """
func.func @main(%x: tensor<1x{size}x{size}x64xf32>, %w: tensor<36864xf32>) -> tensor<1x28x28x64xf32> {{
  %0 = "stepwell.packed_conv"(%x, %w) {{columns = 64 : i64, panel = {panel} : i64, kernel = array<i64: 3, 3>,
    strides = array<i64: {stride}, {stride}>, dilations = array<i64: 1, 1>}}
    : (tensor<1x{size}x{size}x64xf32>, tensor<36864xf32>) -> tensor<1x28x28x64xf32>
  return %0 : tensor<1x28x28x64xf32>
}}
"""
DEPTHWISE = """
func.func @main(%x: tensor<1x42x42x48xf32>, %w: tensor<3x3x48xf32>) -> tensor<1x40x40x48xf32> {{
  %0 = "stepwell.packed_depthwise_conv"(%x, %w) {{strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>}}
    : (tensor<1x42x42x48xf32>, tensor<3x3x48xf32>) -> tensor<1x40x40x48xf32>
  return %0 : tensor<1x40x40x48xf32>
}}
"""


@pytest.mark.parametrize(("name", "least"), [("x86-64-v3", 10), ("x86-64-v4", 24)])
@pytest.mark.parametrize(
    "text",
    [
        MATMUL,
        CONV.replace("{size}", "30").replace("{stride}", "1"),
        CONV.replace("{size}", "57").replace("{stride}", "2"),
    ],
)
def test_contraction_multiplies_from_registers(text: str, name: str, least: int) -> None:
    target = Target.parse(name)
    loops = inner_loops(kernel_assembly(text.format(panel=2 * target.lanes(4)), name))
    assert loops
    for loop in loops:
        products = count(loop, "vfmadd")
        assert products >= least
        # Beside the products: one broadcast per row, the row of the weight, and what is left of two steps' loop.
        assert len(loop) <= products + products * 7 // 10 + 8
        assert count(loop, r"\(%rsp") == 0


@pytest.mark.parametrize("name", ["x86-64-v3", "x86-64-v4"])
def test_depthwise_reads_neighbours_once(name: str) -> None:
    for loop in inner_loops(kernel_assembly(DEPTHWISE.format(), name)):
        assert count(loop, "vfmadd") >= 30
        assert count(loop, "(vpermt|vshuf|vinsert|vextract)") == 0


def kernel_assembly(text: str, target: str) -> str:
    """The assembly of the one kernel of a program at the phase `graph`."""
    with ir.Context() as context, ir.Location.unknown():
        STEPWELL.load(context)
        module = ir.Module.parse(text)
        phases.run(module, target, start="graph", stop="llvm")
        kernel = next(symbol for symbol in codegen.exported(module) if "kernel" in symbol)
        return codegen.assembly(module, kernel, Target.parse(target))


def inner_loops(assembly: str) -> list[list[str]]:
    """The instructions of every loop that has multiply-adds and no loop inside."""
    lines = assembly.splitlines()
    labels, loops = {}, []
    for number, line in enumerate(lines):
        if match := re.match(r"(\.LBB\w+):", line):
            labels[match[1]] = number
        if (match := re.match(r"\s+j\w+\s+(\.LBB\w+)", line)) and match[1] in labels:
            body = lines[labels[match[1]] + 1 : number + 1]
            if not any(line.startswith(".LBB") for line in body) and count(body, "vfmadd"):
                loops.append([line for line in body if re.match(r"\s+[a-z]", line)])
    return loops


def count(lines: list[str], pattern: str) -> int:
    """How many of the lines match."""
    return sum(re.search(pattern, line) is not None for line in lines)
