"""The machine code of elementwise functions and rows, for the host and other machines: vectors, and no calls."""

from __future__ import annotations

import re

import pytest
from mlir import ir
from stepwell.dialects.registry import load_dialects
from stepwell.driver import route
from stepwell.driver.context import compiler_context
from stepwell.driver.state import state_for
from stepwell.lowering.llvm_to_object import codegen
from stepwell.lowering.target import Target

UNARY = ("exp", "log", "tanh", "erf", "sin", "cos", "sigmoid", "silu", "softplus", "gelu", "hard_swish", "elu", "sqrt")
ROWS = ("softmax", "log_softmax")
BINARY = ("pow", "add", "div", "maximum")
REGISTERS = {"x86-64-v3": r"%ymm", "x86-64-v4": r"%zmm", "aarch64": r"\bv\d+\.4s|\bq\d+"}


def program(name: str, element: str) -> str:
    kind = f"tensor<64x100x{element}>"
    operands, kinds = ("%x, %y", f"{kind}, {kind}") if name in BINARY else ("%x", kind)
    return (
        f"func.func @main(%x: {kind}, %y: {kind}) -> {kind} {{\n"
        f'  %0 = "stepwell.{name}"({operands}) : ({kinds}) -> {kind}\n  return %0 : {kind}\n}}'
    )


def kernel_code(text: str, target: str) -> str:
    with compiler_context() as context, ir.Location.unknown():
        load_dialects(context)
        module = ir.Module.parse(text)
        route.run(module, state_for(target), start="graph", stop="llvm")
        kernel = next(symbol for symbol in codegen.exported(module) if "kernel" in symbol)
        return codegen.assembly(module, kernel, Target.parse(target))


@pytest.mark.few(20)
@pytest.mark.parametrize("target", REGISTERS)
@pytest.mark.parametrize("name", [*UNARY, *BINARY, *ROWS])
def test_functions_are_vector_code(name: str, target: str) -> None:
    code = kernel_code(program(name, "f32"), target)
    assert len(re.findall(REGISTERS[target], code)) >= 4
    called = re.findall(r"\b(?:callq?|bl|jmp|b)\s+([a-z_][\w.]*)", code)
    assert [name for name in called if not name.startswith(("__kmpc", "stepwell", "kernel"))] == []


@pytest.mark.parametrize("element", ["f16", "bf16", "f64"])
@pytest.mark.parametrize("name", ["exp", "tanh", "gelu", "softmax", "add"])
def test_other_elements_call_nothing_either(name: str, element: str) -> None:
    for target in ("x86-64-v3", "x86-64-v4"):
        code = kernel_code(program(name, element), target)
        called = re.findall(r"\bcallq?\s+([a-z_][\w.]*)", code)
        assert [name for name in called if not name.startswith(("__kmpc", "stepwell", "kernel"))] == []
