"""The verifier, and the examples in the docstrings of the ops."""

from __future__ import annotations

import inspect
import re
import time

import pytest
from mlir import ir
from stepwell.dialects.registry import STEPWELL
from stepwell.dialects.verifier import VerificationError, verify

EXAMPLES = [
    (name, example)
    for name, op in STEPWELL.ops.items()
    for example in re.findall(r"```mlir\n(.*?)```", inspect.getdoc(op) or "", re.DOTALL)
]


def test_every_op_has_an_example():
    assert {name for name, _ in EXAMPLES} == set(STEPWELL.ops)


@pytest.mark.parametrize(("name", "example"), EXAMPLES, ids=[name for name, _ in EXAMPLES])
def test_examples_are_valid_and_round_trip(context, name, example):
    names = re.search(r"\(([^)]*)\)", example)
    kinds = re.search(r": \((.*?)\)\s*->", example, re.DOTALL)
    assert names is not None
    assert kinds is not None
    arguments = [f"{value}: {kind}" for value, kind in zip(_split(names[1]), _split(kinds[1]), strict=True)]
    module = ir.Module.parse(f"func.func @f({', '.join(arguments)}) {{ {example} return }}")
    assert f'"{name}"' in str(module)
    verify(module)
    assert str(ir.Module.parse(str(module))) == str(module)


def _split(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def check(body: str) -> None:
    verify(ir.Module.parse(f"func.func @f(%x: tensor<3x4xf32>) {{\n{body}\nreturn\n}}"))


def softmax(attributes: str, result: str = "3x4xf32") -> str:
    return f'%0 = "stepwell.softmax"(%x) {{{attributes}}} : (tensor<3x4xf32>) -> tensor<{result}>'


@pytest.mark.parametrize("text", [softmax(""), softmax("axis = 0"), softmax("", "?x4xf32")])
def test_valid_ops_pass(context, text):
    check(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (softmax("axis = 5"), "'stepwell.softmax' op axis 5 is out of range for rank 2"),
        (softmax("axes = 1"), "'stepwell.softmax' op has no attribute 'axes'"),
        (softmax("operandSegmentSizes = array<i32: 1>"), "op has no attribute 'operandSegmentSizes'"),
        (softmax("", "3x5xf32"), "op inferred type 3x4xf32 differs from the declared 3x5xf32"),
        (softmax("", "3x4xf64"), "op inferred type 3x4xf32 differs from the declared 3x4xf64"),
        (softmax("", "12xf32"), "op inferred type 3x4xf32 differs from the declared 12xf32"),
        (softmax("", "3x4xi3"), "op element type i3 is not supported: expected one of f64"),
        ('%0 = "stepwell.relu"(%x) : (tensor<3x4xf32>) -> f32', "takes and returns ranked tensors, but one is f32"),
    ],
)
def test_errors_name_the_fault(context, text, message):
    with pytest.raises(VerificationError, match=re.escape(message)) as caught:
        check(text)
    (violation,) = caught.value.violations
    assert ":2:" in str(violation.location)


def test_all_errors_are_listed(context):
    with pytest.raises(VerificationError) as caught:
        check(softmax("axis = 5") + "\n" + softmax("axis = 6").replace("%0", "%1"))
    assert ["axis 5" in violation.message for violation in caught.value.violations] == [True, False]


def test_errors_of_mlir_are_reported_in_the_same_way(context):
    module = ir.Module.parse("func.func @f(%x: tensor<3xf32>) -> tensor<3xf32> { return %x : tensor<3xf32> }")
    module.body.operations[0].attributes["function_type"] = ir.TypeAttr.parse("() -> tensor<3xf32>")
    with pytest.raises(VerificationError, match=r"func\.func"):
        verify(module)


def test_thousands_of_ops_take_no_time(context):
    lines = [f'%{i + 1} = "stepwell.tanh"(%{i}) : (tensor<?x4xf32>) -> tensor<?x4xf32>' for i in range(2000)]
    module = ir.Module.parse("func.func @f(%0: tensor<?x4xf32>) {\n" + "\n".join(lines) + "\nreturn\n}")
    start = time.perf_counter()
    verify(module)
    assert time.perf_counter() - start < 2
