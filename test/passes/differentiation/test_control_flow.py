"""Derivatives of loops and conditionals: against finite differences, in float64 and on the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from stepwell.dialects.interpreter import evaluate
from stepwell.dialects.registry import load_dialects
from stepwell.dialects.verifier import verify
from stepwell.passes.differentiation.differentiate import DifferentiatePass
from stepwell.passes.infra.base import PassError
from stepwell.passes.infra.state import CompileState
from stepwell.passes.ir.functions import body_of, main_function
from stepwell.passes.ir.named_ops import ops_named

from . import control_flow
from .slopes import slope

CASES = {
    "conditional": (control_flow.CONDITIONAL, [np.array(True)]),
    "other branch": (control_flow.CONDITIONAL, [np.array(False)]),
    "recurrence": (control_flow.RECURRENCE, []),
    "shared rows": (control_flow.SHARED_ROWS, []),
    "nested": (control_flow.NESTED, [np.array([True, False, True])]),
    "ends early": (control_flow.BOUNDED, [np.array([0.1, 0.2, 0.3]), np.array([0.5, 0.7, 0.9])]),
    "ends at the limit": (control_flow.BOUNDED, [np.array([0.1, 0.2, 0.3]), np.array([-0.5, 0.1, -0.3])]),
    "never begins again": (control_flow.BOUNDED, [np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.1, 0.3])]),
}


@pytest.fixture(scope="module")
def context():
    made = ir.Context()
    load_dialects(made)
    with made, ir.Location.unknown():
        yield made


@pytest.mark.parametrize("name", CASES)
def test_gradients_equal_finite_differences(context, name: str) -> None:
    text, given = CASES[name]
    plain, joint = ir.Module.parse(text), ir.Module.parse(text)
    DifferentiatePass(seeded=True).run(joint.operation, CompileState())
    verify(joint)
    random = np.random.default_rng(0)
    kinds = [ir.RankedTensorType(item.type) for item in body_of(main_function(plain.operation)).arguments]
    arguments = [*given, *(random.standard_normal(kind.shape) for kind in kinds[len(given) :])]
    values = evaluate(plain, "main", arguments, {})
    seeds = [random.standard_normal(value.shape) for value in values]
    found = evaluate(joint, "main", [*arguments, *seeds], {})
    smooth = [index for index, item in enumerate(arguments) if item.dtype == np.float64]
    assert len(found) == len(values) + len(smooth)
    for index, gradient in zip(smooth, found[len(values) :], strict=True):
        assert gradient.shape == arguments[index].shape
        direction = random.standard_normal(gradient.shape)
        expected = slope(plain, arguments, index, direction, seeds)
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-6, atol=1e-6)


def test_gradients_of_weights_are_one_product_after_the_loop(context) -> None:
    joint = ir.Module.parse(control_flow.RECURRENCE)
    DifferentiatePass(wrt=("input1",), seeded=True).run(joint.operation, CompileState())
    forward, backward = ops_named(joint, "scf.for")
    body = body_of(main_function(joint.operation))
    products = [item for item in ops_named(joint, "stepwell.matmul") if item.operation.block == body]
    assert len(products) == 1
    # The backward loop carries the gradient of the state and the rows of the product; the other rows are saved ones.
    assert len(forward.results) == 3
    assert [str(item.type) for item in backward.results] == ["tensor<2x4xf64>", "tensor<5x2x4xf64>"]


def test_a_loop_without_a_limit_is_refused(context) -> None:
    text = control_flow.BOUNDED.replace("%both = arith.andi %early, %goes", "%both = arith.andi %goes, %goes")
    with pytest.raises(PassError, match="nothing bounds its number of iterations"):
        DifferentiatePass(seeded=True).run(ir.Module.parse(text).operation, CompileState())
