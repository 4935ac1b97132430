"""Derivatives of all ops: against finite differences, in float64 and through the ops' references."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from mlir import ir
from mlir.dialects import func
from stepwell.dialects import discardable
from stepwell.dialects.core import OPS
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.stepwell.constant import ConstantOp
from stepwell.dialects.types import TensorSpec, tensor_type
from stepwell.dialects.verifier import verify
from stepwell.passes.differentiation.derivative import DERIVATIVE
from stepwell.passes.differentiation.differentiate import DifferentiatePass
from stepwell.passes.infra.state import CompileState

from .cases import CASES, Case
from .slopes import slope


def program_of(case: Case) -> ir.Module:
    """A module whose @main takes the operands and returns the result of the op."""
    module = ir.Module.create()
    given = [item for item in case.operands if item is not None and case.takes(item)]
    kinds = [tensor_type(TensorSpec(item.shape, item.dtype)) for item in given]
    with ir.InsertionPoint(module.body):
        main = func.FuncOp("main", (kinds, []))
    with ir.InsertionPoint(main.add_entry_block()):
        arguments = iter(main.arguments)
        values = [_operand(case, item, arguments) for item in case.operands]
        results = list(case.kind(*values, **case.attributes).operation.results)
        func.ReturnOp(results)
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(kinds, [item.type for item in results]))
    names = [ir.DictAttr.get(discardable.NAME.entry(str(index))) for index in range(len(given))]
    main.attributes["arg_attrs"] = ir.ArrayAttr.get(names)
    return module


def _operand(case: Case, item: np.ndarray | None, arguments: Iterator[ir.Value]) -> ir.Value | None:
    if case.takes(item):
        return next(arguments)
    return None if item is None else ConstantOp(value=item).result


@pytest.fixture(scope="module")
def context():
    made = ir.Context()
    load_dialects(made)
    with made, ir.Location.unknown():
        yield made


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_equal_finite_differences(context, case: Case) -> None:
    given = [item for item in case.operands if item is not None and case.takes(item)]
    plain, joint = program_of(case), program_of(case)
    DifferentiatePass(seeded=True).run(joint.operation, CompileState())
    verify(joint)
    values = evaluate(plain, "main", given, {})
    random = np.random.default_rng(0)
    seeds = [random.standard_normal(value.shape) for value in values]
    found = evaluate(joint, "main", [*given, *seeds], {})
    gradients = found[len(values) :]
    for result, value in zip(found, values, strict=False):
        np.testing.assert_array_equal(result, value)
    smooth = [index for index, item in enumerate(given) if item.dtype == np.float64]
    assert [item.shape for item in gradients] == [given[index].shape for index in smooth]
    for index, gradient in zip(smooth, gradients, strict=True):
        if case.kind.OPERATION_NAME == "stepwell.mask" and index == 1:
            assert not gradient.any()
            continue
        direction = random.standard_normal(given[index].shape)
        expected = slope(plain, given, index, direction, seeds)
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-6, atol=1e-6)


def test_every_op_with_a_derivative_has_a_case() -> None:
    known = {case.kind.OPERATION_NAME for case in CASES}
    named = {name for name, kind in OPS.items() if name.startswith("stepwell.") and DERIVATIVE.of(kind) is not None}
    assert named - known == set()


def test_ops_without_a_derivative_are_known() -> None:
    text = Path(__file__).with_name("without_derivative.txt").read_text(encoding="utf-8")
    listed = dict(line.split(": ", 1) for line in text.splitlines())
    found = [name for name, kind in OPS.items() if name.startswith("stepwell.") and DERIVATIVE.of(kind) is None]
    assert sorted(found) == list(listed)
    differentiable = [name for name, reason in listed.items() if reason.startswith("differentiable: ")]
    assert differentiable == ["stepwell.roi_align", "stepwell.roi_max_pool"]
